//! SCE: figures 1, 4, 5 (sysbench) and 6 (a skewed OLTP load): how a flash cache can make a database slower,
//! and how one does not.
//!
//! Caches are below the database here, in the block layer, and the replay's devices say when things are done.

mod run;
mod sweep;
mod workload;

use super::chapter::{Chapter, Rows};
use super::{Context, Effort, Paper};
use crate::bench::parallel;
use crate::paper::judged;
use crate::paper::sce::{self as paper, Measured, Runs, System, change};
use crate::replay::Places;
use crate::replay::tier::BLOCK_BYTES;
use crate::report::{Axis, Bar, BarChart, BarGroup, Block, Chart, Column, Line, LineChart, Section, Table};
use entresol_runtime::say::thousands;
use sweep::Sweep;
use workload::{Shape, Workload};

/// OLTP: DRAM and flash by the database, 15 and 40 GiB by 240.
const OLTP_SHARES: [f64; 2] = [15.0 / 240.0, 40.0 / 240.0];

/// How much is run.
struct Plan {
    /// MiB of each database.
    fragments: u32,
    /// References to each MiB of sysbench's, and of the OLTP load's.
    references: [u64; 2],
}

impl Plan {
    const fn of(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self { fragments: 512, references: [1000, 1500] },
            Effort::Full => Self { fragments: 8192, references: [1000, 1500] },
        }
    }

    /// Fragments of flash for so much of the paper's database.
    fn flash(&self, gib: f64) -> u32 {
        (f64::from(self.fragments) * (gib / paper::DATABASE_GIB).min(1.0)).ceil() as u32
    }
}

/// Both loads.
fn loads(plan: &Plan, seed: u64) -> anyhow::Result<[Workload; 2]> {
    let references = plan.references[0] * u64::from(plan.fragments);
    let dram_share = paper::MEMORY_GIB / paper::DATABASE_GIB;
    Ok([
        workload::sysbench(plan.fragments, references, dram_share, seed)?,
        oltp_load(plan, Shape::CHOSEN, seed)?,
    ])
}

fn oltp_load(plan: &Plan, shape: Shape, seed: u64) -> anyhow::Result<Workload> {
    let references = plan.references[1] * u64::from(plan.fragments);
    workload::oltp(plan.fragments, references, OLTP_SHARES[0], shape, seed)
}

/// Reproduces the paper.
pub(super) fn chapter(context: &Context<'_>) -> anyhow::Result<Chapter> {
    let plan = Plan::of(context.effort);
    (context.progress)("sysbench", 0.0);
    let [sysbench, oltp] = loads(&plan, context.seed)?;
    let runs = all_runs(context, &plan, [&sysbench, &oltp], None, 0.0)?;
    let setup = setup(&plan, &sysbench);
    drop((sysbench, oltp));
    let sweep = Sweep::new(context)?;
    (context.progress)("done", 1.0);
    let mut sections = sections(&runs);
    sections.extend(sweep.sections());
    Ok(Chapter {
        paper: Paper::Sce.name(),
        title: Paper::Sce.title(),
        setup,
        rows: rows(&runs).into_vec(),
        claims: judged(paper::CLAIMS, &[&runs]),
        depends_on: sweep.sentences(),
        sections,
    })
}

/// flashcache's block where it is smaller than a page, and where it is larger than MySQL's.
const BLOCKS: [u32; 2] = [BLOCK_BYTES, 32 << 10];

/// All runs. `flash_writes`: the rate of the flash's random writes, if it is not the catalogue's.
fn all_runs(
    context: &Context<'_>,
    plan: &Plan,
    [sysbench, oltp]: [&Workload; 2],
    flash_writes: Option<f64>,
    behind: f64,
) -> anyhow::Result<Runs> {
    let [small, half, large] =
        [paper::SMALL_GIB, paper::HALF_GIB, paper::LARGE_GIB].map(|gib| plan.flash(gib));
    let jobs = [
        (System::NoCache, small, BLOCKS[0]),
        (System::WRITE_THROUGH, small, BLOCKS[0]),
        (System::WRITE_THROUGH, half, BLOCKS[0]),
        (System::WRITE_THROUGH, large, BLOCKS[0]),
        (System::WRITE_AROUND, small, BLOCKS[0]),
        (System::WRITE_THROUGH, small, BLOCKS[1]),
        (System::Sce, small, BLOCKS[0]),
        (System::Sce, large, BLOCKS[0]),
    ];
    let all = run_jobs(context, sysbench, "sce-raid", &jobs, flash_writes, behind)?;
    let [none, flash_small, flash_half, flash_large, around, large_blocks, sce_small, sce_large] =
        <[Measured; 8]>::try_from(all).expect("as many results as jobs");
    Ok(Runs {
        none,
        flashcache: [flash_small, flash_half, flash_large],
        around,
        large_blocks,
        sce: [sce_small, sce_large],
        oltp: oltp_runs(context, plan, oltp, flash_writes, behind)?,
    })
}

/// The OLTP load without a cache, with flashcache in write-through and write-back, and with SCE.
fn oltp_runs(
    context: &Context<'_>,
    plan: &Plan,
    oltp: &Workload,
    flash_writes: Option<f64>,
    behind: f64,
) -> anyhow::Result<[Measured; 4]> {
    let flash = (f64::from(plan.fragments) * OLTP_SHARES[1]) as u32;
    let systems = [System::NoCache, System::WRITE_THROUGH, System::WRITE_BACK, System::Sce];
    let jobs = systems.map(|system| (system, flash, BLOCKS[0]));
    let all = run_jobs(context, oltp, "sce-san", &jobs, flash_writes, behind)?;
    Ok(<[Measured; 4]>::try_from(all).expect("as many results as jobs"))
}

/// Runs a load on each system, with so many fragments of flash and blocks of so many bytes.
fn run_jobs(
    context: &Context<'_>,
    workload: &Workload,
    disk: &str,
    jobs: &[(System, u32, u32)],
    flash_writes: Option<f64>,
    behind: f64,
) -> anyhow::Result<Vec<Measured>> {
    let places = Places::of(&workload.trace);
    parallel::map(jobs, |_, &(system, flash, block_bytes)| {
        (context.progress)(disk, behind);
        run::run(workload, &places, &run::Setup { system, flash, disk, flash_writes, block_bytes })
    })
}

fn setup(plan: &Plan, sysbench: &Workload) -> Vec<String> {
    vec![
        format!(
            "A database of {} MiB ({} pages of 16 KiB) for the paper's 77 GiB; DRAM and flash are the same shares of it. \
             sysbench is generated: references by the Pareto 80–20 rule, hot rows next to each other, through a DRAM layer of \
             15/77 (LRU); so many of them change their page that below it about as much is written as read, as in figure 1b \
             (where log and doublewrite are part of it).",
            thousands(plan.fragments),
            thousands(sysbench.pages)
        ),
        "Throughput is references a second in a closed loop of 32 clients. The paper measures transactions; each has the same \
         number of references."
            .into(),
        "Two rates are taken from figure 1: without a cache the disks carry 31 MiB/s, 1,984 pages of 16 KiB; and flashcache \
         writes 22 MiB/s to flash with 20 and with 40 GiB alike, which is taken for the drive's limit: 5,632 requests of 4 KiB \
         a second, flashcache's block. (22 + 2.5) / 31 and (22 + 6.5) / 31 are −21.0 % and −8.1 %; the paper has −22.6 % and \
         −9.5 %. What that rate makes true is given by calibration. Figure 6 has another SSD (825 GB, another vendor), of which \
         no rate is given: the same one is taken."
            .into(),
        "flashcache as its manual has it: it populates in line, so a client that missed waits until the page is on flash; \
         requests are split into blocks of 4 KiB; metadata is written in write-back only, when a page becomes dirty and when \
         it is cleaned. SCE's populations occupy disk and flash for a MiB each. In all systems dirty pages are written by the \
         database's page cleaners, 64 at a time."
            .into(),
        "Figure 6 is not reproduced with TPC-E: an OLTP load whose hot MiBs (one in eight; they get 90 % of the references) lie \
         scattered, pages of 8 KiB, flash of 40/240 and DRAM of 15/240 of the database, a volume of 10,000 reads a second. \
         The paper gives no rate of its volume and no size of its database: directions, not digits, and the load's shape was chosen with figure 6 in view."
            .into(),
    ]
}

fn rows(runs: &Runs) -> Rows {
    let mut rows = Rows::new();
    let percent = ("% against no cache", 1);
    let [flash_small, flash_half, flash_large] = &runs.flashcache;
    let [sce_small, sce_large] = &runs.sce;
    let over = |sce: &Measured, flashcache: &Measured| Some(change(sce, flashcache));
    let by = ("% against flashcache", 1);
    for (at, (sce, flashcache)) in
        [(sce_small, flash_small), (sce_large, flash_large)].into_iter().enumerate()
    {
        let what = format!("throughput, sce by flashcache with {} GiB", ["20", "80"][at]);
        rows.add("SCE abstract", what, by, Some(paper::OVER_FLASHCACHE[at]), over(sce, flashcache));
    }
    let around = Some(change(&runs.around, &runs.none));
    rows.add("SCE §2", "throughput, flashcache in write-around with 20 GiB", percent, None, around);
    let tps: [(&str, &str, f64, &Measured); 5] = [
        ("SCE figure 1", "throughput, flashcache with 20 GiB", paper::FIGURE_1_FLASHCACHE[0], flash_small),
        ("SCE figure 1", "throughput, flashcache with 40 GiB", paper::FIGURE_1_FLASHCACHE[1], flash_half),
        ("SCE figure 4", "throughput, sce with 20 GiB", paper::FIGURE_4_SCE, sce_small),
        ("SCE figure 5", "throughput, flashcache with 80 GiB", paper::FIGURE_5[0], flash_large),
        ("SCE figure 5", "throughput, sce with 80 GiB", paper::FIGURE_5[1], sce_large),
    ];
    for (source, what, number, measured) in tps {
        rows.add(source, what, percent, Some(number), Some(change(measured, &runs.none)));
    }
    for (at, (size, measured)) in [("20", flash_small), ("40", flash_half)].into_iter().enumerate() {
        let hits = Some(paper::FLASHCACHE_HITS[at]);
        rows.add(
            "SCE §2",
            format!("read hits, flashcache with {size} GiB"),
            ("%", 1),
            hits,
            Some(measured.hit_rate * 100.0),
        );
        let [read, written, ..] = measured.traffic_mib_s;
        let paper_written = Some(paper::FLASHCACHE_FLASH_WRITE_MIB_S);
        let paper_read = Some(paper::FLASHCACHE_FLASH_READ_MIB_S[at]);
        rows.add(
            "SCE figure 1",
            format!("flash writes, flashcache with {size} GiB"),
            ("MiB/s", 1),
            paper_written,
            Some(written),
        );
        rows.add(
            "SCE figure 1",
            format!("flash reads, flashcache with {size} GiB"),
            ("MiB/s", 1),
            paper_read,
            Some(read),
        );
    }
    for (what, at, number) in
        [("disk reads", 2, paper::DISK_MIB_S[0]), ("disk writes", 3, paper::DISK_MIB_S[1])]
    {
        let ours = runs.none.traffic_mib_s[at];
        rows.add("SCE figure 1", format!("{what}, no cache"), ("MiB/s", 1), Some(number), Some(ours));
    }
    let [none, through, back, sce] = &runs.oltp;
    let numbers = [Some(paper::FIGURE_6[0]), None, Some(paper::FIGURE_6[1])];
    for (measured, number) in [through, back, sce].into_iter().zip(numbers) {
        let what = format!("throughput, {}", measured.system.name());
        rows.add("SCE figure 6", what, percent, number, Some(change(measured, none)));
    }
    // "Almost same response time" in write-back as with SCE (figure 6b).
    let [paper_through, paper_sce] = paper::FIGURE_6_RESPONSE;
    for (measured, number) in [(through, paper_through), (back, paper_sce), (sce, paper_sce)] {
        let what = format!("response, {}", measured.system.name());
        let ours = measured.response_us / none.response_us;
        rows.add("SCE figure 6", what, ("× no cache", 2), Some(number), Some(ours));
    }
    rows
}

fn sections(runs: &Runs) -> Vec<Section> {
    let [flash_small, flash_half, flash_large] = &runs.flashcache;
    let [sce_small, sce_large] = &runs.sce;
    vec![
        over_time(
            "Figure 1: flashcache",
            &[(&runs.none, ""), (flash_small, "20 GiB"), (&runs.around, "20 GiB"), (flash_half, "40 GiB")],
        ),
        over_time(
            "Figure 4: flash of 1/4",
            &[(&runs.none, ""), (flash_small, "20 GiB"), (sce_small, "20 GiB")],
        ),
        over_time(
            "Figure 5: flash for all",
            &[(&runs.none, ""), (flash_large, "80 GiB"), (sce_large, "80 GiB")],
        ),
        figure_6(&runs.oltp),
    ]
}

fn label(measured: &Measured, size: &str) -> String {
    if size.is_empty() {
        measured.system.name().into()
    } else {
        format!("{}, {size}", measured.system.name())
    }
}

/// Throughput over time, as in the paper's figures, and the traffic.
fn over_time(title: &str, runs: &[(&Measured, &str)]) -> Section {
    let line = |(measured, size): &(&Measured, &str)| Line {
        series: label(measured, size),
        paper: false,
        points: measured.throughput_curve.clone(),
    };
    let chart = LineChart {
        title: title.into(),
        x_label: "seconds of virtual time".into(),
        y_label: "references a second".into(),
        lines: runs.iter().map(line).collect(),
        axis: Axis::Even,
        in_terminal: true,
    };
    Section { title: title.into(), blocks: vec![Block::Chart(Chart::Lines(chart)), traffic(runs)] }
}

fn traffic(runs: &[(&Measured, &str)]) -> Block {
    let columns = vec![
        Column::words("system"),
        Column::numbers("flash reads").under("MiB/s"),
        Column::numbers("flash writes").under("MiB/s"),
        Column::numbers("disk reads").under("MiB/s"),
        Column::numbers("disk writes").under("MiB/s"),
        Column::numbers("hit rate, %"),
    ];
    let row = |(measured, size): &(&Measured, &str)| {
        let rates = measured.traffic_mib_s.map(|rate| format!("{rate:.1}"));
        let hits = format!("{:.1}", measured.hit_rate * 100.0);
        std::iter::once(label(measured, size)).chain(rates).chain([hits]).collect()
    };
    Block::Table(Table { columns, rows: runs.iter().map(row).collect() })
}

fn figure_6(oltp: &[Measured; 4]) -> Section {
    let bars = |of: fn(&Measured) -> f64| -> Vec<Bar> {
        oltp.iter().map(|m| Bar { series: m.system.name().into(), value: of(m) / of(&oltp[0]) }).collect()
    };
    let chart = BarChart {
        title: "Throughput and response, no cache = 1".into(),
        y_label: "× no cache".into(),
        groups: vec![
            BarGroup { label: "throughput".into(), bars: bars(|m| m.throughput) },
            BarGroup { label: "response".into(), bars: bars(|m| m.response_us) },
        ],
    };
    let runs: Vec<(&Measured, &str)> = oltp.iter().map(|measured| (measured, "")).collect();
    Section {
        title: "Figure 6: a skewed OLTP load".into(),
        blocks: vec![Block::Chart(Chart::Bars(chart)), traffic(&runs)],
    }
}

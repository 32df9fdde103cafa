//! FaCE: tables 3 to 6, figures 4 to 6, and the break-even of §2.2.
//!
//! The store runs TPC-C on modelled devices, as `bench tpcc` and `bench restart` do, and on other machines
//! for table 5 and figure 5. What differs from the paper's set-up is in docs/REPRODUCTION.md.

use super::chapter::{Chapter, Rows};
use super::{Context, Effort, Paper};
use crate::bench::rig::PAPER_DATABASE_BYTES;
use crate::bench::{run_restart, run_tpcc};
use crate::config::FIGURE_4;
use crate::config::{BenchConfig, Redo, Restart, Run, Stage, Warmup};
use crate::cost::BreakEven;
use crate::paper::face::lc;
use crate::paper::face::machines::{self, DRAM_PERCENT, Machines};
use crate::paper::face::restart::{self, judged_restart};
use crate::paper::face::{self, judged_tpcc};
use crate::paper::judged;
use crate::replay::{FragmentKnobs, LcKnobs};
use crate::report::{Axis, Block, Chart, Line, LineChart, Section, restart_report, tpcc_report};
use crate::result::{RestartResult, TpccResult};
use entresol_core::{PolicyKind, System};
use entresol_engine::DailyWrites;
use entresol_runtime::say::thousands;
use entresol_store::{FlashLoss, Replacement};
use std::time::Duration;

const GSC: System = System::Cached(PolicyKind::FaceGsc);
const LC: System = System::Cached(PolicyKind::Lc);
/// The flash of figure 5 (6 GB) and of table 6 (4 GB), in per cent of the database.
const FIGURE_5_PERCENT: f64 = 12.0;
const TABLE_6_PERCENT: f64 = 8.0;
/// The size at which GSC runs without pulling.
const UNPULLED_PERCENT: f64 = 8.0;
/// Intervals of table 6 that are also run scaled with the database, seconds.
const SCALED_INTERVALS_S: [f64; 2] = [60.0, 180.0];
/// Disk arrays of figure 5.
const QUICK_ARRAYS: [(&str, f64); 2] = [("raid0-8", 8.0), ("raid0-16", 16.0)];
const ARRAYS: [(&str, f64); 4] = [("raid0-4", 4.0), ("raid0-8", 8.0), ("raid0-12", 12.0), ("raid0-16", 16.0)];

/// How much is run.
struct Plan {
    warehouses: u32,
    clients: u32,
    measured: Duration,
    warmup: Warmup,
    /// Flash sizes, in per cent of the database.
    sizes: &'static [f64],
    /// Of these, so many on SLC, from the smallest.
    sizes_on_slc: usize,
    /// Steps of table 5.
    steps: usize,
    arrays: &'static [(&'static str, f64)],
    intervals: &'static [u64],
    /// Restarts under way at a time: see [`run_restart`].
    restarts_at_once: usize,
}

impl Plan {
    fn of(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self {
                warehouses: 6,
                clients: 50,
                measured: Duration::from_secs(60),
                warmup: Warmup::For(Duration::from_secs(30)),
                sizes: &[8.0, 20.0],
                sizes_on_slc: 2,
                steps: 2,
                arrays: &QUICK_ARRAYS,
                intervals: &[60],
                restarts_at_once: 2,
            },
            Effort::Full => Self {
                warehouses: 10,
                clients: 50,
                measured: Duration::from_secs(180),
                warmup: Warmup::Auto,
                sizes: &face::FLASH_PERCENTS,
                sizes_on_slc: 5,
                steps: 5,
                arrays: &ARRAYS,
                intervals: &[60, 120, 180],
                restarts_at_once: 1,
            },
        }
    }

    fn config(&self, context: &Context<'_>) -> BenchConfig {
        BenchConfig {
            warehouses: self.warehouses,
            clients: self.clients,
            dram_percent: DRAM_PERCENT,
            replacement: Replacement::Lru,
            flash_device: "mlc".into(),
            disk_device: "raid0-8".into(),
            fragments: FragmentKnobs::default(),
            lc: LcKnobs::default(),
            keeps_slots: false,
            flash_loss: FlashLoss::Fatal,
            pulls: true,
            flash_writes_per_day: DailyWrites::Unlimited,
            measured: self.measured,
            warmup: self.warmup,
            checkpoint_interval: Duration::from_secs(180),
            redo: Redo::Usual,
            think: Duration::ZERO,
            seed: context.seed,
            real: None,
        }
    }
}

/// Reproduces the paper.
pub(super) fn chapter(context: &Context<'_>) -> anyhow::Result<Chapter> {
    let plan = Plan::of(context.effort);
    let config = plan.config(context);
    let all = |systems: &[System], sizes: &[f64]| grid(systems, sizes);
    let mlc = tpcc(context, "tables 3 and 4, figure 4a", 0.0, &config, &all(&FIGURE_4, plan.sizes))?;
    let slc_config = BenchConfig { flash_device: "slc".into(), ..config.clone() };
    let slc =
        tpcc(context, "figure 4b", 0.4, &slc_config, &all(&FIGURE_4, &plan.sizes[..plan.sizes_on_slc]))?;
    let forgets = BenchConfig { lc: LcKnobs::FORGETS, ..config.clone() };
    let forgets = tpcc(context, "an LC that forgets", 0.5, &forgets, &all(&[LC], plan.sizes))?;
    let unpulled = BenchConfig { pulls: false, ..config.clone() };
    let unpulled = tpcc(context, "GSC without pulling", 0.5, &unpulled, &all(&[GSC], &[UNPULLED_PERCENT]))?;
    let dram = more_dram(context, &plan, &config)?;
    let arrays = more_disks(context, &plan, &config)?;
    let restarts = restarts(context, &plan, &config)?;
    let scaled = scaled_restarts(context, &plan, &config, mlc.first().map_or(0, |r| r.database_pages))?;
    (context.progress)("done", 1.0);

    let machines = Machines { mlc, slc, dram, arrays, forgets, unpulled };
    let mut claims = judged_tpcc(&[&machines.mlc, &machines.slc]);
    claims.extend(judged(machines::CLAIMS.iter().chain(lc::CLAIMS), &[&machines]));
    claims.extend(judged_restart(&restarts));
    claims.extend(judged(restart::SCALED, &[scaled.as_slice()]));
    let mut sections = of_report(tpcc_report(&machines.mlc, &[]).sections, "Figure 4b", &machines.slc);
    sections.push(table_5(&machines));
    sections.extend(figure_5(&machines));
    sections.extend(restart_report(&restarts, &[]).sections);
    let scaled_sections = restart_report(&scaled, &[]).sections.into_iter();
    sections.extend(scaled_sections.map(|section| Section {
        title: format!("{}, checkpoints scaled with the database", section.title),
        ..section
    }));
    sections.retain(|section| !section.blocks.iter().any(|block| matches!(block, Block::Verdicts(_))));
    Ok(Chapter {
        paper: Paper::Face.name(),
        title: Paper::Face.title(),
        setup: setup(&plan, &machines.mlc),
        rows: rows(&machines, &restarts, &scaled).into_vec(),
        claims,
        depends_on: depends_on(&machines),
        sections,
    })
}

fn setup(plan: &Plan, mlc: &[TpccResult]) -> Vec<String> {
    let pages = thousands(mlc.first().map_or(0, |result| result.database_pages));
    vec![
        format!(
            "TPC-C on Entresol's own store, {} warehouses ({pages} pages of 4 KiB), {} clients without think time, instead \
             of PostgreSQL with 500 warehouses (50 GB) and 50 clients; DRAM and flash are the same shares of the database.",
            plan.warehouses, plan.clients
        ),
        "Devices are modelled from table 1's rates and not slowed down; the SSD's model was calibrated on LC at 4 % in \
         table 4 (length of a garbage collection) and on its decline (reach of the mapping cache), then frozen. LC's dirty \
         share, 900 per mille, was set on table 3b. LC remembers as many departed pages as there are slots; its claims are \
         judged without that history, too."
            .into(),
        format!("Measured: {} s of virtual time for each run.", plan.measured.as_secs()),
    ]
}

/// LC's history and its lead over mvFIFO; and where the restarts turn.
fn depends_on(machines: &Machines) -> Vec<String> {
    let lead = |(size, [remembers, forgets], paper): (f64, [f64; 2], Option<f64>)| {
        let paper = paper.map_or("–".to_owned(), |paper| format!("{paper:.1}"));
        format!("{remembers:.1}, {forgets:.1}, {paper} at {size} %")
    };
    let all = lc::leads(machines);
    let (sizes, between) = (all.len(), all.iter().filter(|lead| lies_between(lead)).count());
    let leads: Vec<String> = all.into_iter().map(lead).collect();
    vec![
        format!(
            "LC's lead over mvFIFO in hits depends on its history; points with the usual history, without any, in the paper: {}. \
             The paper's is between ours at {between} of {sizes} sizes.",
            leads.join("; ")
        ),
        "restarts depend on what the log tells (table 6 has all four logs) and on how often the cache is turned over between a \
         checkpoint and the kill (the same scaled with the database)."
            .into(),
    ]
}

/// Whether the paper's lead of LC is between ours with the usual history and ours without any.
fn lies_between((_, [remembers, forgets], paper): &(f64, [f64; 2], Option<f64>)) -> bool {
    paper.is_some_and(|paper| (forgets.min(*remembers)..=forgets.max(*remembers)).contains(&paper))
}

fn grid(systems: &[System], sizes: &[f64]) -> Vec<Run> {
    let of = |system: &System| match system {
        system if system.has_cache() => {
            sizes.iter().map(|size| Run { system: *system, flash_percent: *size }).collect()
        }
        _ => vec![Run { system: *system, flash_percent: 0.0 }],
    };
    systems.iter().flat_map(of).collect()
}

/// Runs TPC-C, telling what is done.
fn tpcc(
    context: &Context<'_>,
    what: &str,
    done: f64,
    config: &BenchConfig,
    runs: &[Run],
) -> anyhow::Result<Vec<TpccResult>> {
    let told = |_: usize, stage: Stage| {
        if matches!(stage, Stage::Done | Stage::Loading(..)) {
            (context.progress)(what, done);
        }
    };
    run_tpcc(config, runs, &told)
}

/// The DRAM row of table 5: disk-only with one to five more shares of DRAM.
fn more_dram(context: &Context<'_>, plan: &Plan, config: &BenchConfig) -> anyhow::Result<Vec<TpccResult>> {
    let mut results = Vec::new();
    let disk_only = [Run { system: System::DiskOnly, flash_percent: 0.0 }];
    for step in table_5_steps(plan) {
        let dram_percent = DRAM_PERCENT * (1.0 + step as f64);
        let config = BenchConfig { dram_percent, ..config.clone() };
        results.extend(tpcc(context, "table 5", 0.5, &config, &disk_only)?);
    }
    Ok(results)
}

/// Steps of 4 % flash, or of 0.4 % DRAM, that the plan's sizes have.
fn table_5_steps(plan: &Plan) -> Vec<usize> {
    plan.sizes.iter().take(plan.steps).map(|size| (size / 4.0).round() as usize).collect()
}

fn more_disks(
    context: &Context<'_>,
    plan: &Plan,
    config: &BenchConfig,
) -> anyhow::Result<Vec<(f64, Vec<TpccResult>)>> {
    let runs = grid(&[System::DiskOnly, LC, GSC], &[FIGURE_5_PERCENT]);
    let on = |(array, disks): &(&str, f64)| {
        let config = BenchConfig { disk_device: (*array).into(), ..config.clone() };
        Ok((*disks, tpcc(context, "figure 5", 0.6, &config, &runs)?))
    };
    plan.arrays.iter().map(on).collect()
}

fn restarts(context: &Context<'_>, plan: &Plan, config: &BenchConfig) -> anyhow::Result<Vec<RestartResult>> {
    let mut runs = Vec::new();
    for redo in Redo::ALL {
        for system in [System::DiskOnly, LC, GSC] {
            let flash_percent = if system.has_cache() { TABLE_6_PERCENT } else { 0.0 };
            let run = Run { system, flash_percent };
            let every = |seconds: &u64| Restart { run, interval: Duration::from_secs(*seconds), redo };
            runs.extend(plan.intervals.iter().map(every));
        }
    }
    let told = |_: usize, _: Stage| (context.progress)("table 6, figure 6", 0.8);
    run_restart(config, &runs, plan.restarts_at_once, &told)
}

/// Restarts in FaCE's setting with the intervals of the paper, as much shorter as the database is smaller.
fn scaled_restarts(
    context: &Context<'_>,
    plan: &Plan,
    config: &BenchConfig,
    pages: u64,
) -> anyhow::Result<Vec<RestartResult>> {
    let share = pages as f64 * 4096.0 / PAPER_DATABASE_BYTES as f64;
    let mut runs = Vec::new();
    for system in [System::DiskOnly, GSC] {
        let flash_percent = if system.has_cache() { TABLE_6_PERCENT } else { 0.0 };
        let run = Run { system, flash_percent };
        let every = |seconds: f64| Restart {
            run,
            interval: Duration::from_secs_f64(seconds * share),
            redo: Redo::Plain,
        };
        runs.extend(SCALED_INTERVALS_S.map(every));
    }
    let told = |_: usize, _: Stage| (context.progress)("table 6, scaled", 0.9);
    run_restart(config, &runs, plan.restarts_at_once, &told)
}

/// The sections of the main grid, with figure 4b's plot after figure 4.
fn of_report(mut sections: Vec<Section>, title: &str, slc: &[TpccResult]) -> Vec<Section> {
    let bars =
        tpcc_report(slc, &[]).sections.into_iter().find(|section| section.title.starts_with("Figure 4"));
    if let Some(section) = bars {
        let at = sections.iter().position(|s| s.title.starts_with("Figure 4")).map_or(0, |at| at + 1);
        sections.insert(at, Section { title: format!("{title}: throughput on SLC"), ..section });
    }
    sections
}

fn table_5(machines: &Machines) -> Section {
    let pairs = machines.table_5();
    let line = |series: &str, points: Vec<(f64, f64)>, paper| Line { series: series.into(), paper, points };
    let ours = |of: fn(&(f64, &TpccResult, &TpccResult)) -> f64| pairs.iter().map(|p| (p.0, of(p))).collect();
    let paper = face::GSC_TPMC.iter().enumerate().map(|(at, tpmc)| (at as f64 + 1.0, *tpmc)).collect();
    let lines = vec![
        line("face-gsc", ours(|(_, _, flash)| flash.tpmC), false),
        line("face-gsc", paper, true),
        line("disk-only", ours(|(_, dram, _)| dram.tpmC), false),
    ];
    let chart = LineChart {
        title: "More DRAM (disk-only) or more flash (face-gsc) for the same money".into(),
        x_label: "steps of 0.4 % DRAM or 4 % flash".into(),
        y_label: "tpmC".into(),
        lines,
        axis: Axis::Even,
        in_terminal: false,
    };
    Section {
        title: "Table 5: more DRAM or more flash".into(),
        blocks: vec![Block::Chart(Chart::Lines(chart))],
    }
}

fn figure_5(machines: &Machines) -> Option<Section> {
    let line = |system: &System| Line {
        series: system.name().into(),
        paper: false,
        points: machines.by_disks(*system),
    };
    let chart = LineChart {
        title: "Throughput with 4 to 16 disks, flash of 12 %".into(),
        x_label: "disks".into(),
        y_label: "tpmC".into(),
        lines: [System::DiskOnly, LC, GSC].iter().map(line).collect(),
        axis: Axis::Even,
        in_terminal: true,
    };
    (!machines.arrays.is_empty()).then(|| Section {
        title: "Figure 5: more disks".into(),
        blocks: vec![Block::Chart(Chart::Lines(chart))],
    })
}

fn rows(machines: &Machines, restarts: &[RestartResult], scaled: &[RestartResult]) -> Rows {
    let mut rows = Rows::new();
    type Ours = fn(&TpccResult) -> f64;
    let tables: [(face::SizeTable, &'static str, usize, Ours); 4] = [
        (face::FLASH_HITS, "%", 1, |r| r.flash_hits() * 100.0),
        (face::WRITE_REDUCTION, "%", 1, |r| r.write_reduction * 100.0),
        (face::FLASH_UTILISATION, "%", 1, |r| r.flash_utilisation * 100.0),
        (face::FLASH_IOPS, "pages/s", 0, |r| r.flash_iops),
    ];
    for (table, unit, digits, ours) in tables {
        for (policy, _) in table.rows {
            let system = System::Cached(policy);
            for result in machines.mlc.iter().filter(|r| r.system == system.name()) {
                let what = format!("{}, {} at {} %", table.title, result.system, result.flash_percent);
                let paper = table.at(system, result.flash_percent);
                rows.add(table.source, what, (unit, digits), paper, Some(ours(result)));
            }
        }
    }
    for result in &machines.forgets {
        let at = format!("lc that forgets at {} %", result.flash_percent);
        let (hits, reduction) = (result.flash_hits() * 100.0, result.write_reduction * 100.0);
        let paper = |table: face::SizeTable| table.at(LC, result.flash_percent);
        rows.add("FaCE table 3a", format!("hits, {at}"), ("%", 1), paper(face::FLASH_HITS), Some(hits));
        let saved = paper(face::WRITE_REDUCTION);
        rows.add("FaCE table 3b", format!("write reduction, {at}"), ("%", 1), saved, Some(reduction));
        rows.add("FaCE figure 4a", at, ("tpmC", 0), None, Some(result.tpmC));
    }
    // Of the disk and the MLC drive of table 1.
    let (disk, flash) = (&face::MEDIA[3], &face::MEDIA[0]);
    let rates = [
        ("reads", disk.random_read_iops, flash.random_read_iops),
        ("writes", disk.random_write_iops, flash.random_write_iops),
    ];
    for ((what, disk, flash), exponent) in rates.into_iter().zip(face::BREAK_EVEN) {
        let what = format!("θ, the flash that saves as many {what} as one more DRAM buffer (δ = 1)");
        let ours = BreakEven { disk: 1e3 / disk, flash: 1e3 / flash }.theta(1.0);
        let paper = 2f64.powf(exponent) - 1.0;
        rows.add("FaCE §2.2", what, ("buffers", 3), Some(paper), Some(ours));
    }
    for (step, dram, flash) in machines.table_5() {
        let paper = face::GSC_TPMC.get(step as usize - 1).copied();
        rows.add("FaCE table 5", format!("more flash ×{step}"), ("tpmC", 0), paper, Some(flash.tpmC));
        rows.add("FaCE table 5", format!("more DRAM ×{step}"), ("tpmC", 0), None, Some(dram.tpmC));
    }
    for result in restarts {
        // The paper's PostgreSQL had no notes.
        let paper = System::from_name(&result.system)
            .and_then(|system| face::restart_s(system, result.checkpoint_interval_s))
            .filter(|_| result.redo == Redo::Plain.name());
        let log = Redo::from_name(&result.redo).map_or("", Redo::about);
        let what = format!("restart, {} every {} s, log: {log}", result.system, result.checkpoint_interval_s);
        rows.add("FaCE table 6", what, ("s", 1), paper, Some(result.restart_s));
    }
    for (at, seconds) in SCALED_INTERVALS_S.into_iter().enumerate() {
        let of = |system: System| {
            scaled.iter().filter(move |result| result.system == system.name()).nth(at).map(|r| r.restart_s)
        };
        let paper = face::restart_s(System::DiskOnly, seconds).zip(face::restart_s(GSC, seconds));
        let ours = of(System::DiskOnly).zip(of(GSC));
        let times = |pair: Option<(f64, f64)>| pair.map(|(disk, gsc)| disk / gsc);
        let what = format!("disk-only's restart by face-gsc's, {seconds} s scaled with the database");
        rows.add("FaCE table 6", what, ("×", 2), times(paper), times(ours));
    }
    rows
}

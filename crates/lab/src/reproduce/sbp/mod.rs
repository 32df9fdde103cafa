//! SSD bufferpool recovery: figures 4, 6, 7 and 9. The store runs TPC-C over TAC, whose slot directory is on flash all the
//! time, on modelled devices.

mod run;

use super::chapter::{Chapter, Claim, Rows};
use super::{Context, Effort, Paper};
use crate::bench::{image, parallel};
use crate::config::{BenchConfig, Warmup};
use crate::paper::sbp as paper;
use crate::paper::verdict::{Check, Verdict};
use crate::replay::FragmentKnobs;
use crate::report::{Bar, BarChart, BarGroup, Block, Chart, Line, LineChart, Section};
use entresol_store::Replacement;
use run::{Ending, Restarted, directory_on, restarts};
use std::time::Duration;

/// Media of the slot directory, as in figure 4.
const MEDIA: [(&str, &str); 3] = [("ramdisk", "DRAM"), ("fusion-slc", "SLC"), ("fusion-mlc", "MLC")];
/// "No noticeable degradation": within this share of the tpmC with the directory in DRAM.
const NOTICEABLE: f64 = 0.05;
/// Throughput is stable from where it first reaches such a share of what both restarts end with: nobody says which.
const STABLE: [f64; 3] = [0.85, 0.90, 0.95];
/// A cold restart reaches its rate in the end: so much of what the warm one ends with.
const REACHED: f64 = 0.95;
/// The part of a curve that counts as its end.
const END: usize = 5;
/// The part of a curve that counts as its beginning.
const BEGINNING: usize = 3;

/// How much is run.
struct Plan {
    warehouses: u32,
    warmup: Duration,
    measured: Duration,
    /// How long the restarts after a shutdown are watched: until the cold one is as warm as the other.
    after_shutdown: Duration,
    checkpoint_interval: Duration,
}

impl Plan {
    fn of(effort: Effort) -> Self {
        let seconds = Duration::from_secs;
        match effort {
            Effort::Quick => Self {
                warehouses: 3,
                warmup: seconds(30),
                measured: seconds(20),
                after_shutdown: seconds(20),
                checkpoint_interval: seconds(30),
            },
            Effort::Full => Self {
                warehouses: 10,
                warmup: seconds(300),
                measured: seconds(180),
                after_shutdown: seconds(600),
                checkpoint_interval: seconds(120),
            },
        }
    }

    fn config(&self, seed: u64) -> BenchConfig {
        BenchConfig {
            warehouses: self.warehouses,
            clients: paper::CLIENTS,
            dram_percent: paper::DRAM_PERCENT,
            replacement: Replacement::Lru,
            flash_device: "fusion-slc".into(),
            disk_device: "ds4700".into(),
            fragments: FragmentKnobs::default(),
            measured: self.measured,
            warmup: Warmup::For(self.warmup),
            checkpoint_interval: self.checkpoint_interval,
            think: Duration::ZERO,
            seed,
            real: None,
        }
    }
}

/// What one job of the chapter gives.
enum Done {
    Metadata(f64),
    Restarts([Restarted; 2]),
}

/// Reproduces the paper.
pub(super) fn chapter(context: &Context<'_>) -> anyhow::Result<Chapter> {
    let plan = Plan::of(context.effort);
    let config = plan.config(context.seed);
    (context.progress)("loading", 0.0);
    let image = image::load(&config, &|_, _| {})?;
    let mut jobs: Vec<Result<Ending, &str>> = vec![Ok(Ending::Crash), Ok(Ending::Shutdown)];
    jobs.extend(MEDIA.map(|(profile, _)| Err(profile)));
    let done = parallel::map(&jobs, |at, job| {
        let share = 0.1 + 0.9 * at as f64 / jobs.len() as f64;
        Ok(match job {
            Ok(ending) => {
                let told = |what: &str| (context.progress)(what, share);
                let watched = match ending {
                    Ending::Crash => plan.measured,
                    Ending::Shutdown => plan.after_shutdown,
                };
                Done::Restarts(restarts(&config, &image, *ending, watched, &told)?)
            }
            Err(profile) => {
                (context.progress)("figure 4", share);
                Done::Metadata(directory_on(&config, &image, profile)?)
            }
        })
    })?;
    (context.progress)("done", 1.0);
    let mut metadata = Vec::new();
    let mut restarted = Vec::new();
    for done in done {
        match done {
            Done::Metadata(tpmc) => metadata.push(tpmc),
            Done::Restarts(pair) => restarted.push(pair),
        }
    }
    let [crash, shutdown] =
        <[_; 2]>::try_from(restarted).unwrap_or_else(|_| unreachable!("two endings were run"));
    Ok(Chapter {
        paper: Paper::Sbp.name(),
        title: Paper::Sbp.title(),
        setup: setup(&plan, image.pages),
        rows: rows(&metadata, &crash, &shutdown).into_vec(),
        claims: Claim::explained(verdicts(&metadata, &crash, &shutdown), REASONS),
        sections: sections(&metadata, &crash, &shutdown),
    })
}

fn setup(plan: &Plan, pages: u64) -> Vec<String> {
    vec![
        format!(
            "TPC-C on Entresol's own store under tac, {} warehouses ({pages} pages of 4 KiB) and {} clients, instead of DB2 \
             with {} warehouses; DRAM is 2 % of the database and flash three times that, as there.",
            plan.warehouses,
            paper::CLIENTS,
            paper::WAREHOUSES
        ),
        "Devices are modelled from table 1 (the SLC card under the cache, the MLC card under the log) and of the DS4700's \
         class (16 SATA disks behind a battery-backed cache)."
            .into(),
        format!(
            "Stopped after {} s of virtual time and the next checkpoint (a crash: half an interval of {} s later); a cold \
             restart is one whose slot directory was thrown away, on a copy of the same media.",
            plan.warmup.as_secs(),
            plan.checkpoint_interval.as_secs()
        ),
        format!(
            "After a shutdown both are watched for {} s. Without its directory TAC has no temperatures either: it takes every \
             page in until flash is full, then those of regions warmer than the coldest, which on so short a history is nearly \
             what was read last. As temperatures grow it takes in fewer, and its hit rate goes down to the warm cache's.",
            plan.after_shutdown.as_secs()
        ),
        "The paper's minutes are of a database of 48 GB and its own checkpoints; only what is sooner can be compared.".into(),
        "Tolerances: what is \"stable\" is not said; one level, 85 %, was chosen after the first runs, whose points of two \
         seconds scatter, and now three must agree. \"At first\" is the mean of three points, \"in the end\" of five, for the same \
         reason."
            .into(),
    ]
}

/// What is known about claims that do not hold here.
const REASONS: &[(&str, &str, &str)] = &[
    (
        "SBP figure 4",
        "",
        "the directory's writes are two for each page that enters, and each is waited for; on a small database many pages \
         enter",
    ),
    ("SBP figure 6", "throughput", "a cache of this size fills within seconds, and single points scatter"),
    ("SBP figure 9", "", "a cache of this size fills within seconds, and single points scatter"),
];

fn mean(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(_, value)| value).sum::<f64>() / points.len().max(1) as f64
}

fn end(points: &[(f64, f64)]) -> &[(f64, f64)] {
    &points[points.len().saturating_sub(END)..]
}

/// The first points after the restart (two points stand for the restart itself).
fn beginning(points: &[(f64, f64)]) -> &[(f64, f64)] {
    &points[2.min(points.len())..(2 + BEGINNING).min(points.len())]
}

/// When throughput reaches `level`.
fn stable_after(restarted: &Restarted, level: f64) -> Option<f64> {
    restarted.tpmc.iter().find(|(_, tpmc)| *tpmc >= level).map(|(seconds, _)| *seconds)
}

/// What both end with.
fn level(pair: &[Restarted; 2]) -> f64 {
    mean(end(&pair[0].tpmc)).min(mean(end(&pair[1].tpmc)))
}

fn sooner(warm: Option<f64>, cold: Option<f64>) -> Check {
    let seconds = |at: Option<f64>| at.map_or("not reached".to_owned(), |at| format!("{at:.1} s"));
    Check {
        agrees: warm.is_some_and(|warm| cold.is_none_or(|cold| warm < cold)),
        numbers: format!("{} with and {} without", seconds(warm), seconds(cold)),
    }
}

fn verdicts(metadata: &[f64], crash: &[Restarted; 2], shutdown: &[Restarted; 2]) -> Vec<Verdict> {
    let judge = |source, claim, checks| Verdict::judge(source, claim, "nothing", checks);
    let medium = |(tpmc, (_, name)): (&f64, (&str, &str))| Check {
        agrees: *tpmc >= (1.0 - NOTICEABLE) * metadata[0],
        numbers: format!("{name}: {tpmc:.0} tpmC, {:+.1} %", (tpmc / metadata[0] - 1.0) * 100.0),
    };
    let [warm, cold] = crash;
    let stable = |level: f64, share: f64| {
        let check = sooner(stable_after(warm, level), stable_after(cold, level));
        Check { numbers: format!("{:.0} %: {}", share * 100.0, check.numbers), ..check }
    };
    let (from_flash, without) = (share(warm), share(cold));
    let (after, after_cold) = (mean(&shutdown[0].tpmc[2..]), mean(&shutdown[1].tpmc[2..]));
    let (last, last_cold) = (mean(end(&shutdown[0].tpmc)), mean(end(&shutdown[1].tpmc)));
    let (peak, peak_cold) = (mean(beginning(&shutdown[0].tpmc)), mean(beginning(&shutdown[1].tpmc)));
    vec![
        judge(
            "SBP figure 4",
            "the medium of the slot directory makes no visible difference: SLC and MLC lose less than 5 % against DRAM",
            metadata.iter().zip(MEDIA).skip(1).map(medium).collect(),
        ),
        judge(
            "SBP figure 6",
            "recovery after a crash is over sooner with the slot directory than without it",
            vec![sooner(Some(warm.restart_s), Some(cold.restart_s))],
        ),
        judge(
            "SBP figure 6",
            "throughput is stable sooner with the slot directory (85, 90 and 95 % of what both end with)",
            STABLE.into_iter().map(|share| stable(share * level(crash), share)).collect(),
        ),
        judge(
            "SBP figure 7",
            "with the slot directory flash is read from the first second of recovery, and serves more of redo than without it",
            vec![Check {
                agrees: warm.redo_from_flash > 0 && from_flash > without,
                numbers: format!("{:.0} % and {:.0} % of redo's pages", from_flash * 100.0, without * 100.0),
            }],
        ),
        judge(
            "SBP figure 9",
            "after a shutdown a warm restart beats a cold one at first; the cold one reaches its rate in the end (95 % of it)",
            vec![
                Check {
                    agrees: peak > peak_cold,
                    numbers: format!("at first {peak:.0} and {peak_cold:.0} tpmC"),
                },
                Check {
                    agrees: last_cold >= REACHED * last,
                    numbers: format!(
                        "in the end {last:.0} and {last_cold:.0}, on the whole {after:.0} and {after_cold:.0} tpmC"
                    ),
                },
            ],
        ),
        judge(
            "SBP §4",
            "the database is consistent after every restart",
            crash.iter().chain(shutdown).map(consistent).collect(),
        ),
    ]
}

fn consistent(restarted: &Restarted) -> Check {
    let what = if restarted.warm { "warm" } else { "cold" };
    let how = if restarted.consistent { "consistent" } else { "not consistent" };
    Check { agrees: restarted.consistent, numbers: format!("{what}: {how}") }
}

fn share(restarted: &Restarted) -> f64 {
    restarted.redo_from_flash as f64 / restarted.redo_pages.max(1) as f64
}

fn rows(metadata: &[f64], crash: &[Restarted; 2], shutdown: &[Restarted; 2]) -> Rows {
    let mut rows = Rows::new();
    for (tpmc, (_, medium)) in metadata.iter().zip(MEDIA) {
        rows.add("SBP figure 4", format!("slot directory on {medium}"), ("tpmC", 0), None, Some(*tpmc));
    }
    let words = ["with the slot directory", "without it"];
    let ratio = |pair: [f64; 2]| Some(pair[1] / pair[0]);
    let recovered = crash.each_ref().map(|restarted| restarted.restart_s);
    let stable = crash
        .each_ref()
        .map(|restarted| stable_after(restarted, STABLE[0] * level(crash)).unwrap_or(f64::NAN));
    for (at, word) in words.into_iter().enumerate() {
        rows.add(
            "SBP figure 6",
            format!("recovery, {word}"),
            ("s", 1),
            Some(paper::RECOVERY_MIN[at] * 60.0),
            Some(recovered[at]),
        );
        let seconds = Some(stable[at]).filter(|seconds| seconds.is_finite());
        rows.add(
            "SBP figure 6",
            format!("stable (85 %), {word}"),
            ("s", 1),
            Some(paper::STABLE_MIN[at] * 60.0),
            seconds,
        );
    }
    let paper_ratio = ratio(paper::RECOVERY_MIN);
    rows.add("SBP figure 6", "recovery without by with", ("×", 2), paper_ratio, ratio(recovered));
    for (word, restarted) in words.into_iter().zip(crash) {
        let reads = Some(mean(beginning(&restarted.flash_reads)));
        rows.add(
            "SBP figure 7",
            format!("redo from flash, {word}"),
            ("%", 1),
            None,
            Some(share(restarted) * 100.0),
        );
        rows.add("SBP figure 7", format!("first flash reads, {word}"), ("pages/s", 0), None, reads);
    }
    for (word, restarted) in words.into_iter().zip(shutdown) {
        let tpmc = Some(mean(&restarted.tpmc[2..]));
        rows.add("SBP figure 9", format!("after a shutdown, {word}"), ("tpmC", 0), None, tpmc);
        let hits = Some(mean(end(&restarted.flash_hits)));
        rows.add("SBP figure 9", format!("flash hits in the end, {word}"), ("%", 1), None, hits);
    }
    rows
}

fn sections(metadata: &[f64], crash: &[Restarted; 2], shutdown: &[Restarted; 2]) -> Vec<Section> {
    let bars = metadata.iter().zip(MEDIA).map(|(tpmc, (_, medium))| BarGroup {
        label: medium.into(),
        bars: vec![Bar { series: "tac, persistent directory".into(), value: *tpmc }],
    });
    let bars = BarChart {
        title: "tpmC by the medium of the slot directory".into(),
        y_label: "tpmC".into(),
        groups: bars.collect(),
    };
    vec![
        Section { title: "Figure 4: metadata".into(), blocks: vec![Block::Chart(Chart::Bars(bars))] },
        curves("Figure 6: tpmC after a crash", "tpmC", crash, |restarted| &restarted.tpmc),
        curves("Figure 7: reads from flash after a crash", "pages a second", crash, |restarted| {
            &restarted.flash_reads
        }),
        curves("Figure 9: tpmC after a shutdown", "tpmC", shutdown, |restarted| &restarted.tpmc),
        curves("Flash hits after a shutdown", "per cent of DRAM's misses", shutdown, |restarted| {
            &restarted.flash_hits
        }),
    ]
}

fn curves(
    title: &str,
    y_label: &str,
    pair: &[Restarted; 2],
    of: fn(&Restarted) -> &Vec<(f64, f64)>,
) -> Section {
    let line = |restarted: &Restarted| Line {
        series: if restarted.warm { "with persistence" } else { "without persistence" }.into(),
        paper: false,
        points: of(restarted).clone(),
    };
    let chart = LineChart {
        title: title.into(),
        x_label: "seconds since the restart began".into(),
        y_label: y_label.into(),
        lines: pair.iter().map(line).collect(),
        doubling: false,
        in_terminal: true,
    };
    Section { title: title.into(), blocks: vec![Block::Chart(Chart::Lines(chart))] }
}

//! SSD bufferpool recovery: figures 4, 6, 7 and 9. The store runs TPC-C over TAC, whose slot directory is on
//! flash all the time, on modelled devices.

mod run;

use super::chapter::{Chapter, Rows};
use super::{Context, Effort, Paper};
use crate::bench::image::Image;
use crate::bench::{image, parallel};
use crate::config::{BenchConfig, Redo, Warmup};
use crate::paper::judged;
use crate::paper::sbp::{self as paper, Evidence, MEDIA, Ran, Restarted, STABLE, end, mean};
use crate::replay::{FragmentKnobs, LcKnobs};
use crate::report::{Axis, Bar, BarChart, BarGroup, Block, Chart, Line, LineChart, Section};
use entresol_engine::DailyWrites;
use entresol_runtime::say::thousands;
use entresol_store::{FlashLoss, Replacement};
use run::{Ending, base, ran, restarts};
use std::time::Duration;

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
            lc: LcKnobs::default(),
            keeps_slots: false,
            flash_loss: FlashLoss::Fatal,
            pulls: true,
            flash_writes_per_day: DailyWrites::Unlimited,
            measured: self.measured,
            warmup: Warmup::For(self.warmup),
            checkpoint_interval: self.checkpoint_interval,
            redo: Redo::Usual,
            think: Duration::ZERO,
            seed,
            real: None,
        }
    }
}

/// One job of the chapter.
enum Job {
    Restarts(Ending),
    Base,
    Ran(Option<&'static str>),
}

/// What it gives.
enum Done {
    Ran(Ran),
    Restarts(Box<[Restarted; 2]>),
    Base(Box<Restarted>),
}

/// Reproduces the paper.
pub(super) fn chapter(context: &Context<'_>) -> anyhow::Result<Chapter> {
    let plan = Plan::of(context.effort);
    let config = plan.config(context.seed);
    (context.progress)("loading", 0.0);
    let image = image::load(&config, &|_, _| {})?;
    let evidence = evidence(context, &plan, &config, &image)?;
    (context.progress)("done", 1.0);
    Ok(Chapter {
        paper: Paper::Sbp.name(),
        title: Paper::Sbp.title(),
        setup: setup(&plan, image.pages),
        rows: rows(&evidence).into_vec(),
        claims: judged(paper::CLAIMS, &[&evidence]),
        depends_on: Vec::new(),
        sections: sections(&evidence),
    })
}

fn evidence(
    context: &Context<'_>,
    plan: &Plan,
    config: &BenchConfig,
    image: &Image,
) -> anyhow::Result<Evidence> {
    let mut jobs = vec![Job::Restarts(Ending::Crash), Job::Restarts(Ending::Shutdown), Job::Base];
    jobs.extend(MEDIA.map(|(profile, _)| Job::Ran(Some(profile))).into_iter().chain([Job::Ran(None)]));
    let done = parallel::map(&jobs, |at, job| {
        let share = 0.1 + 0.9 * at as f64 / jobs.len() as f64;
        let told = |what: &str| (context.progress)(what, share);
        Ok(match job {
            Job::Restarts(ending) => {
                let watched = match ending {
                    Ending::Crash => plan.measured,
                    Ending::Shutdown => plan.after_shutdown,
                };
                Done::Restarts(Box::new(restarts(config, image, *ending, watched, &told)?))
            }
            Job::Base => {
                told("without flash");
                Done::Base(Box::new(base(config, image, plan.measured)?))
            }
            Job::Ran(directory) => {
                told("figures 4 and 5");
                Done::Ran(ran(config, image, *directory)?)
            }
        })
    })?;
    let (mut runs, mut restarted, mut base) = (Vec::new(), Vec::new(), None);
    for done in done {
        match done {
            Done::Ran(ran) => runs.push(ran),
            Done::Restarts(pair) => restarted.push(*pair),
            Done::Base(alone) => base = Some(*alone),
        }
    }
    let [crash, shutdown] =
        <[_; 2]>::try_from(restarted).unwrap_or_else(|_| unreachable!("two endings were run"));
    let without = runs.pop().expect("the run without flash is the last");
    Ok(Evidence {
        metadata: runs.iter().map(|ran| ran.tpmc).collect(),
        logged: [without, runs[0], runs[1]],
        base: base.expect("one job is the restart without flash"),
        crash,
        shutdown,
    })
}

fn setup(plan: &Plan, pages: u64) -> Vec<String> {
    let pages = thousands(pages);
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
        "The processor is modelled: 0.2 ms a transaction and 2 µs a page access on four cores, and nothing during the redo itself."
            .into(),
        "The paper's minutes are of a database of 48 GB and its own checkpoints; only what is sooner can be compared.".into(),
        "Tolerances: what is \"stable\" is not said; one level, 85 %, was chosen after the first runs, whose points of two \
         seconds scatter, and now three must agree. \"At first\" is the mean of three points, \"in the end\" of five, for the same \
         reason."
            .into(),
    ]
}

fn rows(evidence: &Evidence) -> Rows {
    let Evidence { metadata, logged, base, crash, .. } = evidence;
    let mut rows = Rows::new();
    for (ran, what) in logged.iter().zip(["without an SSD", "volatile metadata", "persistent metadata"]) {
        rows.add(
            "SBP figure 5",
            format!("log pages, {what}"),
            ("pages", 0),
            None,
            Some(ran.log_pages as f64),
        );
    }
    let slower = Some(base.restart_s / crash[1].restart_s);
    let paper_slower = Some(paper::BASE_BY_PROTOTYPE);
    rows.add(
        "SBP §5.5",
        "recovery without an SSD by the prototype's without persistence",
        ("×", 2),
        paper_slower,
        slower,
    );
    for (tpmc, (_, medium)) in metadata.iter().zip(MEDIA) {
        rows.add("SBP figure 4", format!("slot directory on {medium}"), ("tpmC", 0), None, Some(*tpmc));
    }
    let words = WORDS;
    let ratio = |pair: [f64; 2]| Some(pair[1] / pair[0]);
    let recovered = crash.each_ref().map(|restarted| restarted.restart_s);
    let stable = crash
        .each_ref()
        .map(|restarted| restarted.stable_after(STABLE[0] * evidence.level()).unwrap_or(f64::NAN));
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
    add_restarts(&mut rows, evidence);
    rows
}

/// The two systems of figures 6 to 9.
const WORDS: [&str; 2] = ["with the slot directory", "without it"];

/// Figures 7 and 9: redo after a crash, and work after a shutdown.
fn add_restarts(rows: &mut Rows, evidence: &Evidence) {
    let Evidence { crash, shutdown, .. } = evidence;
    for (word, restarted) in WORDS.into_iter().zip(crash) {
        let reads = Some(restarted.first_flash_reads());
        rows.add(
            "SBP figure 7",
            format!("redo from flash, {word}"),
            ("%", 1),
            None,
            Some(restarted.redo_share_from_flash() * 100.0),
        );
        rows.add(
            "SBP figure 7",
            format!("flash reads in the first second, {word}"),
            ("pages", 0),
            None,
            reads,
        );
    }
    for (word, restarted) in WORDS.into_iter().zip(shutdown) {
        let tpmc = Some(restarted.tpmc_after());
        rows.add("SBP figure 9", format!("after a shutdown, {word}"), ("tpmC", 0), None, tpmc);
        let hits = Some(mean(end(&restarted.flash_hits)));
        rows.add("SBP figure 9", format!("flash hits in the end, {word}"), ("%", 1), None, hits);
    }
}

fn sections(evidence: &Evidence) -> Vec<Section> {
    let Evidence { metadata, crash, shutdown, .. } = evidence;
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
        curves("Figure 8: the processor after a crash", "share in use, as modelled", crash, |restarted| {
            &restarted.cpu
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
        axis: Axis::Even,
        in_terminal: true,
    };
    Section { title: title.into(), blocks: vec![Block::Chart(Chart::Lines(chart))] }
}

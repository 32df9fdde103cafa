//! Shutdowns of a store over LOC and GLB that flush dirty pages or materialise the directory (§3.3), and the
//! starts after them.
//!
//! Invariant: a start on an empty flash begins on copies of the media of the warm one.

use super::{Context, Effort, Rows};
use crate::bench::image::{self, CPU, Image};
use crate::bench::parallel;
use crate::bench::restart::to_mid_interval;
use crate::bench::rig::{Media, Rig};
use crate::bench::tpcc::{clients, in_simulation, warm_up};
use crate::bench::verify::consistent;
use crate::config::{BenchConfig, Redo, Run, Warmup};
use crate::paper::three_layer::Shutdown;
use crate::replay::{FragmentKnobs, LcKnobs};
use anyhow::{Context as _, bail};
use entresol_core::{PolicyKind, System};
use entresol_engine::DailyWrites;
use entresol_runtime::now;
use entresol_store::{FlashLoss, Replacement, Store};
use entresol_tpcc::Database;
use std::time::Duration;

/// Clients.
const CLIENTS: u32 = 16;
/// DRAM and flash, per cent of the database.
const PERCENT: [f64; 2] = [2.0, 12.0];
/// For how long a start is watched.
const WATCHED: Duration = Duration::from_secs(5);

fn config(effort: Effort, seed: u64) -> BenchConfig {
    let seconds = Duration::from_secs;
    let (warehouses, warmup, interval) = match effort {
        Effort::Quick => (2, 20, 30),
        Effort::Full => (10, 120, 120),
    };
    BenchConfig {
        warehouses,
        clients: CLIENTS,
        dram_percent: PERCENT[0],
        replacement: Replacement::Lru,
        flash_device: "fusion-slc".into(),
        disk_device: "ds4700".into(),
        fragments: FragmentKnobs::default(),
        lc: LcKnobs::default(),
        keeps_slots: false,
        flash_loss: FlashLoss::Fatal,
        pulls: true,
        flash_writes_per_day: DailyWrites::Unlimited,
        measured: WATCHED,
        warmup: Warmup::For(seconds(warmup)),
        checkpoint_interval: seconds(interval),
        redo: Redo::Usual,
        think: Duration::ZERO,
        seed,
        real: None,
    }
}

/// What the runs are of, in a sentence.
pub(super) fn setup(effort: Effort) -> String {
    let config = config(effort, 0);
    format!(
        "Shutdowns (§3.3) are of the store with {} warehouses of TPC-C and {CLIENTS} clients (DRAM {} %, flash {} % of the \
         database; fusion-slc and ds4700), half an interval of {} s after a checkpoint; starts are watched for {} s.",
        config.warehouses,
        PERCENT[0],
        PERCENT[1],
        config.checkpoint_interval.as_secs(),
        WATCHED.as_secs()
    )
}

/// All of them.
pub(super) fn shutdowns(context: &Context<'_>) -> anyhow::Result<Vec<Shutdown>> {
    let config = config(context.effort, context.seed);
    (context.progress)("loading a store to shut down", 0.9);
    let image = image::load(&config, &|_, _| {})?;
    let jobs = [PolicyKind::Loc, PolicyKind::Glb].map(|policy| [(policy, false), (policy, true)]).concat();
    parallel::map(&jobs, |at, (policy, materialised)| {
        (context.progress)("shutdowns", 0.9 + 0.1 * at as f64 / jobs.len() as f64);
        shutdown(&config, &image, *policy, *materialised)
            .with_context(|| format!("shutdown of {}, materialised: {materialised}", policy.name()))
    })
}

fn shutdown(
    config: &BenchConfig,
    image: &Image,
    policy: PolicyKind,
    materialised: bool,
) -> anyhow::Result<Shutdown> {
    let run = Run { system: System::Cached(policy), flash_percent: PERCENT[1] };
    let media = Media::over(image, config, run)?;
    let (shutdown_s, disk_writes) = in_simulation(config.seed, || {
        let rig = media.machine(image, config, run, config.checkpoint_interval)?;
        let layer = rig.create_layer()?;
        let (parts, options) = rig.parts(layer.clone());
        let (store, _) = Store::open(parts, options)?;
        store.model_cpu(CPU);
        let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
        warm_up(config.warmup, rig.tier.as_ref(), &driver, &store, &|_| {})?;
        if to_mid_interval(&store, &driver, config.checkpoint_interval, &|| {}).is_none() {
            driver.finish()?;
            bail!("a client stopped without an error");
        }
        driver.stop();
        driver.finish()?;
        let (began, before) = (now(), layer.metrics().disk_writes);
        match materialised {
            true => store.shutdown_quickly()?,
            false => store.shutdown()?,
        }
        Ok((now().since(began).as_secs_f64(), layer.metrics().disk_writes - before))
    })?;
    let start = |media: &Media, warm: bool| {
        in_simulation(config.seed.wrapping_add(1), || {
            start(config, &media.machine(image, config, run, config.checkpoint_interval)?, warm)
        })
    };
    let cold = start(&media.fork(), false)?;
    let warm = start(&media, true)?;
    Ok(Shutdown {
        policy,
        materialised,
        shutdown_s,
        disk_writes,
        dirty: warm.dirty,
        start_s: [warm.start_s, cold.start_s],
        hits: [warm.hits, cold.hits],
        consistent: warm.consistent && cold.consistent,
    })
}

struct Started {
    start_s: f64,
    dirty: u64,
    hits: f64,
    consistent: bool,
}

fn start(config: &BenchConfig, rig: &Rig, warm: bool) -> anyhow::Result<Started> {
    let began = now();
    let layer = if warm { rig.reopen_layer()?.0 } else { rig.create_layer()? };
    let (parts, options) = rig.parts(layer);
    let (store, report) = Store::open(parts, options)?;
    store.model_cpu(CPU);
    let start_s = now().since(began).as_secs_f64();
    let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
    let before = store.metrics().tier;
    driver.sleep(WATCHED);
    let after = store.metrics().tier;
    rig.stop_the_clock();
    driver.stop();
    driver.finish()?;
    let consistent = consistent(&store)?;
    store.shutdown()?;
    let (hits, misses) = (after.flash_hits - before.flash_hits, after.disk_reads - before.disk_reads);
    let hits = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
    Ok(Started { start_s, dirty: report.materialised, hits, consistent })
}

/// Rows of the chapter: the paper has no numbers of these.
pub(super) fn rows(all: &[Shutdown]) -> Rows {
    let mut rows = Rows::new();
    for run in all {
        let how = if run.materialised { "H materialised" } else { "flushed" };
        let mut add = |what: &str, unit, value: f64| {
            rows.add("3LA §3.3", format!("{what}, {}, {how}", run.policy.name()), unit, None, Some(value));
        };
        add("shutdown", ("s", 2), run.shutdown_s);
        add("pages written to disk by the shutdown", ("pages", 0), run.disk_writes as f64);
        add("start", ("s", 2), run.start_s[0]);
        add("flash hits of misses at first", ("%", 1), run.hits[0]);
        add("the same, empty flash", ("%", 1), run.hits[1]);
    }
    rows
}

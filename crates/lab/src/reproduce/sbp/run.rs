//! One restart of SBP's chapter: TAC runs until it is warm, stops by a crash or a shutdown, and is started
//! again, with its slot directory or without it.
//!
//! Invariant: both restarts begin on copies of the same media.

use crate::bench::image::{CPU, Image, PAGE_BYTES};
use crate::bench::restart::run_until_kill;
use crate::bench::rig::{Media, Rig};
use crate::bench::tpcc::{CORES, clients, in_simulation, run_on, warm_up};
use crate::bench::verify::consistent;
use crate::config::{BenchConfig, Run};
use crate::paper::sbp::{self as paper, Ran, Restarted};
use anyhow::Context as _;
use entresol_core::{PolicyKind, System};
use entresol_engine::{Layer, TierMetrics};
use entresol_runtime::{JoinHandle, now, sleep, spawn};
use entresol_store::Store;
use entresol_tpcc::Database;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// TAC at the paper's size.
pub(super) const TAC: Run = Run {
    system: System::Cached(PolicyKind::Tac),
    flash_percent: paper::DRAM_PERCENT * paper::FLASH_BY_DRAM,
};
/// The system without flash.
const BASE: Run = Run { system: System::DiskOnly, flash_percent: 0.0 };
/// Seconds of one point of the curves.
const STEP: Duration = Duration::from_secs(2);
/// Of the curve of reads while a restart is under way.
const SAMPLE: Duration = Duration::from_millis(500);

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Everything in memory is lost, half an interval after a checkpoint.
    Crash,
    /// The store is shut down.
    Shutdown,
}

/// Runs until `ending` and starts again, warm and cold; each is watched for `watched` after its restart.
pub(super) fn restarts(
    config: &BenchConfig,
    image: &Image,
    ending: Ending,
    watched: Duration,
    told: &dyn Fn(&str),
) -> anyhow::Result<[Restarted; 2]> {
    let media = Media::over(image, config, TAC)?;
    told("until it stops");
    match ending {
        Ending::Crash => crash(config, image, TAC, &media)?,
        Ending::Shutdown => until_shutdown(config, image, &media).context("the shutdown")?,
    }
    let restart = |warm: bool| {
        told(if warm { "warm restart" } else { "cold restart" });
        restart_on(config, image, TAC, &media.fork(), warm, watched)
    };
    Ok([restart(true)?, restart(false)?])
}

/// Runs the system without flash until a crash, and starts it again.
pub(super) fn base(config: &BenchConfig, image: &Image, watched: Duration) -> anyhow::Result<Restarted> {
    let media = Media::over(image, config, BASE)?;
    crash(config, image, BASE, &media)?;
    restart_on(config, image, BASE, &media, true, watched)
}

fn crash(config: &BenchConfig, image: &Image, run: Run, media: &Media) -> anyhow::Result<()> {
    let interval = config.checkpoint_interval;
    run_until_kill(config, image, run, interval, media, &|_| {}).map(drop).context("the crash")
}

fn restart_on(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    media: &Media,
    warm: bool,
    watched: Duration,
) -> anyhow::Result<Restarted> {
    in_simulation(config.seed.wrapping_add(1), || {
        let rig = media.machine(image, config, run, config.checkpoint_interval)?;
        started(config, &rig, warm, watched)
    })
}

/// Counts the pages that a layer reads from flash, in steps, until it is told to stop.
fn sample(layer: Arc<dyn Layer>, stopped: Arc<AtomicBool>, counted: Arc<Mutex<Vec<u64>>>) -> JoinHandle {
    spawn("sampler", move || {
        while !stopped.load(Ordering::Relaxed) {
            sleep(SAMPLE);
            counted.lock().push(layer.metrics().flash_hits);
        }
    })
}

/// `(middle of a step, pages a second)` of counts at the ends of steps.
fn rates(counted: &[u64]) -> Vec<(f64, f64)> {
    let step = SAMPLE.as_secs_f64();
    let mut before = 0;
    let rate = |(at, count): (usize, &u64)| {
        let rate = (count - std::mem::replace(&mut before, *count)) as f64 / step;
        ((at as f64 + 0.5) * step, rate)
    };
    counted.iter().enumerate().map(rate).collect()
}

fn until_shutdown(config: &BenchConfig, image: &Image, media: &Media) -> anyhow::Result<()> {
    in_simulation(config.seed, || {
        let rig = media.machine(image, config, TAC, config.checkpoint_interval)?;
        let (parts, options) = rig.parts(rig.create_layer()?);
        let (store, _) = Store::open(parts, options)?;
        store.model_cpu(CPU);
        let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
        warm_up(config.warmup, rig.tier.as_ref(), &driver, &store, &|_| {})?;
        driver.stop();
        driver.finish()?;
        store.shutdown()?;
        Ok(())
    })
}

fn started(config: &BenchConfig, rig: &Rig, warm: bool, watched: Duration) -> anyhow::Result<Restarted> {
    let began = now();
    let since = || now().since(began).as_secs_f64();
    let layer = if warm { rig.reopen_layer()?.0 } else { rig.create_layer()? };
    let (stopped, counted) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let sampler = sample(layer.clone(), stopped.clone(), counted.clone());
    let (parts, options) = rig.parts(layer);
    let (store, report) = Store::open(parts, options)?;
    store.model_cpu(CPU);
    let restart_s = since();
    stopped.store(true, Ordering::Relaxed);
    let mut flash_reads = rates(&counted.lock());
    let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
    let mut before = (driver.snapshot(), store.metrics());
    let mut tpmc = vec![(0.0, 0.0), (restart_s, 0.0)];
    let mut cpu = vec![(0.0, 0.0), (restart_s, 0.0)];
    let mut flash_hits = Vec::new();
    for _ in 0..watched.as_secs() / STEP.as_secs() {
        driver.sleep(STEP);
        let after = (driver.snapshot(), store.metrics());
        let middle = since() - STEP.as_secs_f64() / 2.0;
        let hits = (after.1.tier.flash_hits - before.1.tier.flash_hits) as f64;
        let misses = (after.1.tier.disk_reads - before.1.tier.disk_reads) as f64;
        let fixes = CPU.per_fix.as_secs_f64() * (after.1.fixes - before.1.fixes) as f64;
        let commits = CPU.per_transaction.as_secs_f64() * (after.1.commits - before.1.commits) as f64;
        cpu.push((middle, (fixes + commits) / (STEP.as_secs_f64() * CORES as f64)));
        tpmc.push((middle, after.0.since(&before.0).tpm_c()));
        flash_reads.push((middle, hits / STEP.as_secs_f64()));
        flash_hits.push((middle, 100.0 * hits / (hits + misses).max(1.0)));
        before = after;
    }
    let TierMetrics { directory_writes, flash_writes, .. } = before.1.tier;
    rig.stop_the_clock();
    driver.stop();
    driver.finish()?;
    sampler.join();
    let consistent = consistent(&store)?;
    store.shutdown()?;
    Ok(Restarted {
        warm,
        restart_s,
        redo_pages: report.redo_fetched,
        redo_from_flash: report.redo_from_flash,
        tpmc,
        flash_reads,
        cpu,
        flash_hits,
        directory_writes: directory_writes as f64 / flash_writes.max(1) as f64,
        consistent,
    })
}

/// A run of TAC with its slot directory on the device of that profile; `None`: of the system without flash.
pub(super) fn ran(config: &BenchConfig, image: &Image, directory: Option<&str>) -> anyhow::Result<Ran> {
    let run = if directory.is_some() { TAC } else { BASE };
    let media = Media::over(image, config, run)?;
    in_simulation(config.seed, || {
        let mut rig = media.machine(image, config, run, config.checkpoint_interval)?;
        if let Some(profile) = directory {
            media.directory_on(&mut rig, image, profile)?;
        }
        let (result, ..) = run_on(&rig, config, image.pages, run, None, &|_| {})?;
        let log_pages = rig.log.counters().written_bytes / u64::from(PAGE_BYTES);
        Ok(Ran { tpmc: result.tpmC, log_pages })
    })
    .with_context(|| format!("slot directory on {directory:?}"))
}

//! One restart of SBP's chapter: TAC runs until it is warm, stops by a crash or a shutdown, and is started
//! again, with its slot directory or without it.
//!
//! Invariant: both restarts begin on copies of the same media.

use crate::bench::image::{CPU, Image};
use crate::bench::restart::run_until_kill;
use crate::bench::rig::{Media, Rig};
use crate::bench::tpcc::{clients, in_simulation, run_on, warm_up};
use crate::bench::verify::consistent;
use crate::config::{BenchConfig, Run};
use crate::paper::sbp::{self as paper, Restarted};
use anyhow::Context as _;
use entresol_core::{PolicyKind, System};
use entresol_runtime::now;
use entresol_store::Store;
use entresol_tpcc::Database;
use std::time::Duration;

/// TAC at the paper's size.
pub(super) const TAC: Run = Run {
    system: System::Cached(PolicyKind::Tac),
    flash_percent: paper::DRAM_PERCENT * paper::FLASH_BY_DRAM,
};
/// Seconds of one point of the curves.
const STEP: Duration = Duration::from_secs(2);

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
    let interval = config.checkpoint_interval;
    told("until it stops");
    match ending {
        Ending::Crash => {
            run_until_kill(config, image, TAC, interval, &media, &|_| {}).map(drop).context("the crash")?;
        }
        Ending::Shutdown => until_shutdown(config, image, &media).context("the shutdown")?,
    }
    let restart = |warm: bool| {
        told(if warm { "warm restart" } else { "cold restart" });
        let media = media.fork();
        in_simulation(config.seed.wrapping_add(1), || {
            let rig = media.machine(image, config, TAC, interval)?;
            started(config, &rig, warm, watched)
        })
    };
    Ok([restart(true)?, restart(false)?])
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
    let (parts, options) = rig.parts(layer);
    let (store, report) = Store::open(parts, options)?;
    store.model_cpu(CPU);
    let restart_s = since();
    let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
    let mut before = (driver.snapshot(), store.metrics().tier);
    let during = report.redo_from_flash as f64 / restart_s.max(1e-9);
    let mut tpmc = vec![(0.0, 0.0), (restart_s, 0.0)];
    let mut flash_reads = vec![(0.0, during), (restart_s, during)];
    let mut flash_hits = Vec::new();
    for _ in 0..watched.as_secs() / STEP.as_secs() {
        driver.sleep(STEP);
        let after = (driver.snapshot(), store.metrics().tier);
        let middle = since() - STEP.as_secs_f64() / 2.0;
        let hits = (after.1.flash_hits - before.1.flash_hits) as f64;
        let misses = (after.1.disk_reads - before.1.disk_reads) as f64;
        tpmc.push((middle, after.0.since(&before.0).tpm_c()));
        flash_reads.push((middle, hits / STEP.as_secs_f64()));
        flash_hits.push((middle, 100.0 * hits / (hits + misses).max(1.0)));
        before = after;
    }
    rig.stop_the_clock();
    driver.stop();
    driver.finish()?;
    let consistent = consistent(&store)?;
    store.shutdown()?;
    Ok(Restarted {
        warm,
        restart_s,
        redo_pages: report.redo_fetched,
        redo_from_flash: report.redo_from_flash,
        tpmc,
        flash_reads,
        flash_hits,
        consistent,
    })
}

/// tpmC of TAC with its slot directory on the device of that profile.
pub(super) fn directory_on(config: &BenchConfig, image: &Image, profile: &str) -> anyhow::Result<f64> {
    let media = Media::over(image, config, TAC)?;
    let (result, ..) = in_simulation(config.seed, || {
        let mut rig = media.machine(image, config, TAC, config.checkpoint_interval)?;
        media.directory_on(&mut rig, image, profile)?;
        run_on(&rig, config, image.pages, TAC, None, &|_| {})
    })
    .with_context(|| format!("slot directory on {profile}"))?;
    Ok(result.tpmC)
}

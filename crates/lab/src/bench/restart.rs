//! One run of `bench restart` (FaCE §5.5): warm up, kill in the middle of a checkpoint interval, restart, go
//! on.

use crate::bench::digest;
use crate::bench::image::{CPU, Image};
use crate::bench::rig::{Media, Rig, sizes};
use crate::bench::tpcc::{REPORTS, clients, in_simulation, warm_up};
use crate::bench::verify::consistent;
use crate::config::{BenchConfig, Run, Stage};
use crate::result::RestartResult;
use anyhow::{Context, bail};
use entresol_runtime::sim::{self, Outcome, SimConfig, Simulation};
use entresol_runtime::{now, sleep};
use entresol_store::Store;
use entresol_tpcc::{Database, Kind};
use parking_lot::Mutex;
use std::time::Duration;

/// How often the run looks whether a checkpoint has ended.
const POLL: Duration = Duration::from_millis(100);
/// Seconds averaged in one point of the curve after the restart.
const POINT_S: usize = 5;

/// Kills and restarts one system on modelled devices.
pub fn simulate(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    interval: Duration,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<RestartResult> {
    let media = Media::over(image, config, run)?.with_log_like_the_database(image);
    let what = || format!("system {} with {} s between checkpoints", run.system.name(), interval.as_secs());
    let before = run_until_kill(config, image, run, interval, &media, progress).with_context(what)?;
    progress(Stage::Restarting);
    let consistent_at_once =
        restart_and_look(config, image, run, interval, &media.fork()).with_context(what)?;
    let mut result = restart(config, image, run, interval, &media, progress).with_context(what)?;
    result.consistency_ok &= consistent_at_once;
    result.tpmC_before = before;
    result.digest = digest::of(&result, 0);
    Ok(result)
}

/// Runs until half an interval after a checkpoint; then everything in memory is lost. Returns tpmC since that
/// checkpoint.
pub fn run_until_kill(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    interval: Duration,
    media: &Media,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<f64> {
    let ended: Mutex<Option<anyhow::Result<f64>>> = Mutex::new(None);
    let simulation = Simulation::new(SimConfig { seed: config.seed, ..SimConfig::default() });
    let outcome = simulation.run(|| {
        let result = (|| {
            let rig = media.machine(image, config, run, interval)?;
            let (parts, options) = rig.parts(rig.create_layer()?);
            let (store, _) = Store::open(parts, options)?;
            store.model_cpu(CPU);
            let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
            let forget = || rig.forget_old_log(&store);
            warm_up(config.warmup, rig.tier.as_ref(), &driver, &store, &|stage| {
                forget();
                progress(stage);
            })?;
            if let Some(tpm_c) = to_mid_interval(&store, &driver, interval, &forget) {
                return Ok(tpm_c);
            }
            driver.finish()?;
            bail!("a client stopped without an error")
            // The driver is dropped here, which only sets a flag; the next step pulls the plug.
        })();
        *ended.lock() = Some(result);
        sim::halt()
    });
    match (ended.into_inner(), outcome) {
        (Some(result), Outcome::Halted) => result,
        (_, Outcome::Deadlock { parked }) => {
            bail!("all simulated tasks wait for each other: {}", parked.join(", "))
        }
        (_, Outcome::Panicked(message)) => bail!("a simulated task failed: {message}"),
        (_, other) => bail!("the simulation ended before the kill: {other:?}"),
    }
}

/// Runs on until half an interval after the next checkpoint; `meanwhile` is called now and then. Returns tpmC
/// since that checkpoint, `None` if a client has failed.
pub fn to_mid_interval(
    store: &Store,
    driver: &entresol_tpcc::Run,
    interval: Duration,
    meanwhile: &dyn Fn(),
) -> Option<f64> {
    let checkpoints = store.metrics().checkpoints;
    while store.metrics().checkpoints == checkpoints && !driver.has_failed() {
        sleep(POLL);
    }
    meanwhile();
    let start = driver.snapshot();
    driver.sleep(interval / 2);
    (!driver.has_failed()).then(|| driver.snapshot().since(&start).tpm_c())
}

/// Whether the consistency conditions hold right after a restart: on copies and in no time, since to look at
/// all of the database would warm every cache for the restart that is measured.
fn restart_and_look(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    interval: Duration,
    media: &Media,
) -> anyhow::Result<bool> {
    in_simulation(config.seed.wrapping_add(1), || {
        let rig = media.machine(image, config, run, interval)?;
        rig.stop_the_clock();
        let (parts, options) = rig.parts(rig.reopen_layer()?.0);
        let (store, _) = Store::open(parts, options)?;
        store.model_cpu(CPU);
        let consistent = consistent(&store)?;
        store.shutdown()?;
        Ok(consistent)
    })
}

fn restart(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    interval: Duration,
    media: &Media,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<RestartResult> {
    in_simulation(config.seed.wrapping_add(1), || {
        let rig = media.machine(image, config, run, interval)?;
        restart_on(&rig, config, image.pages, run, interval, progress, &consistent)
    })
}

/// Restarts one system on its devices after a crash, whichever they are, goes on, and looks at the database
/// in the end. Returns the result without tpmC before the crash and without its digest.
pub fn restart_on(
    rig: &Rig,
    config: &BenchConfig,
    database_pages: u64,
    run: Run,
    interval: Duration,
    progress: &(dyn Fn(Stage) + Sync),
    check: &dyn Fn(&Store) -> anyhow::Result<bool>,
) -> anyhow::Result<RestartResult> {
    let began = now();
    let (layer, directory_restore) = rig.reopen_layer()?;
    let (parts, options) = rig.parts(layer);
    let (store, report) = Store::open(parts, options)?;
    store.model_cpu(CPU);
    let restart_s = now().since(began).as_secs_f64();
    let driver = entresol_tpcc::start(&Database::open(&store)?, &clients(config))?;
    for _ in 0..REPORTS {
        rig.forget_log(&store);
        driver.sleep(config.measured / REPORTS);
    }
    let statistics = driver.snapshot();
    rig.stop_the_clock();
    driver.stop();
    driver.finish()?;
    progress(Stage::Checking);
    let consistency_ok = check(&store)?;
    store.shutdown()?;
    debug_assert!(statistics.of(Kind::NewOrder).committed > 0);
    let (_, slots) = sizes(config, database_pages, run);
    Ok(RestartResult {
        system: run.system.name().to_owned(),
        checkpoint_interval_s: interval.as_secs_f64(),
        flash_percent: if slots > 0 { run.flash_percent } else { 0.0 },
        flash_device: config.flash_device.clone(),
        disk_device: config.disk_device.clone(),
        warehouses: config.warehouses,
        clients: config.clients,
        seed: config.seed,
        restart_s,
        directory_restore_s: directory_restore.as_secs_f64(),
        log_bytes: report.log_bytes,
        redo_pages: report.redo_fetched,
        redo_from_flash_share: share(report.redo_from_flash, report.redo_fetched),
        tpmC_after: curve(restart_s, &statistics.new_orders_per_second, config.measured),
        consistency_ok,
        ..RestartResult::default()
    })
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// `[second since the kill, tpmC]`, zero while the system restarts, then a point for every few seconds.
fn curve(restart_s: f64, per_second: &[u32], measured: Duration) -> Vec<[f64; 2]> {
    let mut points = vec![[0.0, 0.0], [restart_s, 0.0]];
    let seconds = (measured.as_secs() as usize).min(per_second.len());
    for (index, chunk) in per_second[..seconds].chunks(POINT_S).enumerate() {
        let orders: u32 = chunk.iter().sum();
        let tpm = f64::from(orders) * 60.0 / chunk.len() as f64;
        points.push([restart_s + (index * POINT_S) as f64 + chunk.len() as f64 / 2.0, tpm]);
    }
    points
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_curve_is_zero_until_the_restart_is_over() {
        let curve = super::curve(10.0, &[1, 1, 1, 1, 1, 2, 2], std::time::Duration::from_secs(7));
        assert_eq!(curve, [[0.0, 0.0], [10.0, 0.0], [12.5, 60.0], [16.0, 120.0]]);
    }
}

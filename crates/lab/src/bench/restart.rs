//! One run of `bench restart` (FaCE §5.5): warm up, kill in the middle of a checkpoint interval, restart, go
//! on.

use crate::bench::digest;
use crate::bench::image::{CPU, Image, PAGE_BYTES};
use crate::bench::rig::{Media, Rig, sizes};
use crate::bench::tpcc::{REPORTS, clients, in_simulation, warm_up};
use crate::bench::verify::consistent;
use crate::config::{BenchConfig, Redo, Run, Stage};
use crate::result::RestartResult;
use anyhow::{Context, bail};
use entresol_core::PageId;
use entresol_device::Counters;
use entresol_runtime::sim::{self, Outcome, SimConfig, Simulation};
use entresol_runtime::{now, sleep};
use entresol_store::{PageWatcher, Store};
use entresol_tpcc::{Database, Kind};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    result.tpmC_before = before.tpm_c;
    result.turnover = before.turnover;
    result.digest = digest::of(&result, 0);
    Ok(result)
}

/// The result of a restart under a log of another name that is the same for its system.
pub fn under(result: &RestartResult, redo: Redo) -> RestartResult {
    let mut named = RestartResult { redo: redo.name().into(), digest: String::new(), ..result.clone() };
    named.digest = digest::of(&named, 0);
    named
}

/// What happened from the last checkpoint until a kill.
#[derive(Clone, Copy, Debug, Default)]
pub struct BeforeKill {
    /// tpmC.
    pub tpm_c: f64,
    /// Pages written to flash by the slots.
    pub turnover: f64,
}

/// Runs until half an interval after a checkpoint; then everything in memory is lost. Returns what happened
/// since that checkpoint.
pub fn run_until_kill(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    interval: Duration,
    media: &Media,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<BeforeKill> {
    let ended: Mutex<Option<anyhow::Result<BeforeKill>>> = Mutex::new(None);
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
            let written = Cell::new(0);
            let at_checkpoint = || {
                forget();
                written.set(store.metrics().tier.flash_writes);
            };
            if let Some(tpm_c) = to_mid_interval(&store, &driver, interval, &at_checkpoint) {
                let tier = store.metrics().tier;
                let turnover = (tier.flash_writes - written.get()) as f64 / tier.slots.max(1) as f64;
                return Ok(BeforeKill { tpm_c, turnover });
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

/// Runs on until half an interval after the next checkpoint, at the end of which `meanwhile` is called.
/// Returns tpmC since that checkpoint, `None` if a client has failed.
pub fn to_mid_interval(
    store: &Store,
    driver: &entresol_tpcc::Run,
    interval: Duration,
    meanwhile: &dyn Fn(),
) -> Option<f64> {
    let checkpoints = store.metrics().checkpoints;
    while store.metrics().checkpoints == checkpoints && !driver.has_failed() {
        sleep(POLL.min(interval / 20));
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
    let idle = rig.counters(run);
    let (layer, directory_restore) = rig.reopen_layer()?;
    let (parts, mut options) = rig.parts(layer);
    let touched = Arc::new(Touched::default());
    options.watcher = Some(touched.clone());
    let (store, report) = Store::open(parts, options)?;
    store.model_cpu(CPU);
    let restart_s = now().since(began).as_secs_f64();
    let pages_touched = touched.stop();
    let restart_io = io(&idle, &rig.counters(run));
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
        redo: config.redo.name().to_owned(),
        pages_touched,
        restart_io,
        redo_pages: report.redo_fetched,
        redo_from_flash_share: share(report.redo_from_flash, report.redo_fetched),
        tpmC_after: curve(restart_s, &statistics.new_orders_per_second, config.measured),
        consistency_ok,
        ..RestartResult::default()
    })
}

/// Pages read and written between two counts of flash and disk.
fn io(before: &(Counters, Counters), after: &(Counters, Counters)) -> [u64; 4] {
    let pages = |before: u64, after: u64| (after - before) / u64::from(PAGE_BYTES);
    let of = |before: &Counters, after: &Counters| {
        [pages(before.read_bytes, after.read_bytes), pages(before.written_bytes, after.written_bytes)]
    };
    let [flash, disk] = [of(&before.0, &after.0), of(&before.1, &after.1)];
    [flash[0], flash[1], disk[0], disk[1]]
}

/// Counts the different pages that are touched until it is stopped.
#[derive(Debug, Default)]
struct Touched {
    pages: Mutex<Option<HashSet<PageId>>>,
    stopped: AtomicBool,
}

impl Touched {
    fn stop(&self) -> u64 {
        self.stopped.store(true, Ordering::Relaxed);
        self.pages.lock().take().map_or(0, |pages| pages.len() as u64)
    }
}

impl PageWatcher for Touched {
    fn fixed(&self, page: PageId) {
        if !self.stopped.load(Ordering::Relaxed) {
            self.pages.lock().get_or_insert_default().insert(page);
        }
    }

    fn changed(&self, _: PageId) {}
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

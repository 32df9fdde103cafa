//! One run of `bench tpcc`: warm up, measure, verify.

use crate::bench::cache::{CacheOptions, write_budget};
use crate::bench::digest;
use crate::bench::image::{CPU, Image, PAGE_BYTES};
use crate::bench::record::Recording;
use crate::bench::rig::{Media, Rig, sizes};
use crate::bench::verify::consistent;
use crate::bench::warmth::Warmth;
use crate::config::{BenchConfig, Run, Stage, Warmup};
use crate::result::TpccResult;
use anyhow::{Context, bail};
use entresol_core::System;
use entresol_device::Counters;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::{Time, now};
use entresol_store::{PageWatcher, Store, StoreMetrics};
use entresol_tpcc::driver::{Home, Pace};
use entresol_tpcc::{Database, Kind, RunConfig, Seed, Statistics};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cores of the paper's machine (i7-860: four, with two threads each).
pub const CORES: usize = 4;
/// Steps of a measurement, for progress and upkeep.
pub const REPORTS: u32 = 50;

/// Runs `main` as the first task of a simulated machine, and turns whatever ends it otherwise into an error.
pub fn in_simulation<T>(seed: u64, main: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let config = SimConfig { seed, cores: CORES, ..SimConfig::default() };
    match Simulation::new(config).run(main) {
        Outcome::Finished(result) => result,
        Outcome::Halted => bail!("the simulation was halted"),
        Outcome::Deadlock { parked } => {
            bail!("all simulated tasks wait for each other: {}", parked.join(", "))
        }
        Outcome::Panicked(message) => bail!("a simulated task failed: {message}"),
    }
}

/// The clients of a run.
pub fn clients(config: &BenchConfig) -> RunConfig {
    paced_clients(config.clients, config.think, config.seed)
}

/// So many clients, each at its own home, that think so long between transactions.
pub fn paced_clients(clients: u32, think: Duration, seed: u64) -> RunConfig {
    let pace = if think.is_zero() { Pace::Unpaced } else { Pace::Think(think) };
    RunConfig { home: Home::Fixed, pace, ..RunConfig::new(clients, Seed(seed)) }
}

/// Runs one system on modelled devices.
pub fn simulate(
    config: &BenchConfig,
    image: &Image,
    run: Run,
    recording: Option<&Arc<Recording>>,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<TpccResult> {
    let began = Instant::now();
    let media = Media::over(image, config, run)?;
    let (mut result, decisions, speedup) = in_simulation(config.seed, || {
        let rig = media.machine(image, config, run, config.checkpoint_interval)?;
        run_on(&rig, config, image.pages, run, recording, progress)
    })
    .with_context(|| format!("system {}", run.system.name()))?;
    let flash_writes = result.flash_writes.take();
    result.digest = digest::of(&result, decisions);
    result.flash_writes = flash_writes;
    result.speedup = speedup;
    result.wall_seconds = began.elapsed().as_secs_f64();
    result.resident_mib = resident_mib();
    Ok(result)
}

/// Runs one system on its devices, whichever they are. Returns the result without its digest, the hash of all
/// decisions of the cache, and the speed-up.
pub fn run_on(
    rig: &Rig,
    config: &BenchConfig,
    database_pages: u64,
    run: Run,
    recording: Option<&Arc<Recording>>,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<(TpccResult, u64, f64)> {
    let (began, began_wall) = (now(), Instant::now());
    let (parts, mut options) = rig.parts(rig.create_layer()?);
    options.watcher = recording.map(|recording| recording.clone() as Arc<dyn PageWatcher>);
    let (store, _) = Store::open(parts, options)?;
    store.model_cpu(CPU);
    let window = measure(config, &store, rig, run, recording.map(|recording| &**recording), progress)?;
    let speedup = now().since(began).as_secs_f64() / began_wall.elapsed().as_secs_f64();
    let mut result = describe(config, database_pages, run)?;
    window.fill(&mut result);
    progress(Stage::Checking);
    rig.stop_the_clock();
    if let Some(recording) = recording {
        let name =
            format!("tpcc, {} warehouses, {}, seed {}", config.warehouses, run.system.name(), config.seed);
        recording.finish(&store, &name)?;
    }
    result.consistency_ok = consistent(&store)?;
    let decisions = window.end.store.tier.decision_hash;
    store.shutdown()?;
    Ok((result, decisions, speedup))
}

/// Everything counted at one instant.
pub struct Snapshot {
    at: Time,
    clients: Statistics,
    /// The store's counters.
    pub store: StoreMetrics,
    flash: Counters,
    disk: Counters,
}

/// What happened between two instants.
pub struct Window {
    start: Snapshot,
    end: Snapshot,
    warmup: Duration,
}

/// Takes a snapshot.
pub fn snapshot(driver: &entresol_tpcc::Run, store: &Store, rig: &Rig, run: Run) -> Snapshot {
    let (flash, disk) = rig.counters(run);
    Snapshot { at: now(), clients: driver.snapshot(), store: store.metrics(), flash, disk }
}

/// Runs until `cache` is warm.
pub fn warm_up(
    warmup: Warmup,
    cache: Option<&CacheOptions>,
    driver: &entresol_tpcc::Run,
    store: &Store,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<Duration> {
    let began = now();
    let mut warmth = Warmth::new(warmup, cache);
    loop {
        let passed = now().since(began);
        progress(Stage::Warming(passed.as_secs_f64()));
        if warmth.reached(passed, &store.metrics().tier) || driver.has_failed() {
            return Ok(passed);
        }
        driver.sleep(Duration::from_secs(1));
    }
}

fn measure(
    config: &BenchConfig,
    store: &Store,
    rig: &Rig,
    run: Run,
    recording: Option<&Recording>,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<Window> {
    let database = Database::open(store)?;
    recording.inspect(|recording| recording.start());
    let driver = entresol_tpcc::start(&database, &clients(config))?;
    let warmup = warm_up(config.warmup, rig.tier.as_ref(), &driver, store, &|stage| {
        rig.forget_log(store);
        progress(stage);
    })?;
    let start = snapshot(&driver, store, rig, run);
    for step in 0..REPORTS {
        rig.forget_log(store);
        progress(Stage::Measuring(f64::from(step) / f64::from(REPORTS)));
        driver.sleep(config.measured / REPORTS);
    }
    let end = snapshot(&driver, store, rig, run);
    recording.inspect(|recording| recording.stop());
    rig.stop_the_clock();
    driver.stop();
    driver.finish()?;
    Ok(Window { start, end, warmup })
}

/// The configuration part of a result.
fn describe(config: &BenchConfig, database_pages: u64, run: Run) -> anyhow::Result<TpccResult> {
    let (dram_pages, flash_pages) = sizes(config, database_pages, run);
    let budget = match run.system {
        System::Cached(policy) => write_budget(config, policy)?.bytes_per_day,
        _ => None,
    };
    Ok(TpccResult {
        flash_writes_per_day: budget,
        system: run.system.name().to_owned(),
        flash_percent: if flash_pages > 0 { run.flash_percent } else { 0.0 },
        flash_device: config.flash_device.clone(),
        disk_device: config.disk_device.clone(),
        warehouses: config.warehouses,
        clients: config.clients,
        dram_percent: config.dram_percent,
        seed: config.seed,
        database_pages,
        flash_pages,
        dram_pages,
        ..TpccResult::default()
    })
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn pages(start: &Counters, end: &Counters) -> u64 {
    (end.read_bytes + end.written_bytes - start.read_bytes - start.written_bytes) / u64::from(PAGE_BYTES)
}

impl Window {
    fn fill(&self, result: &mut TpccResult) {
        let (start, end) = (&self.start, &self.end);
        let seconds = end.at.since(start.at).as_secs_f64();
        let clients = end.clients.since(&start.clients);
        result.virtual_minutes = seconds / 60.0;
        result.warmup_minutes = self.warmup.as_secs_f64() / 60.0;
        result.tpmC = clients.tpm_c();
        result.transactions_per_second = clients.committed() as f64 / seconds;
        result.deadlocks = clients.deadlocks();
        let latency = &clients.of(Kind::NewOrder).latency_us;
        result.new_order_ms_p50 = latency.value_at_quantile(0.5) as f64 / 1000.0;
        result.new_order_ms_p99 = latency.value_at_quantile(0.99) as f64 / 1000.0;
        result.dram_hit_rate = ratio(end.store.hits - start.store.hits, end.store.fixes - start.store.fixes);
        let (before, after) = (&start.store.tier, &end.store.tier);
        let hits = after.flash_hits + after.staging_hits - before.flash_hits - before.staging_hits;
        // Without a flash cache, pages that the disk still has to write are hits in staging.
        result.flash_hit_rate =
            (result.flash_pages > 0).then(|| ratio(hits, hits + after.disk_reads - before.disk_reads));
        let dirty = after.dirty_evictions - before.dirty_evictions;
        let written = after.disk_writes - before.disk_writes;
        result.write_reduction = if result.flash_pages == 0 { 0.0 } else { 1.0 - ratio(written, dirty) };
        result.duplicate_share = ratio(after.slots_superseded, after.slots_superseded + after.slots_valid);
        result.flash_writes = (result.flash_pages > 0).then(|| after.flash_writes - before.flash_writes);
        result.flash_utilisation = (end.flash.busy - start.flash.busy).as_secs_f64() / seconds;
        result.flash_iops = pages(&start.flash, &end.flash) as f64 / seconds;
        result.disk_utilisation = (end.disk.busy - start.disk.busy).as_secs_f64() / seconds;
        result.disk_iops = pages(&start.disk, &end.disk) as f64 / seconds;
        result.flash_write_amplification = ratio(
            end.flash.programmed_bytes - start.flash.programmed_bytes,
            end.flash.written_bytes - start.flash.written_bytes,
        );
    }
}

/// Largest resident memory of this process so far, in MiB; 0 where the system does not tell.
pub fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
}

//! The same experiments on real files or devices, on threads under the wall clock, one run after the other.

use crate::bench::cache::CacheOptions;
use crate::bench::image::{LOG_BYTES, PAGE_BYTES, disk_bytes};
use crate::bench::real_record::{Line, read_record};
use crate::bench::real_store::RealStore;
use crate::bench::real_worker::Worker;
use crate::bench::record::Recording;
use crate::bench::rig::sizes;
use crate::bench::verify::consistent;
use crate::bench::{Progress, restart, tpcc};
use crate::config::{BenchConfig, RealPaths, Redo, Restart, Run, Stage};
use crate::result::{RestartResult, TpccResult};
use anyhow::{Context, bail};
use entresol_store::Store;
use entresol_tpcc::{Acknowledged, Database, LoadConfig, Scale, Seed, verify_acknowledged};
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs TPC-C on the files or devices of `config.real`, one run after the other; each loads its database
/// anew.
///
/// # Errors
/// If a path cannot be used (see [`RealStore::machine`]), before anything is loaded; if a device or the store
/// fails.
pub fn run_tpcc_real(
    config: &BenchConfig,
    runs: &[Run],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<TpccResult>> {
    let config = with_paths_as_names(config)?;
    for run in runs {
        // Whatever cannot be opened is met now. The database has no more pages than fit.
        describe(&config, *run, config.checkpoint_interval, database_pages_max(&config))?.machine()?;
    }
    let results = runs.iter().enumerate().map(|(index, run)| {
        let result = tpcc_one(&config, *run, None, progress, &|stage| progress(index, stage));
        progress(index, Stage::Done);
        result.with_context(|| name(run))
    });
    let results = results.collect();
    progress(usize::MAX, Stage::Done);
    results
}

/// As [`super::record_tpcc`], on the files or devices of `config.real`.
///
/// # Errors
/// As [`run_tpcc_real`].
pub fn record_tpcc_real(
    config: &BenchConfig,
    run: Run,
    recording: &Arc<Recording>,
    progress: Progress<'_>,
) -> anyhow::Result<TpccResult> {
    let config = with_paths_as_names(config)?;
    describe(&config, run, config.checkpoint_interval, database_pages_max(&config))?.machine()?;
    let result = tpcc_one(&config, run, Some(recording), progress, &|stage| progress(0, stage));
    progress(0, Stage::Done);
    progress(usize::MAX, Stage::Done);
    result.with_context(|| name(&run))
}

fn tpcc_one(
    config: &BenchConfig,
    run: Run,
    recording: Option<&Arc<Recording>>,
    loading: Progress<'_>,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<TpccResult> {
    let began = Instant::now();
    let (store, pages) = load(config, run, config.checkpoint_interval, loading)?;
    let rig = store.machine()?;
    let (mut result, _, speedup) = tpcc::run_on(&rig, config, pages, run, recording, progress)?;
    result.speedup = speedup;
    result.wall_seconds = began.elapsed().as_secs_f64();
    result.resident_mib = tpcc::resident_mib();
    Ok(result)
}

/// As [`super::run_restart`], on the files or devices of `config.real`. The system runs in a process of its
/// own, the command's hidden `worker`, which is killed with SIGKILL.
///
/// # Errors
/// As [`run_tpcc_real`]; and if the process to be killed cannot be started, or ends by itself.
pub fn restart_real(
    config: &BenchConfig,
    restarts: &[Restart],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<RestartResult>> {
    let config = with_paths_as_names(config)?;
    for Restart { run, interval, redo } in restarts {
        if *redo != Redo::Usual {
            bail!("the log is the usual one on real devices, not {}", redo.name());
        }
        describe(&config, *run, *interval, database_pages_max(&config))?.machine()?;
    }
    let results = restarts.iter().enumerate().map(|(index, Restart { run, interval, .. })| {
        let result = restart_one(&config, *run, *interval, progress, &|stage| progress(index, stage));
        progress(index, Stage::Done);
        result.with_context(|| name(run))
    });
    let results = results.collect();
    progress(usize::MAX, Stage::Done);
    results
}

fn restart_one(
    config: &BenchConfig,
    run: Run,
    interval: Duration,
    loading: Progress<'_>,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<RestartResult> {
    let (store, pages) = load(config, run, interval, loading)?;
    let worker = Worker {
        store,
        load: None,
        clients: config.clients,
        think: config.think,
        warmup: config.warmup,
        seed: config.seed,
    };
    let (before, acknowledged) = run_until_kill(&worker, progress)?;
    progress(Stage::Restarting);
    let check = |store: &Store| {
        let lost = verify_acknowledged(&Database::open(store)?, &acknowledged)?;
        if lost.lost > 0 {
            bail!("the kill has lost what was committed: {lost}; do not use this version, and report this");
        }
        consistent(store)
    };
    let rig = worker.store.machine()?;
    let mut result = restart::restart_on(&rig, config, pages, run, interval, progress, &check)?;
    result.tpmC_before = before;
    Ok(result)
}

fn name(run: &Run) -> String {
    format!("system {}", run.system.name())
}

/// The configuration with the paths in the places of the modelled devices' names.
fn with_paths_as_names(config: &BenchConfig) -> anyhow::Result<BenchConfig> {
    let RealPaths { flash, disk, .. } = paths(config)?;
    let name = |path: &Path| path.display().to_string();
    Ok(BenchConfig { flash_device: name(flash), disk_device: name(disk), ..config.clone() })
}

fn paths(config: &BenchConfig) -> anyhow::Result<&RealPaths> {
    config.real.as_ref().context("a real run needs paths of flash, disk and log")
}

/// Pages that fit on the disk as it is laid out.
fn database_pages_max(config: &BenchConfig) -> u64 {
    disk_bytes(config.warehouses) / u64::from(PAGE_BYTES)
}

/// The store of a run on a database of so many pages.
fn describe(
    config: &BenchConfig,
    run: Run,
    checkpoint_interval: Duration,
    database_pages: u64,
) -> anyhow::Result<RealStore> {
    let (frames, slots) = sizes(config, database_pages, run);
    Ok(RealStore {
        system: run.system,
        paths: paths(config)?.clone(),
        database_bytes: disk_bytes(config.warehouses),
        log_bytes: LOG_BYTES,
        tier: CacheOptions::of(config, run, slots)?,
        frames: frames as usize,
        replacement: config.replacement,
        checkpoint_interval,
    })
}

/// Loads a run's database. Returns the store and the database's pages.
fn load(
    config: &BenchConfig,
    run: Run,
    checkpoint_interval: Duration,
    progress: Progress<'_>,
) -> anyhow::Result<(RealStore, u64)> {
    let what = LoadConfig { scale: Scale::standard(config.warehouses), seed: Seed(config.seed) };
    let largest = describe(config, run, checkpoint_interval, database_pages_max(config))?;
    let pages = largest.load(&what, progress)?;
    let store = describe(config, run, checkpoint_interval, pages)?;
    // The cache is smaller than the largest one, and ends elsewhere.
    store.wipe_flash()?;
    Ok((store, pages))
}

/// Starts the worker and kills it in the middle of a checkpoint interval. Returns its tpmC just before, and
/// all that it acknowledged.
fn run_until_kill(
    worker: &Worker,
    progress: &(dyn Fn(Stage) + Sync),
) -> anyhow::Result<(f64, Vec<Acknowledged>)> {
    let command = std::env::current_exe().context("finding this command, to run it as a worker")?;
    let mut process = Command::new(&command)
        .args(worker.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {} as a worker", command.display()))?;
    let record = process.stdout.take().expect("the worker's stdout is a pipe");
    let began = Instant::now();
    let mut shown = 0;
    let mut acknowledged = Vec::new();
    let mut before = None;
    let read = read_record(BufReader::new(record), |line| {
        match line {
            // What follows until the record ends was still written before the kill.
            Line::MidInterval(tpm_c) => {
                before.get_or_insert(tpm_c);
                process.kill().context("killing the worker")?;
            }
            Line::Acknowledged(done) => acknowledged.push(done),
        }
        let seconds = began.elapsed().as_secs();
        if seconds > shown {
            shown = seconds;
            progress(Stage::Warming(seconds as f64));
        }
        Ok(())
    });
    if read.is_err() {
        // It must not outlive this, whatever went wrong; if it is gone already, all the better.
        let _ = process.kill();
    }
    let status = process.wait().context("waiting for the worker")?;
    read?;
    let before =
        before.with_context(|| format!("the worker ended by itself ({status}); what it said is above"))?;
    Ok((before, acknowledged))
}

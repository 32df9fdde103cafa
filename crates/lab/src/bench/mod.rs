//! Running TPC-C on the six systems: simulated, side by side on the cores, or on real files.
//!
//! A database is loaded once (`image`); each simulated run works on a copy-on-write view of it, under its own
//! virtual clock (`rig`). Results depend on the configuration and the seed alone; their digests say so.

mod cache;
pub(crate) mod digest;
pub(crate) mod image;
pub(crate) mod parallel;
mod real;
mod real_record;
mod real_store;
mod real_worker;
mod record;
pub(crate) mod restart;
pub(crate) mod rig;
mod split;
pub(crate) mod tpcc;
mod unpulled;
pub(crate) mod verify;
mod warmth;

use crate::config::{BenchConfig, Restart, Run, Stage};
use crate::result::{RestartResult, TpccResult};
use anyhow::Context;
use entresol_trace::Trace;
use record::Recording;
use std::sync::Arc;

/// Told how far things are: which run (`usize::MAX`: the load, common to all) and its stage.
pub type Progress<'a> = &'a (dyn Fn(usize, Stage) + Sync);

/// Runs TPC-C on each of `runs`, as many at a time as there are cores, and returns their results in the same
/// order.
pub fn run_tpcc(
    config: &BenchConfig,
    runs: &[Run],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<TpccResult>> {
    let image = image::load(config, progress)?;
    parallel::map(runs, |index, run| {
        let result = tpcc::simulate(config, &image, *run, None, &|stage| progress(index, stage))?;
        progress(index, Stage::Done);
        Ok(result)
    })
}

/// Runs TPC-C on one system, and records the page references of its clients from their start (the warm-up,
/// then the measured time) until their end.
pub fn record_tpcc(
    config: &BenchConfig,
    run: Run,
    progress: Progress<'_>,
) -> anyhow::Result<(TpccResult, Trace)> {
    let recording = Arc::new(Recording::default());
    let result = match config.real {
        None => {
            let image = image::load(config, progress)?;
            let stage = |stage| progress(0, stage);
            let result = tpcc::simulate(config, &image, run, Some(&recording), &stage)?;
            progress(0, Stage::Done);
            result
        }
        Some(_) => real::record_tpcc_real(config, run, &recording, progress)?,
    };
    let trace = recording.take().context("the run ended without a trace")?;
    Ok((result, trace))
}

/// For each of `restarts`: runs until warm, kills in the middle of a checkpoint interval, restarts, and goes
/// on. `at_once` of them: the log that a restart will read stays in memory, and those of two large runs take
/// more of it than all the rest. Restarts that differ in the name of their log only are run once.
pub fn run_restart(
    config: &BenchConfig,
    restarts: &[Restart],
    at_once: usize,
    progress: Progress<'_>,
) -> anyhow::Result<Vec<RestartResult>> {
    let image = image::load(config, progress)?;
    let mut distinct: Vec<Restart> = Vec::new();
    let of: Vec<usize> = restarts.iter().map(|restart| place(&mut distinct, restart)).collect();
    let results = parallel::map_on(at_once, &distinct, |at, Restart { run, interval, redo }| {
        let index = of.iter().position(|of| *of == at).expect("a restart that was asked for");
        let config = BenchConfig { redo: *redo, ..config.clone() };
        let result = restart::simulate(&config, &image, *run, *interval, &|stage| progress(index, stage))?;
        progress(index, Stage::Done);
        Ok(result)
    })?;
    let named = |(restart, at): (&Restart, usize)| restart::under(&results[at], restart.redo);
    Ok(restarts.iter().zip(of).map(named).collect())
}

/// The place of a restart among those that differ.
fn place(distinct: &mut Vec<Restart>, restart: &Restart) -> usize {
    let same = |other: &Restart| {
        let alike = other.redo.is_as(restart.redo, restart.run.system);
        alike && (other.run, other.interval) == (restart.run, restart.interval)
    };
    distinct.iter().position(same).unwrap_or_else(|| {
        distinct.push(*restart);
        distinct.len() - 1
    })
}

pub use cache::{CacheOptions, fragment_options};
pub use image::kept_log_bytes;
pub use real::{restart_real, run_tpcc_real};
pub use real_record::{Line, read_record};
pub use real_store::RealStore;
pub use real_worker::{Worker, work};
pub use warmth::WARMUP_MAX;

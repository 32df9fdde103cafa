//! Trace-driven simulation of three layers: DRAM, flash and disk.
//!
//! | file | what it does |
//! |---|---|
//! | `pool` | the DRAM layer: LRU, FIFO, CLOCK over dense page numbers |
//! | `tier` | the layers below: the disk alone, the core's partition or fragments driven as the engine drives them, or a cache that is its own translation layer |
//! | `fragments` | SCE's knobs |
//! | `log_kept` | a log above that is kept so that the flash may be lost |
//! | `device` | how long devices take, what they cost, draw and endure |
//! | `clients` | who waits for what, in virtual time |
//! | `run` | the inner loop |
//! | `result` | the results |
//! | `workload` | a whole trace, or samples of it |
//! | `sampled` | sizes for a sample, and what its counts say of the whole |
//! | `estimate` | means of several samples, and their intervals |
//!
//! Invariant: decisions depend on the trace and the sizes alone; devices and clients only say when (but for
//! SCE, whose workers take virtual time, and `reuse`, which multiplies counts by the devices' rates). The
//! policies are the core's, unchanged: the same trace through the store's engine gives the same decision
//! hash.

mod clients;
mod config;
pub mod device;
mod error;
mod estimate;
mod fragments;
mod lc;
mod log_kept;
pub mod pool;
mod prepare;
mod result;
mod run;
mod sampled;
pub mod tier;
mod workload;

pub use config::{Arrival, NO_CACHE, Replacement, RunConfig, layer_name};
pub use error::SimulationError;
pub use estimate::mean_of;
pub use fragments::FragmentKnobs;
pub use lc::LcKnobs;
pub use log_kept::{KeepLog, Kept};
pub use prepare::{block_sizes, core_config, flash_pages_min, may_keep_log};
pub use result::{
    ForecastResult, HalfWidths, LogResult, RelationResult, SampleResult, SimulationResult, SwitchResult,
};
pub use run::{Counts, Point};
pub use workload::Workload;

use crate::bench::parallel;
use entresol_core::{Cache, Fragments, Partition, fragment_region_bytes, region_bytes};
use entresol_ftl::cache::BlockCache;
use entresol_trace::{SampledTrace, Trace};
use pool::{Clock, Fifo, Lru, Order};
pub(crate) use prepare::Places;
use run::Replay;
pub(crate) use run::Replayed;
use tier::{Bare, Blocks, Cached, ChipSpeed, EXCHANGES_MAX, Exchange, Fragmented, Layer};
use zerocopy::IntoBytes;

/// Told how far things are: which run, and the share of it that is done.
pub type Progress<'a> = &'a (dyn Fn(usize, f64) + Sync);

/// Replays a trace, or samples of it, under each of `configs`, as many at a time as there are cores. Results
/// come in the same order.
///
/// # Errors
/// [`SimulationError`] for the first configuration that is not possible; nothing is run then.
pub fn simulate<'t>(
    workload: impl Into<Workload<'t>>,
    configs: &[RunConfig],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<SimulationResult>> {
    let workload = workload.into();
    for config in configs {
        workload.validate(config)?;
    }
    match workload {
        Workload::Whole(trace) => simulate_whole(trace, configs, progress),
        Workload::Samples(samples) => simulate_samples(workload, samples, configs, progress),
    }
}

/// Each configuration over each sample.
fn simulate_samples(
    workload: Workload<'_>,
    samples: &[SampledTrace],
    configs: &[RunConfig],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<SimulationResult>> {
    let places: Vec<Places> = samples.iter().map(|sample| Places::of(&sample.trace)).collect();
    let jobs: Vec<(usize, usize)> = (0..configs.len())
        .flat_map(|config| (0..samples.len()).map(move |sample| (config, sample)))
        .collect();
    let results = parallel::map(&jobs, |_, &(config, nth)| {
        let (whole, sample) = (&configs[config], &samples[nth]);
        let scaled = sampled::config(sample, whole)?;
        let share = |share: f64| progress(config, (nth as f64 + share) / samples.len() as f64);
        let began = thread_seconds();
        let replayed = replay(&sample.trace, &places[nth], &scaled, &share)?;
        let mut result = sampled::enlarged(sample, whole, &scaled, &replayed);
        let seconds = thread_seconds() - began;
        result.records_per_second = if seconds > 0.0 { scaled.records.len() as f64 / seconds } else { 0.0 };
        Ok(result)
    })?;
    Ok(results
        .chunks(samples.len())
        .map(|of_config| estimate::combined(of_config, workload.pages()))
        .collect())
}

fn simulate_whole(
    trace: &Trace,
    configs: &[RunConfig],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<SimulationResult>> {
    let places = Places::of(trace);
    parallel::map(configs, |index, config| {
        let began = thread_seconds();
        let replayed = replay(trace, &places, config, &|share| progress(index, share))?;
        let seconds = thread_seconds() - began;
        let references_of = prepare::references_of(trace, config);
        let mut result = result::assemble(trace, config, &replayed, &references_of);
        result.records_per_second = if seconds > 0.0 { config.records.len() as f64 / seconds } else { 0.0 };
        Ok(result)
    })
}

/// One run.
pub(crate) fn replay(
    trace: &Trace,
    places: &Places,
    config: &RunConfig,
    progress: &dyn Fn(f64),
) -> Result<Replayed, SimulationError> {
    let disk = config.device(&config.disk_device, trace, trace.pages.len() as u64)?;
    match config.flash_layer {
        None => below_dram(trace, config, Bare::new(disk, places.as_slice()), progress),
        Some(Cache::Policy(policy)) => {
            let core = config.core_config(policy)?;
            let mut region = vec![0u64; region_bytes(&core) / 8];
            let mut regions = vec![Vec::new(); EXCHANGES_MAX];
            let mut partition = Partition::format(region.as_mut_bytes(), &core)?;
            let costs = config.costs(trace.page_bytes);
            partition.set_costs(&costs);
            let flash = config.device(&config.flash_device, trace, core.slots.into())?;
            let devices = (flash, disk);
            let mut tier =
                Cached::new(partition, (config.mode, costs), devices, &trace.pages, places.as_slice());
            if let Some(bytes) = config.write_budget() {
                tier.beside.limit_writes(bytes, u64::from(trace.page_bytes), costs);
            }
            if config.shadows || config.switches {
                tier.beside.run_shadows(&core, config.mode, &costs);
            }
            if config.switches {
                let possible = config.exchangeable(&core);
                tier.beside.follow_shadows(Exchange::new(possible, costs, &mut regions));
            }
            below_dram(trace, config, tier, progress)
        }
        Some(Cache::Fragments) => {
            let fragments = config.fragments.config(trace, config.flash_pages)?;
            let mut region = vec![0u64; fragment_region_bytes(&fragments) / 8];
            let cache = Fragments::format(region.as_mut_bytes(), &fragments)?;
            let slots = fragments.slots * fragments.fragment_pages;
            let flash = config.device(&config.flash_device, trace, slots.into())?;
            below_dram(trace, config, Fragmented::new(cache, (flash, disk), places.as_slice()), progress)
        }
        Some(Cache::Blocks(kind)) => {
            let cache = prepare::block_cache(kind, trace, config.flash_pages)?;
            blocks(trace, places, config, cache, progress)
        }
    }
}

/// One run with a cache that is its own translation layer, whatever flash layer `config` names.
pub(crate) fn blocks(
    trace: &Trace,
    places: &Places,
    config: &RunConfig,
    cache: Box<dyn BlockCache>,
    progress: &dyn Fn(f64),
) -> Result<Replayed, SimulationError> {
    let disk = config.device(&config.disk_device, trace, trace.pages.len() as u64)?;
    let tier = Blocks::new(cache, ChipSpeed::THESIS, disk, places.as_slice());
    below_dram(trace, config, tier, progress)
}

/// Puts the DRAM layer on top.
///
/// # Errors
/// A failed read of a sample's temporary file.
pub(crate) fn below_dram<T: Layer>(
    trace: &Trace,
    config: &RunConfig,
    tier: T,
    progress: &dyn Fn(f64),
) -> Result<Replayed, SimulationError> {
    fn run<O: Order, T: Layer>(
        trace: &Trace,
        config: &RunConfig,
        tier: T,
        progress: &dyn Fn(f64),
    ) -> Result<Replayed, SimulationError> {
        Ok(Replay::<O, T>::new(config, trace, tier).run(progress)?)
    }
    match config.replacement {
        Replacement::Lru => run::<Lru, T>(trace, config, tier, progress),
        Replacement::Fifo => run::<Fifo, T>(trace, config, tier, progress),
        Replacement::Clock => run::<Clock, T>(trace, config, tier, progress),
    }
}

/// Processor seconds of this thread so far; 0 where the system does not tell.
pub(crate) fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

//! Replaying samples of a trace instead of all of it (SHARDS: Waldspurger et al., FAST 2015; miniature
//! simulations, ATC 2017).
//!
//! ```text
//! sizes:    each layer has rate × its size. Log placement keeps the share of its slots free that the whole cache keeps
//! counts:   what a sample counts, divided by the rate
//! rates:    misses / (rate × references of the whole trace): as SHARDS-adj, since references that are too many or
//!           too few in a sample are those of its hottest pages, which hit
//! means:    over several samples; their spread gives the interval (Student's t, 95 %)
//! ```
//!
//! The interval is of what is drawn by chance. It says nothing of what does not scale: groups are smaller,
//! and neighbours are torn apart, so that requests of several pages are several of one page, and disks and
//! drives find fewer pages in a row.
//!
//! Invariant: nothing is answered from a cache too small to stand for the whole one; it is refused with the
//! rate that would do.

use super::config::{Arrival, RunConfig};
use super::device::DeviceSpec;
use super::error::SimulationError;
use super::result::{self, SampleResult, SimulationResult};
use super::run::Replayed;
use entresol_core::{Cache, PolicyKind};
use entresol_trace::{Counted, SampledTrace};

/// Fewest DRAM frames of a sample.
const FRAMES_MIN: u32 = 16;
/// Fewest flash slots of a sample.
pub(super) const SLOTS_MIN: u32 = 256;
/// Fewest slots of a sample from which a drive's garbage collection is told: a hundred erase blocks.
const DRIVE_SLOTS_MIN: u32 = 6400;

/// `pages` of the whole at that rate.
fn scaled(pages: u32, rate: f64) -> u32 {
    (f64::from(pages) * rate).round() as u32
}

/// The run over `sample` that stands for `whole`.
///
/// # Errors
/// [`SimulationError`] for what samples cannot answer, and for layers that would be too small.
pub(super) fn config(sample: &SampledTrace, whole: &RunConfig) -> Result<RunConfig, SimulationError> {
    let rate = sample.sample.rate();
    let refuse = |what: &'static str, why: &'static str| Err(SimulationError::NotSampled { what, why });
    if whole.arrival == Arrival::Timed {
        return refuse("references at the times of the trace (--timed)", "a sample loads devices less");
    }
    if whole.exact_devices {
        return refuse("detailed models of devices (--exact-devices)", "a drive's blocks do not scale");
    }
    match whole.flash_layer {
        Some(Cache::Fragments) => return refuse("sce", "it caches neighbours, which a sample tears apart"),
        Some(Cache::Policy(PolicyKind::Tac)) => {
            return refuse(
                "tac",
                "it knows the temperatures of extents of neighbours, which a sample tears apart",
            );
        }
        Some(Cache::Blocks(kind)) => {
            return refuse(kind.name(), "it maps blocks of neighbours, which a sample tears apart");
        }
        _ => {}
    }
    let least = |what: &'static str, pages: u32, min: u32| match scaled(pages, rate) >= min || pages == 0 {
        true => Ok(()),
        false => Err(SimulationError::SampleTooSmall {
            what,
            pages,
            rate,
            scaled: scaled(pages, rate),
            rate_min: (f64::from(min) / f64::from(pages)).min(1.0),
        }),
    };
    least("DRAM", whole.dram_pages, FRAMES_MIN)?;
    let cached = whole.flash_layer.is_some();
    if cached {
        least("flash", whole.flash_pages, SLOTS_MIN)?;
    }
    let records = sample.sampled(&whole.records);
    Ok(RunConfig {
        dram_pages: scaled(whole.dram_pages, rate),
        flash_pages: if cached { scaled(whole.flash_pages, rate) } else { 0 },
        // Places are as near each other as there are fewer pages.
        disk_device: DeviceSpec { gap_kb: whole.disk_device.gap_kb * rate, ..whole.disk_device.clone() },
        stands_for: cached.then_some(whole.flash_pages),
        measure_from: sample.sampled(&(whole.measure_from..whole.records.end)).start,
        records,
        ..whole.clone()
    })
}

/// What `replayed`, a run of `config` over `sample`, says of the whole trace.
pub(super) fn enlarged(
    sample: &SampledTrace,
    whole: &RunConfig,
    config: &RunConfig,
    replayed: &Replayed,
) -> SimulationResult {
    let mut result = result::assemble(&sample.trace, config, replayed, &[]);
    let counted = sample.counted(&(config.measure_from..config.records.end));
    let times = 1.0 / sample.sample.rate();
    let copied = replayed.totals.copied.filter(|_| config.flash_pages >= DRIVE_SLOTS_MIN);
    rates(&mut result, config, replayed, &counted, times);
    multiply(&mut result, times);
    result.sample = Some(SampleResult {
        rate: sample.sample.rate(),
        hashes: 1,
        pages: sample.trace.unique_pages() as f64,
        references: replayed.counts.references as f64,
        dram_pages: config.dram_pages,
        flash_pages: config.flash_pages,
        half_widths: None,
    });
    result.references = counted.references.round() as u64;
    result.requests = counted.requests.round() as u64;
    result.throughput =
        if result.elapsed_s > 0.0 { result.references as f64 / result.elapsed_s } else { 0.0 };
    if copied.is_none() {
        (result.flwa, result.twaf, result.gc_count) = (None, None, None);
    }
    let sizes = RunConfig { dram_pages: whole.dram_pages, flash_pages: whole.flash_pages, ..config.clone() };
    result.dram_pages = whole.dram_pages;
    result.flash_pages = if config.flash_layer.is_some() { whole.flash_pages } else { 0 };
    let copied = (copied.unwrap_or(0) as f64 * times).round() as u64;
    result::costs(&mut result, &sample.trace, &sizes, copied);
    if result.flash_pages > 0 && result.flwa.is_none() {
        result.flash_lifetime_years = None;
    }
    result
}

/// Rates and means of the whole trace, whose references are counted exactly.
fn rates(
    result: &mut SimulationResult,
    config: &RunConfig,
    replayed: &Replayed,
    counted: &Counted,
    times: f64,
) {
    let of = |part: u64, whole: f64| if whole > 0.0 { (part as f64 * times / whole).min(1.0) } else { 0.0 };
    let tier = &replayed.totals.tier;
    if config.dram_pages > 0 {
        result.dram_hit_rate = 1.0 - of(replayed.counts.misses, counted.references);
        // The time beyond hits is that of misses, which the hottest pages do not have.
        let hit_us = config.hit_ns as f64 / 1e3;
        let drawn = over(replayed.counts.references as f64 * times, counted.references);
        result.mean_response_us = hit_us + (result.mean_response_us - hit_us) * drawn;
    } else if config.flash_layer.is_some() {
        // Below DRAM every read is a fetch, so fetches are counted exactly as well.
        result.flash_hit_rate = 1.0 - of(tier.disk_reads, counted.reads);
    }
}

fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Counts and times of the whole trace.
fn multiply(result: &mut SimulationResult, times: f64) {
    let counts = [
        &mut result.dirty_evictions,
        &mut result.clean_evictions,
        &mut result.flash_reads,
        &mut result.flash_writes,
        &mut result.disk_reads,
        &mut result.disk_writes,
        &mut result.destage_reads,
        &mut result.second_chances,
        &mut result.pulled,
    ];
    for count in counts {
        *count = (*count as f64 * times).round() as u64;
    }
    for value in [&mut result.elapsed_s, &mut result.tv_ms, &mut result.tf_ms, &mut result.td_ms] {
        *value *= times;
    }
    for point in &mut result.warm_up {
        point[0] *= times;
        point[1] *= times;
    }
}

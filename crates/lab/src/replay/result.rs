//! Results of a simulation as they are written to JSON. Field names are part of the command's interface.

use super::config::{Arrival, RunConfig, layer_name};
use super::log_kept::{KeepLog, Kept};
use super::run::{Point, Replayed};
use super::tier::Exchanged;
use crate::bench::digest;
use crate::cost;
use entresol_core::Forecast;
use entresol_engine::Forecasts;
use entresol_trace::Trace;
use serde::{Deserialize, Serialize};

/// Seconds of a year.
const YEAR_S: f64 = 365.25 * 24.0 * 3600.0;
const DAY_S: f64 = 24.0 * 3600.0;

/// One run. Rates and shares are 0..=1; pages are of `page_bytes`. What a run cannot know is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulationResult {
    /// Name of the trace.
    pub trace: String,
    /// The layer between DRAM and disk, by its name on the command line.
    pub policy: String,
    /// What becomes of dirty pages that leave DRAM.
    pub mode: String,
    /// Replacement in DRAM.
    pub replacement: String,
    /// DRAM frames.
    pub dram_pages: u32,
    /// Flash slots; 0 without flash.
    pub flash_pages: u32,
    /// DRAM in per cent of the trace's pages.
    pub dram_percent: f64,
    /// Flash in per cent of the trace's pages.
    pub flash_percent: f64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that the trace names.
    pub trace_pages: u64,
    /// Name of the flash device; empty without flash.
    pub flash_device: String,
    /// Name of the disk device.
    pub disk_device: String,
    /// Name of the memory.
    pub memory: String,
    /// Clients of a closed loop; 0 where references come at the times of the trace.
    pub clients: u32,
    /// Devices were timed by their detailed models instead of by their rates.
    pub exact_devices: bool,
    /// Seed of what is random in the run. (Only generated traces are.)
    pub seed: u64,

    /// Page references that were measured.
    pub references: u64,
    /// Host requests that they belong to.
    pub requests: u64,
    /// DRAM hits of all references.
    pub dram_hit_rate: f64,
    /// Flash hits of all DRAM misses.
    pub flash_hit_rate: f64,
    /// Pages evicted by DRAM newer than both flash and disk.
    pub dirty_evictions: u64,
    /// Pages evicted otherwise.
    pub clean_evictions: u64,
    /// 1 − pages written to disk / dirty evictions.
    pub write_reduction: f64,
    /// Pages read from flash: hits, destages and second chances.
    pub flash_reads: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Pages read from disk.
    pub disk_reads: u64,
    /// Pages written to disk.
    pub disk_writes: u64,
    /// Of `flash_reads`: in order to be destaged or given a second chance.
    pub destage_reads: u64,
    /// Second chances given.
    pub second_chances: u64,
    /// Pages pulled from DRAM's cold end.
    pub pulled: u64,
    /// Superseded versions of all occupied slots, at the end.
    pub duplicate_share: f64,
    /// Occupied slots that are newer than disk, of all slots, at the end.
    pub dirty_share: f64,
    /// Cache-level write amplification (RW §2.3): pages that the cache wrote to flash / pages that the
    /// workload wrote.
    pub clwa: f64,
    /// Flash-level write amplification (RW §2.3): pages that garbage collection wrote / pages that the
    /// workload wrote.
    pub flwa: Option<f64>,
    /// CLWA + FLWA.
    pub twaf: Option<f64>,
    /// Garbage collections.
    pub gc_count: Option<u64>,

    /// Virtual time measured, seconds.
    pub elapsed_s: f64,
    /// References a second of virtual time.
    pub throughput: f64,
    /// Mean response of a host request, microseconds.
    pub mean_response_us: f64,
    /// Response that one request in a hundred exceeds, microseconds.
    pub p99_response_us: f64,
    /// Service time of the flash device / elapsed time.
    pub flash_utilisation: f64,
    /// Service time of the disk / elapsed time.
    pub disk_utilisation: f64,
    /// Virtual execution time T_v = T_f + T_d, milliseconds (3LA eq. 5–7): the device access times added up.
    pub tv_ms: f64,
    /// Of it, in flash.
    pub tf_ms: f64,
    /// Of it, in disk.
    pub td_ms: f64,
    /// Energy of DRAM and flash during T_v, joules (3LA eq. 8); `null` where the catalogue lacks a unit
    /// power.
    pub energy_j: Option<f64>,
    /// Years until the flash device has been programmed as often as it is rated for, its whole capacity
    /// levelling the wear, at the pace of the trace's own times (of the virtual time, where it has none).
    /// All that the chip programs counts: the cache's writes and, where a translation layer is modelled, what
    /// its garbage collection copies (TWAF). `null` without flash, rating or writes.
    pub flash_lifetime_years: Option<f64>,
    /// Price of DRAM and flash; `null` where the catalogue lacks one or the currencies differ.
    pub money: Option<f64>,
    /// Currency of `money`.
    pub currency: String,

    /// `[virtual seconds, references, DRAM hit rate, flash hit rate]` of stretches from the start of the run.
    pub warm_up: Vec<[f64; 4]>,
    /// By relation, where the trace has relations: those with references, most misses first.
    pub relations: Vec<RelationResult>,

    /// Bytes that may be written to flash in a day of virtual time; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget: Option<u64>,
    /// Bytes that were, with a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_per_day: Option<f64>,

    /// The log above that is kept so that the flash may be lost; absent if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogResult>,

    /// What was replayed instead of the whole trace, and how sure the figures are; absent for a whole trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleResult>,

    /// What shadows said, if any ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<ForecastResult>,

    /// How the policy changed since the run began, where it may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchResult>,

    /// Hash of every decision of the cache, in hexadecimal.
    pub decision_hash: String,
    /// Hash of all of the above, in hexadecimal: depends on trace and configuration alone.
    pub digest: String,
    /// Records of the trace replayed a second of this thread's time; not part of the digest.
    pub records_per_second: f64,
}

/// A log above, kept so that the flash may be lost. All in bytes, pages and counts while it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogResult {
    /// How much of it is kept.
    pub bound_bytes: u64,
    /// What a change of a page logs.
    pub change_bytes: u32,
    /// The most that a replay without the flash would have read.
    pub most_bytes: u64,
    /// Checkpoints made for it, each of which hands down what was changed in DRAM.
    pub checkpoints: u64,
    /// Pages copied to disk for it; some would have been changed again before their turn.
    pub copied: u64,
}

/// What a shadow said of a cache that could be. Pages are those of the whole load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastResult {
    /// Its policy.
    pub policy: String,
    /// Its flash, in per cent of the cache's.
    pub size_percent: u32,
    /// Hits of DRAM's misses.
    pub flash_hit_rate: f64,
    /// Pages that it would write to flash.
    pub flash_writes: u64,
    /// Pages that it would write to disk.
    pub disk_writes: u64,
}

/// A change of the policy in the middle of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchResult {
    /// DRAM's misses since the run began.
    pub after_fetches: u64,
    /// The new policy.
    pub policy: String,
    /// What advised it, in words.
    pub why: String,
}

/// Samples of a trace that stand for all of it. Every other figure is an estimate for the whole trace;
/// references are counted exactly, relations are left out, and the warm-up is that of the first sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleResult {
    /// Share of the pages that a sample has, on the average.
    pub rate: f64,
    /// Samples, each with a hash of its own.
    pub hashes: u32,
    /// Pages of a sample, on the average.
    pub pages: f64,
    /// References to them that were replayed, on the average.
    pub references: f64,
    /// DRAM frames of a sample.
    pub dram_pages: u32,
    /// Flash slots of a sample, as asked for.
    pub flash_pages: u32,
    /// Half the widths of intervals that hold the mean with 95 %; `null` with one sample.
    pub half_widths: Option<HalfWidths>,
}

/// Half the widths of intervals, in the units of the figures of the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of SimulationResult")]
pub struct HalfWidths {
    pub dram_hit_rate: f64,
    pub flash_hit_rate: f64,
    pub write_reduction: f64,
    pub flash_writes: f64,
    pub disk_reads: f64,
    pub disk_writes: f64,
    pub mean_response_us: f64,
}

/// What a relation had of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelationResult {
    /// Its name.
    pub relation: String,
    /// Page references.
    pub references: u64,
    /// DRAM hits of its references.
    pub dram_hit_rate: f64,
    /// Flash hits of its DRAM misses.
    pub flash_hit_rate: f64,
    /// Its reads from disk.
    pub disk_reads: u64,
    /// Its dirty evictions.
    pub dirty_evictions: u64,
}

impl SimulationResult {
    /// How sure the figures are, where they are of several samples.
    pub fn half_widths(&self) -> Option<&HalfWidths> {
        self.sample.as_ref()?.half_widths.as_ref()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The result of a run. `references_of`: references of each relation in the measured part of the trace.
pub(super) fn assemble(
    trace: &Trace,
    config: &RunConfig,
    replayed: &Replayed,
    references_of: &[u64],
) -> SimulationResult {
    let mut result = described(trace, config);
    let (counts, tier) = (&replayed.counts, &replayed.totals.tier);
    result.references = counts.references;
    result.requests = counts.requests;
    result.dram_hit_rate = 1.0 - share(counts.misses, counts.references);
    let hits = tier.flash_hits + tier.staging_hits;
    result.flash_hit_rate = share(hits, hits + tier.disk_reads);
    result.dirty_evictions = tier.dirty_evictions;
    result.clean_evictions = tier.clean_evictions;
    let cached = config.flash_layer.is_some();
    result.write_reduction = if cached { 1.0 - share(tier.disk_writes, tier.dirty_evictions) } else { 0.0 };
    result.flash_reads = tier.flash_hits + tier.dequeue_reads;
    result.flash_writes = tier.flash_writes;
    result.disk_reads = tier.disk_reads + replayed.totals.read_ahead;
    result.disk_writes = tier.disk_writes;
    result.destage_reads = tier.dequeue_reads;
    result.second_chances = tier.second_chances;
    result.pulled = tier.pulled;
    result.duplicate_share = share(tier.slots_superseded, tier.slots_superseded + tier.slots_valid);
    result.dirty_share = share(tier.slots_dirty, tier.slots);
    result.clwa = share(tier.flash_writes, tier.dirty_evictions);
    result.flwa = replayed.totals.copied.map(|copied| share(copied, tier.dirty_evictions));
    result.twaf = result.flwa.map(|flwa| result.clwa + flwa);
    result.gc_count = replayed.totals.collections;
    result.decision_hash = format!("{:016x}", tier.decision_hash);
    times(&mut result, config, replayed);
    costs(&mut result, trace, config, replayed.totals.copied.unwrap_or(0));
    result.warm_up = replayed.curve.iter().map(in_numbers).collect();
    result.relations = relations(trace, replayed, references_of);
    result.forecasts = forecasts(&tier.forecasts);
    result.switches = replayed.totals.exchanged.iter().map(switch).collect();
    result.log = config.keep_log.zip(replayed.log).map(log);
    result.digest = digest::of(&result, tier.decision_hash);
    result
}

fn log((options, kept): (KeepLog, Kept)) -> LogResult {
    LogResult {
        bound_bytes: options.bound.0,
        change_bytes: options.change_bytes,
        most_bytes: kept.most_bytes,
        checkpoints: kept.checkpoints,
        copied: kept.copied,
    }
}

fn switch(exchanged: &Exchanged) -> SwitchResult {
    SwitchResult {
        after_fetches: exchanged.fetches,
        policy: exchanged.advice.to.name().into(),
        why: exchanged.advice.to_string(),
    }
}

fn forecasts(told: &Forecasts) -> Vec<ForecastResult> {
    let one = |forecast: &Forecast| ForecastResult {
        policy: forecast.candidate.policy.name().into(),
        size_percent: forecast.candidate.percent,
        flash_hit_rate: share(forecast.all.hits, forecast.all.fetches),
        flash_writes: forecast.all.flash_writes * told.one_of,
        disk_writes: forecast.all.disk_writes * told.one_of,
    };
    told.iter().map(one).collect()
}

fn described(trace: &Trace, config: &RunConfig) -> SimulationResult {
    let cached = config.flash_layer.is_some();
    let flash_pages = if cached { config.flash_pages } else { 0 };
    let pages = trace.unique_pages() as f64;
    SimulationResult {
        trace: trace.name.clone(),
        policy: layer_name(config.flash_layer).into(),
        mode: config.mode.name().into(),
        replacement: config.replacement.name().into(),
        dram_pages: config.dram_pages,
        flash_pages,
        dram_percent: over(f64::from(config.dram_pages) * 100.0, pages),
        flash_percent: over(f64::from(flash_pages) * 100.0, pages),
        page_bytes: trace.page_bytes,
        trace_pages: trace.unique_pages() as u64,
        flash_device: if cached { config.flash_device.name.clone() } else { String::new() },
        disk_device: config.disk_device.name.clone(),
        memory: config.memory.name.clone(),
        exact_devices: config.exact_devices,
        write_budget: config.write_budget().filter(|_| cached),
        clients: match config.arrival {
            Arrival::Closed { clients } => clients,
            Arrival::Timed => 0,
        },
        ..SimulationResult::default()
    }
}

/// Virtual time, responses and what devices did meanwhile.
fn times(result: &mut SimulationResult, config: &RunConfig, replayed: &Replayed) {
    let waiting = &replayed.waiting;
    let elapsed_ns = waiting.elapsed_ns as f64;
    result.elapsed_s = elapsed_ns / 1e9;
    result.throughput = over(result.references as f64, result.elapsed_s);
    // Requests without a miss are not in the histogram: each takes the time of a hit.
    let quick = result.requests.saturating_sub(waiting.requests);
    let all_ns = waiting.waited_ns as f64 + quick as f64 * config.hit_ns as f64;
    result.mean_response_us = over(all_ns, result.requests as f64) / 1e3;
    let slowest = result.requests / 100;
    result.p99_response_us = if slowest < waiting.requests {
        let quantile = 1.0 - slowest as f64 / waiting.requests as f64;
        waiting.responses.value_at_quantile(quantile) as f64 / 1e3
    } else {
        config.hit_ns as f64 / 1e3
    };
    let totals = &replayed.totals;
    result.flash_utilisation = over(totals.flash_ns as f64, elapsed_ns).min(1.0);
    result.disk_utilisation = over(totals.disk_ns as f64, elapsed_ns).min(1.0);
    result.tf_ms = totals.flash_ns as f64 / 1e6;
    result.td_ms = totals.disk_ns as f64 / 1e6;
    result.tv_ms = result.tf_ms + result.td_ms;
}

/// Energy, endurance and money.
/// `copied`: pages that garbage collection wrote, so that the chip programs these and the cache's writes.
pub(super) fn costs(result: &mut SimulationResult, trace: &Trace, config: &RunConfig, copied: u64) {
    let gigabytes = |pages: u32| f64::from(pages) * f64::from(trace.page_bytes) / 1e9;
    let (dram, flash) = (gigabytes(config.dram_pages), gigabytes(result.flash_pages));
    let (memory, device) = (&config.memory, &config.flash_device);
    let cached = result.flash_pages > 0;
    let watts = |pages: u32, per_gb| cost::layer_watts(f64::from(pages), f64::from(trace.page_bytes), per_gb);
    let flash_watts =
        if cached { device.watts_per_gb.map(|per_gb| watts(result.flash_pages, per_gb)) } else { Some(0.0) };
    let dram_watts = watts(config.dram_pages, memory.watts_per_gb);
    result.energy_j = flash_watts.map(|flash_watts| cost::energy_j(dram_watts + flash_watts, result.tv_ms));
    let same = !cached || device.currency == memory.currency;
    let flash_price = if cached { device.price_per_gb.map(|price| price * flash) } else { Some(0.0) };
    result.money = flash_price.filter(|_| same).map(|price| price + memory.price_per_gb * dram);
    result.currency = memory.currency.clone();
    let seconds = trace_seconds(trace, config).unwrap_or(result.elapsed_s);
    let bytes = result.flash_writes as f64 * f64::from(trace.page_bytes);
    result.written_per_day = result.write_budget.map(|_| over(bytes, result.elapsed_s) * DAY_S);
    let written = gigabytes(1) * (result.flash_writes + copied) as f64;
    if let (true, Some(rated)) = (cached && written > 0.0 && seconds > 0.0, device.rated_full_writes) {
        result.flash_lifetime_years = Some(rated * device.capacity_gb / (written / seconds) / YEAR_S);
    }
}

/// Time of the trace that was measured, where it has times.
fn trace_seconds(trace: &Trace, config: &RunConfig) -> Option<f64> {
    // A file that cannot be read has failed the replay before.
    let time_us = |at: usize| trace.time_us(at).ok().flatten();
    let (first, last) = (time_us(config.measure_from)?, time_us(config.records.end.checked_sub(1)?)?);
    Some((last - first) as f64 / 1e6)
}

fn in_numbers(point: &Point) -> [f64; 4] {
    [point.time_s, point.references as f64, point.dram_hit_rate, point.flash_hit_rate]
}

fn relations(trace: &Trace, replayed: &Replayed, references_of: &[u64]) -> Vec<RelationResult> {
    let Some(relations) = &trace.relations else { return Vec::new() };
    let mut rows: Vec<_> = relations.names().iter().zip(&replayed.relations).zip(references_of).collect();
    rows.retain(|(_, references)| **references > 0);
    rows.sort_by_key(|((name, counts), _)| (std::cmp::Reverse(counts.misses), name.as_str()));
    let row = |((name, counts), references): &((&String, &super::run::Counts), &u64)| RelationResult {
        relation: (*name).clone(),
        references: **references,
        dram_hit_rate: 1.0 - share(counts.misses, **references),
        flash_hit_rate: share(counts.flash_hits, counts.fetches),
        disk_reads: counts.fetches - counts.flash_hits,
        dirty_evictions: counts.dirty_evictions,
    };
    rows.iter().map(row).collect()
}

//! One result of several: the means of what samples say, and how far they differ.
//!
//! Invariant: what is equal in all samples (names, sizes, the trace's own counts) stays as it is.

use super::result::{HalfWidths, SimulationResult};
use crate::bench::digest;

/// Half the width of the interval that holds the mean with 95 %, in standard errors, for two and more values:
/// Student's t.
const STUDENT: [f64; 11] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20];
/// The same for many.
const NORMAL: f64 = 2.09;

/// The mean of `values` and half the width of its interval; `None` for a single value.
pub fn mean_of(values: impl Iterator<Item = f64> + Clone) -> (f64, Option<f64>) {
    let count = values.clone().count();
    let mean = values.clone().sum::<f64>() / count as f64;
    if count < 2 {
        return (mean, None);
    }
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (count - 1) as f64 / count as f64).sqrt();
    (mean, Some(error * STUDENT.get(count - 2).copied().unwrap_or(NORMAL)))
}

/// What several samples of a trace of about `pages` pages say together. At least one, all of one
/// configuration.
pub(super) fn combined(results: &[SimulationResult], pages: u64) -> SimulationResult {
    let mean = |of: fn(&SimulationResult) -> f64| mean_of(results.iter().map(of));
    let count = |of: fn(&SimulationResult) -> u64| {
        (results.iter().map(|result| of(result) as f64).sum::<f64>() / results.len() as f64).round() as u64
    };
    let maybe = |of: fn(&SimulationResult) -> Option<f64>| {
        let known: Option<Vec<f64>> = results.iter().map(of).collect();
        known.map(|values| mean_of(values.iter().copied()).0)
    };
    let mut all = results[0].clone();
    means(&mut all, &mean, &maybe);
    counts(&mut all, &count);
    let half = |of: fn(&SimulationResult) -> f64| mean(of).1;
    let half_widths = half(|r| r.dram_hit_rate).map(|dram_hit_rate| {
        let known = "several samples have an interval";
        HalfWidths {
            dram_hit_rate,
            flash_hit_rate: half(|r| r.flash_hit_rate).expect(known),
            write_reduction: half(|r| r.write_reduction).expect(known),
            flash_writes: half(|r| r.flash_writes as f64).expect(known),
            disk_reads: half(|r| r.disk_reads as f64).expect(known),
            disk_writes: half(|r| r.disk_writes as f64).expect(known),
            mean_response_us: half(|r| r.mean_response_us).expect(known),
        }
    });
    if let Some(sample) = &mut all.sample {
        sample.hashes = results.len() as u32;
        sample.pages = mean(|r| r.sample.as_ref().map_or(0.0, |sample| sample.pages)).0;
        sample.references = mean(|r| r.sample.as_ref().map_or(0.0, |sample| sample.references)).0;
        sample.half_widths = half_widths;
    }
    all.decision_hash = format!(
        "{:016x}",
        results.iter().fold(0u64, |hash, result| {
            hash.rotate_left(1) ^ u64::from_str_radix(&result.decision_hash, 16).unwrap_or(0)
        })
    );
    all.trace_pages = pages;
    all.dram_percent = f64::from(all.dram_pages) * 100.0 / pages.max(1) as f64;
    all.flash_percent = f64::from(all.flash_pages) * 100.0 / pages.max(1) as f64;
    let records_per_second = mean(|r| r.records_per_second).0;
    (all.digest, all.records_per_second) = (String::new(), 0.0);
    all.digest = digest::of(&all, 0);
    all.records_per_second = records_per_second;
    all
}

/// Rates, times and costs.
fn means(
    all: &mut SimulationResult,
    mean: &impl Fn(fn(&SimulationResult) -> f64) -> (f64, Option<f64>),
    maybe: &impl Fn(fn(&SimulationResult) -> Option<f64>) -> Option<f64>,
) {
    all.dram_hit_rate = mean(|r| r.dram_hit_rate).0;
    all.flash_hit_rate = mean(|r| r.flash_hit_rate).0;
    all.write_reduction = mean(|r| r.write_reduction).0;
    all.duplicate_share = mean(|r| r.duplicate_share).0;
    all.dirty_share = mean(|r| r.dirty_share).0;
    all.clwa = mean(|r| r.clwa).0;
    all.flwa = maybe(|r| r.flwa);
    all.twaf = maybe(|r| r.twaf);
    all.elapsed_s = mean(|r| r.elapsed_s).0;
    all.throughput = mean(|r| r.throughput).0;
    all.mean_response_us = mean(|r| r.mean_response_us).0;
    all.p99_response_us = mean(|r| r.p99_response_us).0;
    all.flash_utilisation = mean(|r| r.flash_utilisation).0;
    all.disk_utilisation = mean(|r| r.disk_utilisation).0;
    all.tv_ms = mean(|r| r.tv_ms).0;
    all.tf_ms = mean(|r| r.tf_ms).0;
    all.td_ms = mean(|r| r.td_ms).0;
    all.energy_j = maybe(|r| r.energy_j);
    all.flash_lifetime_years = maybe(|r| r.flash_lifetime_years);
    all.written_per_day = maybe(|r| r.written_per_day);
}

fn counts(all: &mut SimulationResult, count: &impl Fn(fn(&SimulationResult) -> u64) -> u64) {
    all.references = count(|r| r.references);
    all.requests = count(|r| r.requests);
    all.dirty_evictions = count(|r| r.dirty_evictions);
    all.clean_evictions = count(|r| r.clean_evictions);
    all.flash_reads = count(|r| r.flash_reads);
    all.flash_writes = count(|r| r.flash_writes);
    all.disk_reads = count(|r| r.disk_reads);
    all.disk_writes = count(|r| r.disk_writes);
    all.destage_reads = count(|r| r.destage_reads);
    all.second_chances = count(|r| r.second_chances);
    all.pulled = count(|r| r.pulled);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        assert_eq!(mean_of([3.0].into_iter()), (3.0, None));
        let (mean, half) = mean_of([1.0, 3.0].into_iter());
        assert_eq!((mean, half), (2.0, Some(12.71)));
        // Standard deviation 2 of five values.
        let (mean, half) = mean_of([8.0, 10.0, 12.0, 8.0, 12.0].into_iter());
        assert!(
            (mean - 10.0).abs() < 1e-12
                && half.is_some_and(|half| (half - 2.78 * 2.0 / 5f64.sqrt()).abs() < 1e-9)
        );
    }
}

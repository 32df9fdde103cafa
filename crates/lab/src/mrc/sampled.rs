//! Curves from samples of a trace (SHARDS: Waldspurger et al., FAST 2015): a level of `n` pages is one of
//! rate × n pages in a sample, and misses there, divided by the rate, are misses of the whole.
//!
//! Misses are by the references of the whole trace, which are counted exactly, not by those of the sample:
//! that is SHARDS-adj (§3.2), which puts the difference of both down to the hottest pages, which hit.
//!
//! Invariant: no size is answered by fewer than [`LEVEL_MIN`] pages.

use super::{Curve, CurvePoint, Progress, counted, finished};
use crate::replay::{Replacement, SimulationError, mean_of};
use entresol_trace::SampledTrace;
use std::ops::Range;

/// Fewest pages of a level in a sample.
const LEVEL_MIN: u32 = 32;

/// The smallest size that samples of that rate can answer, pages.
pub fn sizes_min(rate: f64) -> u32 {
    (f64::from(LEVEL_MIN) / rate).ceil() as u32
}

/// The curves of all samples together.
pub(super) fn of_samples(
    samples: &[SampledTrace],
    records: &Range<usize>,
    policies: &[Replacement],
    sizes: &[u32],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<Curve>> {
    let rate = samples[0].sample.rate();
    let scaled = |size: &u32| (f64::from(*size) * rate).round() as u32;
    if let Some(size) = sizes.iter().find(|size| scaled(size) < LEVEL_MIN) {
        let (what, pages, scaled) = ("a level", *size, scaled(size));
        let rate_min = (f64::from(LEVEL_MIN) / f64::from(pages)).min(1.0);
        return Err(SimulationError::SampleTooSmall { what, pages, rate, scaled, rate_min }.into());
    }
    let scaled_sizes: Vec<u32> = sizes.iter().map(scaled).collect();
    let mut of_samples = Vec::new();
    for (nth, sample) in samples.iter().enumerate() {
        let told = |share: f64| progress((nth as f64 + share) / samples.len() as f64);
        of_samples.push(counted(&sample.trace, &sample.sampled(records), policies, &scaled_sizes, &told)?);
    }
    let references = samples[0].counted(&samples[0].sampled(records)).references;
    let curve = |policy: usize| {
        let curves = || of_samples.iter().map(move |curves| &curves[policy]);
        let mut curve: Curve = curves().next().expect("there is a sample").clone();
        let point = |(at, size): (usize, &u32)| {
            let ratio = |curve: &Curve| (curve.points[at].misses as f64 / rate / references).min(1.0);
            let (miss_ratio, half_width) = mean_of(curves().map(ratio));
            let misses = (miss_ratio * references).round() as u64;
            CurvePoint { pages: *size, misses, miss_ratio, half_width }
        };
        curve.points = sizes.iter().enumerate().map(point).collect();
        curve.references = references.round() as u64;
        curve.unique_pages =
            (mean_of(curves().map(|curve| curve.unique_pages as f64)).0 / rate).round() as u64;
        curve.cpu_seconds = curves().map(|curve| curve.cpu_seconds).sum();
        curve.sample = Some((rate, samples.len() as u32));
        finished(curve)
    };
    Ok((0..policies.len()).map(curve).collect())
}

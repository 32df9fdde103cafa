//! Miss-ratio curves: how many references miss a single level of each of many sizes.
//!
//! LRU is exact for every size from one pass (`stack`); other policies are replayed at all sizes in one pass
//! over the trace (`sizes`), the sizes spread over the cores.
//!
//! Samples of a trace give curves, too (`sampled`).
//!
//! Invariant: a curve counts references only (changes are none), and a page's first reference misses at every
//! size.

mod sampled;
mod sizes;
mod stack;

pub use sampled::sizes_min;
pub use stack::StackDistances;

use sampled::of_samples;
use sizes::Levels;

use crate::bench::{digest, parallel};
use crate::replay::{Replacement, Workload};
use entresol_trace::{Trace, TraceError};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The curve of one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the trace.
    pub trace: String,
    /// lru, fifo or clock.
    pub policy: String,
    /// Page references.
    pub references: u64,
    /// Different pages among them.
    pub unique_pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Share of the pages that was replayed, and how often; absent for a whole trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<(f64, u32)>,
    /// The points, in the order of sizes.
    pub points: Vec<CurvePoint>,
    /// Hash of all of the above.
    pub digest: String,
    /// Processor seconds, all threads; not part of the digest.
    pub cpu_seconds: f64,
}

/// One size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Pages that fit.
    pub pages: u32,
    /// References that missed.
    pub misses: u64,
    /// Of all references, 0..=1.
    pub miss_ratio: f64,
    /// Of several samples: half the width of the interval that holds the ratio with 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

/// Told which share of the work is done, 0..=1.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// Computes the curves of `policies` over `records` of a trace, or of samples of it, at `sizes` (pages, each
/// at least 1).
///
/// # Errors
/// [`crate::replay::SimulationError::SampleTooSmall`] for sizes of which too little is in a sample; a failed
/// read of a sample's temporary file.
pub fn curves<'t>(
    workload: impl Into<Workload<'t>>,
    records: &Range<usize>,
    policies: &[Replacement],
    sizes: &[u32],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<Curve>> {
    match workload.into() {
        Workload::Whole(trace) => {
            let of_policies = counted(trace, records, policies, sizes, progress)?;
            Ok(of_policies.into_iter().map(finished).collect())
        }
        Workload::Samples(samples) => of_samples(samples, records, policies, sizes, progress),
    }
}

/// The curves of one trace, without their digests.
fn counted(
    trace: &Trace,
    records: &Range<usize>,
    policies: &[Replacement],
    sizes: &[u32],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<Curve>> {
    let jobs = jobs(policies, sizes);
    let done = std::sync::atomic::AtomicUsize::new(0);
    let counted = parallel::map(&jobs, |_, job| {
        let began = crate::replay::thread_seconds();
        let misses = job.misses(trace, records)?;
        let finished = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        progress(finished as f64 / jobs.len() as f64);
        Ok((misses, crate::replay::thread_seconds() - began))
    })?;
    let unique = unique(trace, records)?;
    let curve = |policy: &Replacement| {
        let of_policy = || jobs.iter().zip(&counted).filter(|(job, _)| job.policy == *policy);
        let mut misses: Vec<(u32, u64)> = of_policy()
            .flat_map(|(job, (misses, _))| job.sizes.iter().copied().zip(misses.iter().copied()))
            .collect();
        misses.sort_unstable();
        assemble(trace, *policy, unique, &misses, of_policy().map(|(_, (_, seconds))| seconds).sum())
    };
    Ok(policies.iter().map(curve).collect())
}

fn finished(mut curve: Curve) -> Curve {
    let cpu_seconds = std::mem::take(&mut curve.cpu_seconds);
    curve.digest = digest::of(&curve, 0);
    curve.cpu_seconds = cpu_seconds;
    curve
}

/// One pass over the trace.
struct Job {
    policy: Replacement,
    sizes: Vec<u32>,
}

impl Job {
    /// References that miss each size.
    fn misses(&self, trace: &Trace, records: &Range<usize>) -> Result<Vec<u64>, TraceError> {
        if self.policy == Replacement::Lru {
            let mut distances = StackDistances::new(trace.unique_pages());
            trace.each_chunk(records, |chunk| {
                distances.add(chunk.requests);
                Ok::<(), TraceError>(())
            })?;
            return Ok(distances.misses(&self.sizes));
        }
        let mut levels = Levels::new(self.policy, trace.unique_pages(), &self.sizes);
        trace.each_chunk(records, |chunk| {
            levels.add(chunk.requests);
            Ok::<(), TraceError>(())
        })?;
        Ok(levels.misses())
    }
}

/// LRU is one job; other policies' sizes are dealt out to as many jobs as there are cores, large and small
/// ones mixed.
fn jobs(policies: &[Replacement], sizes: &[u32]) -> Vec<Job> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let of = |policy: &Replacement| {
        let hands = if *policy == Replacement::Lru { 1 } else { cores.min(sizes.len()) };
        let deal = |hand| sizes.iter().copied().skip(hand).step_by(hands).collect();
        (0..hands).map(|hand| Job { policy: *policy, sizes: deal(hand) }).collect::<Vec<_>>()
    };
    policies.iter().flat_map(of).collect()
}

/// References and different pages among them.
fn unique(trace: &Trace, records: &Range<usize>) -> Result<(u64, u64), TraceError> {
    let mut seen = vec![false; trace.unique_pages()];
    let mut counts = (0, 0);
    trace.each_chunk(records, |chunk| {
        for request in chunk.requests.iter().filter(|request| request.is_reference()) {
            counts.0 += 1;
            counts.1 += u64::from(!std::mem::replace(&mut seen[request.page() as usize], true));
        }
        Ok::<(), TraceError>(())
    })?;
    Ok(counts)
}

fn assemble(
    trace: &Trace,
    policy: Replacement,
    (references, unique_pages): (u64, u64),
    misses: &[(u32, u64)],
    cpu_seconds: f64,
) -> Curve {
    let point = |(pages, misses): &(u32, u64)| CurvePoint {
        pages: *pages,
        misses: *misses,
        miss_ratio: if references == 0 { 0.0 } else { *misses as f64 / references as f64 },
        half_width: None,
    };
    Curve {
        trace: trace.name.clone(),
        policy: policy.name().into(),
        references,
        unique_pages,
        page_bytes: trace.page_bytes,
        points: misses.iter().map(point).collect(),
        cpu_seconds,
        ..Curve::default()
    }
}

/// Sizes for a curve over `pages` pages: `count` of them at most, evenly spaced on a logarithmic scale from a
/// thousandth of the pages to all of them.
pub fn usual_sizes(pages: usize, count: usize) -> Vec<u32> {
    let (low, high) = ((pages as f64 / 1000.0).max(1.0), pages.max(1) as f64);
    let step = |at: usize| low * (high / low).powf(at as f64 / (count.max(2) - 1) as f64);
    let mut sizes: Vec<u32> = (0..count.max(2)).map(|at| step(at).round() as u32).collect();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::pool::{Fifo, Lru, Pool};
    use entresol_runtime::rng::Rng;
    use entresol_trace::{Op, Request};

    fn trace() -> Trace {
        let mut rng = Rng::new(5);
        let mut trace = Trace { name: "skewed".into(), page_bytes: 4096, ..Trace::default() };
        trace.pages = (0..800).collect();
        for _ in 0..40_000 {
            let page = (rng.below(800) * rng.below(800) / 800) as u32;
            trace.requests.push(Request::new(page, Op::Read));
            if rng.below(3) == 0 {
                trace.requests.push(Request::new(page, Op::Dirty));
            }
        }
        trace
    }

    #[test]
    fn every_size_is_as_replayed_alone() {
        let trace = trace();
        let sizes = [1, 2, 9, 100, 333, 799, 800, 5000];
        let policies = [Replacement::Fifo, Replacement::Lru];
        let curves = curves(&trace, &(0..trace.len()), &policies, &sizes, &|_| {}).expect("no job fails");
        for (at, size) in sizes.into_iter().enumerate() {
            let (mut lru, mut fifo) = (Pool::<Lru>::new(800, size), Pool::<Fifo>::new(800, size));
            let references = || trace.requests.iter().filter(|r| r.is_reference());
            let of_lru = references().filter(|r| !lru.access(r.page())).count() as u64;
            let of_fifo = references().filter(|r| !fifo.access(r.page())).count() as u64;
            assert_eq!((curves[0].points[at].misses, curves[0].points[at].pages), (of_fifo, size), "fifo");
            assert_eq!((curves[1].points[at].misses, curves[1].points[at].pages), (of_lru, size), "lru");
        }
        assert_eq!((curves[1].references, curves[1].points[7].misses), (40_000, curves[1].unique_pages));
    }

    #[test]
    fn usual_sizes_rise_from_few_to_all() {
        let sizes = usual_sizes(98_595, 40);
        assert!(sizes.len() == 40 && sizes[0] == 99 && sizes[39] == 98_595, "{sizes:?}");
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(usual_sizes(1, 40), [1]);
        assert_eq!(usual_sizes(3, 5), [1, 2, 3]);
    }
}

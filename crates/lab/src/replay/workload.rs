//! What is replayed: a whole trace, or samples of it.
//!
//! Records have the numbers of the whole trace in both cases, so that what is asked does not depend on how it
//! is answered.

use super::error::SimulationError;
use super::{RunConfig, sampled};
use entresol_trace::{SampledTrace, Trace, TraceError};
use std::ops::Range;

/// A trace, or samples of one: at least one, all of one rate.
#[derive(Clone, Copy, Debug)]
pub enum Workload<'t> {
    /// All of it.
    Whole(&'t Trace),
    /// Some of its pages, drawn several times.
    Samples(&'t [SampledTrace]),
}

impl<'t> From<&'t Trace> for Workload<'t> {
    fn from(trace: &'t Trace) -> Self {
        Workload::Whole(trace)
    }
}

impl<'t> Workload<'t> {
    /// The trace, or the first of its samples: what they have in common.
    fn any(self) -> &'t Trace {
        match self {
            Workload::Whole(trace) => trace,
            Workload::Samples(samples) => &samples[0].trace,
        }
    }

    /// What the trace is called.
    pub fn name(self) -> &'t str {
        &self.any().name
    }

    /// Bytes of a page.
    pub fn page_bytes(self) -> u32 {
        self.any().page_bytes
    }

    /// Different pages; of samples an estimate: the mean of what each stands for.
    pub fn pages(self) -> u64 {
        match self {
            Workload::Whole(trace) => trace.unique_pages() as u64,
            Workload::Samples(samples) => {
                let drawn: usize = samples.iter().map(|sample| sample.trace.unique_pages()).sum();
                (drawn as f64 / samples.len() as f64 / samples[0].sample.rate()).round() as u64
            }
        }
    }

    /// Share of the pages that is replayed, and how often; `None` for a whole trace.
    pub fn drawn(self) -> Option<(f64, u32)> {
        match self {
            Workload::Whole(_) => None,
            Workload::Samples(samples) => Some((samples[0].sample.rate(), samples.len() as u32)),
        }
    }

    /// Bytes of all its pages.
    pub fn footprint_bytes(self) -> u64 {
        self.pages() * u64::from(self.page_bytes())
    }

    /// Records of the whole trace.
    pub fn records(self) -> usize {
        match self {
            Workload::Whole(trace) => trace.len(),
            Workload::Samples(samples) => samples[0].whole.records as usize,
        }
    }

    /// The records from `from_s` until `until_s`, as [`Trace::between`].
    ///
    /// # Errors
    /// As there.
    pub fn between(self, from_s: f64, until_s: f64) -> Result<Range<usize>, TraceError> {
        match self {
            Workload::Whole(trace) => trace.between(from_s, until_s),
            Workload::Samples(samples) => {
                let sampled = samples[0].trace.between(from_s, until_s)?;
                Ok(samples[0].number(sampled.start)..samples[0].number(sampled.end))
            }
        }
    }

    /// Whether a page is referenced in `range`; of samples, in each.
    ///
    /// # Errors
    /// A failed read of a sample's temporary file.
    pub fn has_reference(self, range: &Range<usize>) -> Result<bool, TraceError> {
        match self {
            Workload::Whole(trace) => trace.has_reference(range),
            Workload::Samples(samples) => samples
                .iter()
                .try_fold(true, |all, sample| Ok(all && sample.trace.has_reference(&sample.sampled(range))?)),
        }
    }

    /// Seconds from the start of the trace to its end; 0 without times.
    pub fn seconds(self) -> f64 {
        self.any().seconds()
    }

    /// Says whether a run is possible.
    ///
    /// # Errors
    /// [`SimulationError`] says what is not and what is possible.
    pub fn validate(self, config: &RunConfig) -> Result<(), SimulationError> {
        match self {
            Workload::Whole(trace) => config.validate(trace),
            Workload::Samples(samples) => {
                samples.iter().try_for_each(|sample| sampled::config(sample, config)?.validate(&sample.trace))
            }
        }
    }
}

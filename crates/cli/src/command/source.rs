//! The trace of `simulate`, `mrc` and `advise`, read and cut; or samples of it.

use super::trace;
use crate::args::SourceArgs;
use crate::failure::Failure;
use entresol_lab::replay::Workload;
use entresol_trace::{Sample, SampledTrace, Trace};
use std::ops::Range;
use std::sync::Arc;

/// A trace and the part of it that is asked for.
pub struct Source {
    content: Content,
    /// Records to replay.
    pub records: Range<usize>,
    /// Of these, the first that is measured.
    pub measure_from: usize,
}

enum Content {
    Whole(Arc<Trace>),
    Samples(Vec<SampledTrace>),
}

impl Source {
    /// Reads the trace.
    pub fn read(args: &SourceArgs) -> Result<Self, Failure> {
        let mut options = args.read.options()?;
        let content = match args.sampled() {
            None => Content::Whole(Arc::new(trace::read(&args.trace, &options)?)),
            Some((rate, hashes)) => {
                let samples = (1..=hashes).map(|seed| Sample::new(rate, seed.into()));
                options.samples = samples.collect::<Result<_, _>>().map_err(trace::refused)?;
                let samples = trace::read_samples(&args.trace, &options)?;
                if let Some(empty) = samples.iter().find(|sample| sample.trace.is_empty()) {
                    return Err(Failure::input(format!(
                        "{}: none of the pages of {} is in a sample; sample more of them with --sample",
                        args.sampling_option(),
                        empty.trace.name
                    )));
                }
                Content::Samples(samples)
            }
        };
        Self::cut(args, content)
    }

    /// A trace in memory.
    pub fn of(args: &SourceArgs, trace: &Arc<Trace>) -> Result<Self, Failure> {
        if args.sampled().is_some() {
            return Err(Failure::input(format!(
                "{}: a trace in memory is replayed as a whole; give the file's path",
                args.sampling_option()
            )));
        }
        Self::cut(args, Content::Whole(trace.clone()))
    }

    /// The part that is asked for.
    fn cut(args: &SourceArgs, content: Content) -> Result<Self, Failure> {
        let mut source = Self { content, records: 0..0, measure_from: 0 };
        let (from_s, until_s) = (args.measure_from.unwrap_or(0.0), args.until.unwrap_or(f64::INFINITY));
        let workload = source.workload();
        let measured = workload.between(from_s, until_s).map_err(trace::refused)?;
        if !workload.has_reference(&measured).map_err(trace::refused)? {
            return Err(Failure::input(format!(
                "{}: no page is referenced from second {from_s} until {}; the trace lasts {:.1} s",
                args.trace.display(),
                if until_s.is_finite() { until_s.to_string() } else { "the end".into() },
                workload.seconds()
            )));
        }
        (source.records, source.measure_from) = (0..measured.end, measured.start);
        Ok(source)
    }

    /// Requests of a replay; of samples, of all of them.
    pub fn requests(&self) -> u64 {
        match &self.content {
            Content::Whole(_) => self.records.len() as u64,
            Content::Samples(samples) => samples.iter().map(|sample| sample.trace.len() as u64).sum(),
        }
    }

    /// The records to replay.
    pub fn workload(&self) -> Workload<'_> {
        match &self.content {
            Content::Whole(trace) => Workload::Whole(trace),
            Content::Samples(samples) => Workload::Samples(samples),
        }
    }
}

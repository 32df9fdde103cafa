//! The trace of `simulate` and `mrc`, read and cut.

use super::trace;
use crate::args::SourceArgs;
use crate::failure::Failure;
use entresol_trace::Trace;
use std::ops::Range;

/// A trace and the part of it that is asked for.
pub struct Source {
    /// All of it.
    pub trace: Trace,
    /// Records to replay.
    pub records: Range<usize>,
    /// Of these, the first that is measured.
    pub measure_from: usize,
}

impl Source {
    /// Reads the trace.
    pub fn read(args: &SourceArgs) -> Result<Self, Failure> {
        let trace = trace::read(&args.trace, &args.read.options())?;
        let (from_s, until_s) = (args.measure_from.unwrap_or(0.0), args.until.unwrap_or(f64::INFINITY));
        let measured = trace.between(from_s, until_s).map_err(trace::refused)?;
        if !trace.requests[measured.clone()].iter().any(|request| request.is_reference()) {
            return Err(Failure::input(format!(
                "{}: no page is referenced from second {from_s} until {}; the trace lasts {:.1} s",
                args.trace.display(),
                if until_s.is_finite() { until_s.to_string() } else { "the end".into() },
                trace.seconds()
            )));
        }
        Ok(Self { trace, records: 0..measured.end, measure_from: measured.start })
    }
}

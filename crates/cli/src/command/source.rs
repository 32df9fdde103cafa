//! The trace of `simulate` and `mrc`, read and cut.

use crate::args::SourceArgs;
use crate::failure::Failure;
use entresol_trace::{ReadOptions, Trace};
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
        let input = |error: entresol_trace::TraceError| Failure::input(error.to_string());
        let options = ReadOptions {
            format: args.format,
            stream: args.stream,
            page_bytes: args.page_bytes,
            relations: args.relations.clone(),
        };
        let trace = entresol_trace::read(&args.trace, &options).map_err(input)?;
        let (from_s, until_s) = (args.measure_from.unwrap_or(0.0), args.until.unwrap_or(f64::INFINITY));
        let measured = trace.between(from_s, until_s).map_err(input)?;
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

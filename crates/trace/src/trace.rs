//! A whole trace in memory. Of a sample that has many records, all but the last are in a temporary file.
//!
//! Invariants: `requests` name pages below `pages.len()`; every page is named by a request; pages are
//! numbered in the order of their first appearance; `times_us` is empty or has one entry for each request and
//! never decreases.

use crate::spool::{SPOOL_RECORDS, Spool};
use crate::{Relations, Request, TraceError};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A trace: page references in order, and the properties of the pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Its name: the file's, or the generator's.
    pub name: String,
    /// Size of a page in bytes.
    pub page_bytes: u32,
    /// The records, in order; of a long sample the last of them, see [`Trace::each_chunk`].
    pub requests: Vec<Request>,
    /// Microseconds since the start of the trace, for each of `requests`; empty if the source has no times.
    pub times_us: Vec<u64>,
    /// Dense page number → the number in the source: object in the upper 32 bits, page within it in the
    /// lower.
    pub pages: Vec<u64>,
    /// Which relation each page belongs to, where the source says.
    pub relations: Option<Relations>,
    /// Requests of the source that have no bytes: they touch no page, and are not in the trace.
    pub empty_requests: u64,
    /// The records before `requests`, where they are too many for memory.
    pub spool: Option<Arc<Spool>>,
}

/// Records that are adjacent in memory.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'t> {
    /// The number of the first of them.
    pub first: usize,
    /// The records.
    pub requests: &'t [Request],
    /// Their times; empty if the trace has none.
    pub times_us: &'t [u64],
}

impl Chunk<'_> {
    /// The number after that of the last record.
    pub fn end(&self) -> usize {
        self.first + self.requests.len()
    }
}

impl Trace {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.spooled() + self.requests.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that are not in memory.
    fn spooled(&self) -> usize {
        self.spool.as_ref().map_or(0, |spool| spool.len())
    }

    fn unread(&self, source: std::io::Error) -> TraceError {
        let path = PathBuf::from(format!("the temporary file of {}", self.name));
        TraceError::Io { path, action: "reading", source }
    }

    /// Gives the records of `range` to `each`, as many at a time as are adjacent in memory: all at once but
    /// for long samples.
    ///
    /// # Errors
    /// What `each` returns; a failed read of the temporary file.
    pub fn each_chunk<E: From<TraceError>>(
        &self,
        range: &Range<usize>,
        mut each: impl FnMut(Chunk<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let spooled = self.spooled();
        let mut part = |first: usize, requests: &[Request], times_us: &[u64]| {
            let from = range.start.clamp(first, first + requests.len());
            let to = range.end.clamp(from, first + requests.len());
            if from == to {
                return Ok(());
            }
            let within = from - first..to - first;
            let times_us = times_us.get(within.clone()).unwrap_or(&[]);
            each(Chunk { first: from, requests: &requests[within], times_us })
        };
        if let Some(spool) = &self.spool {
            let (mut requests, mut times_us) = (Vec::new(), Vec::new());
            let blocks =
                range.start.min(spooled) / SPOOL_RECORDS..range.end.min(spooled).div_ceil(SPOOL_RECORDS);
            for block in blocks {
                spool.read(block, &mut requests, &mut times_us).map_err(|error| self.unread(error))?;
                part(block * SPOOL_RECORDS, &requests, &times_us)?;
            }
        }
        part(spooled, &self.requests, &self.times_us)
    }

    /// The time of a record; `None` beyond the last, and of a trace without times.
    ///
    /// # Errors
    /// A failed read of the temporary file.
    pub fn time_us(&self, at: usize) -> Result<Option<u64>, TraceError> {
        match at.checked_sub(self.spooled()) {
            Some(at) => Ok(self.times_us.get(at).copied()),
            None => {
                let spool = self.spool.as_ref().expect("records are in memory or in the file");
                spool.time_us(at).map_err(|error| self.unread(error))
            }
        }
    }

    /// Whether a page is referenced in `range`.
    ///
    /// # Errors
    /// A failed read of the temporary file.
    pub fn has_reference(&self, range: &Range<usize>) -> Result<bool, TraceError> {
        let mut found = false;
        self.each_chunk(range, |chunk| {
            found = found || chunk.requests.iter().any(|request| request.is_reference());
            Ok::<(), TraceError>(())
        })?;
        Ok(found)
    }

    /// Number of page references in memory: requests that are not mere news of a change.
    pub fn references(&self) -> usize {
        self.requests.iter().filter(|request| request.is_reference()).count()
    }

    /// Number of different pages.
    pub fn unique_pages(&self) -> usize {
        self.pages.len()
    }

    /// Bytes of all its pages.
    pub fn footprint_bytes(&self) -> u64 {
        self.pages.len() as u64 * u64::from(self.page_bytes)
    }

    /// Whether requests have times.
    pub fn has_times(&self) -> bool {
        !self.times_us.is_empty()
    }

    /// Seconds from the start of the trace to its last request; 0 without times.
    pub fn seconds(&self) -> f64 {
        self.times_us.last().map_or(0.0, |&last| last as f64 / 1e6)
    }

    /// The requests from `from_s` (inclusive) until `until_s` (exclusive) seconds after the start, as indices
    /// into `requests`; infinity is the end. A host request of several pages is not cut through: they have
    /// one time.
    ///
    /// # Errors
    /// [`TraceError::NoTimes`] if the trace has no times and the span is not all of it;
    /// [`TraceError::Option`] if the span ends before it starts or is not a number.
    pub fn between(&self, from_s: f64, until_s: f64) -> Result<Range<usize>, TraceError> {
        if from_s.is_nan() || until_s.is_nan() || from_s < 0.0 || until_s < from_s {
            return Err(TraceError::Option(format!(
                "a span from {from_s} s until {until_s} s is not possible; give a start of at least 0 and an end after it"
            )));
        }
        if !self.has_times() {
            return match from_s == 0.0 && until_s == f64::INFINITY {
                true => Ok(0..self.len()),
                false => Err(TraceError::NoTimes { name: self.name.clone() }),
            };
        }
        let at = |seconds: f64| -> Result<usize, TraceError> {
            let (mut low, mut high) = (0, self.len());
            while low < high {
                let middle = low.midpoint(high);
                let time_us = self.time_us(middle)?.expect("all records have times");
                if (time_us as f64) < seconds * 1e6 {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            Ok(low)
        };
        Ok(at(from_s)?..at(until_s)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    fn trace(times_us: Vec<u64>) -> Trace {
        let requests = vec![
            Request::new(0, Op::Read),
            Request::new(0, Op::Dirty),
            Request::new(1, Op::Write),
            Request::new(0, Op::Read),
        ];
        Trace { requests, times_us, page_bytes: 4096, pages: vec![7, 9], ..Trace::default() }
    }

    #[test]
    fn news_of_changes_are_no_references() {
        assert_eq!((trace(vec![]).references(), trace(vec![]).unique_pages()), (3, 2));
        assert_eq!(trace(vec![]).footprint_bytes(), 8192);
    }

    #[test]
    fn spans_include_their_start_and_not_their_end() {
        let trace = trace(vec![0, 1_000_000, 1_000_000, 2_500_000]);
        assert_eq!(trace.between(0.0, f64::INFINITY).expect("a span"), 0..4);
        assert_eq!(trace.between(1.0, 2.5).expect("a span"), 1..3);
        assert_eq!(trace.between(3.0, 9.0).expect("a span"), 4..4);
        assert_eq!(trace.seconds(), 2.5);
    }

    #[test]
    fn impossible_spans_are_refused() {
        assert!(matches!(trace(vec![]).between(1.0, f64::INFINITY), Err(TraceError::NoTimes { .. })));
        assert_eq!(trace(vec![]).between(0.0, f64::INFINITY).expect("all of it"), 0..4);
        for (from_s, until_s) in [(2.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (0.0, f64::NAN)] {
            let refused = trace(vec![0, 0, 0, 0]).between(from_s, until_s);
            assert!(matches!(refused, Err(TraceError::Option(_))), "{from_s} {until_s}");
        }
    }
}

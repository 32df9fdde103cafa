//! Spatial sampling: a trace of some of the pages, drawn by a hash of their numbers.
//!
//! A page is in the sample if its hash is below a threshold, so all of its references are or none is, and
//! reuse is as in the whole trace, at `rate` of its distance (SHARDS: Waldspurger, Park, Garthwaite, Ahmad,
//! *Efficient MRC Construction with SHARDS*, FAST 2015). Caches that are made smaller by the rate have about
//! the hits of the whole ones (*Cache Modeling and Optimization using Miniature Simulations*, ATC 2017).
//!
//! Pages are known by their number in the source; in Entresol's own format by the order of their first
//! appearance, so that no table of all pages is needed.
//!
//! Invariant: the content of a sample depends on page numbers, rate and seed alone.

use crate::numbering::Numbering;
use crate::spool::{SPOOL_RECORDS, Spooling};
use crate::{Misfit, Op, Request, Trace, TraceError};
use entresol_core::{Drawn, PageId};
use std::ops::Range;

/// Smallest rate: of a tebibyte of pages a few dozen.
pub const RATE_MIN: f64 = 1e-7;

/// Which pages are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    rate: f64,
    drawn: Drawn,
}

impl Sample {
    /// About `rate` of all pages. Samples of different seeds are independent.
    ///
    /// # Errors
    /// [`TraceError::Option`] if the rate is not from [`RATE_MIN`] to 1.
    pub fn new(rate: f64, seed: u64) -> Result<Self, TraceError> {
        if !(RATE_MIN..=1.0).contains(&rate) {
            return Err(TraceError::Option(format!(
                "a sample of {rate} of the pages is not possible; {RATE_MIN} to 1 are"
            )));
        }
        // At rate 1 the threshold is the largest number, which no hash needs to reach.
        let threshold = (rate * 2f64.powi(64)) as u64;
        Ok(Self { rate, drawn: Drawn::new(threshold, seed) })
    }

    /// Share of the pages that is drawn, on the average.
    pub fn rate(self) -> f64 {
        self.rate
    }

    /// Whether a page is drawn.
    #[inline]
    pub fn holds(self, page: u64) -> bool {
        self.drawn.holds(PageId(page))
    }
}

/// The counts of the whole trace, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Records.
    pub records: f64,
    /// Page references.
    pub references: f64,
    /// Of these, references that do not change the page.
    pub reads: f64,
    /// Host requests with a reference.
    pub requests: f64,
}

impl Counted {
    fn add(&mut self, op: Op, continues: bool) {
        self.records += 1.0;
        if op.is_reference() {
            self.references += 1.0;
            self.reads += f64::from(u8::from(op == Op::Read));
            self.requests += f64::from(u8::from(!continues));
        }
    }

    /// The counts so far from `self` to `to`.
    fn between(self, to: Self, share: f64) -> Self {
        let at = |from: f64, to: f64| from + (to - from) * share;
        Self {
            records: at(self.records, to.records),
            references: at(self.references, to.references),
            reads: at(self.reads, to.reads),
            requests: at(self.requests, to.requests),
        }
    }
}

impl std::ops::Sub for Counted {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self {
            records: self.records - before.records,
            references: self.references - before.references,
            reads: self.reads - before.reads,
            requests: self.requests - before.requests,
        }
    }
}

/// Sampled records between two places where the whole trace's counts are known; between them they are
/// interpolated.
const STRIDE: usize = 256;

/// A sample of a trace. Records of the whole trace have numbers; [`SampledTrace::sampled`] finds their places
/// in the sample.
#[derive(Clone, Debug)]
pub struct SampledTrace {
    /// The sampled pages and their records.
    pub trace: Trace,
    /// The sample.
    pub sample: Sample,
    /// Of the whole trace.
    pub whole: Counted,
    /// The whole trace's counts before each [`STRIDE`]-th sampled record.
    counts: Vec<Counted>,
}

impl SampledTrace {
    /// The whole trace's counts before the sampled record `at`.
    fn counted_before(&self, at: usize) -> Counted {
        if at == 0 {
            return Counted::default();
        }
        if at >= self.trace.len() {
            return self.whole;
        }
        let nth = at / STRIDE;
        let Some(&from) = self.counts.get(nth) else { return self.whole };
        let to = self.counts.get(nth + 1).copied().unwrap_or(self.whole);
        let stretch = (self.trace.len() - nth * STRIDE).min(STRIDE);
        from.between(to, (at - nth * STRIDE) as f64 / stretch as f64)
    }

    /// The sampled records among `records` of the whole trace.
    pub fn sampled(&self, records: &Range<usize>) -> Range<usize> {
        self.place(records.start)..self.place(records.end)
    }

    /// The number in the whole trace of the sampled record `at`.
    pub fn number(&self, at: usize) -> usize {
        self.counted_before(at.min(self.trace.len())).records.round() as usize
    }

    /// The first sampled record that is not before `record` of the whole trace.
    fn place(&self, record: usize) -> usize {
        let (mut low, mut high) = (0, self.trace.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.counted_before(middle).records < record as f64 - 0.5 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The whole trace's counts between the ends of `sampled` records.
    pub fn counted(&self, sampled: &Range<usize>) -> Counted {
        self.counted_before(sampled.end) - self.counted_before(sampled.start)
    }
}

/// Samples of one trace, as it is read.
#[derive(Debug)]
pub(crate) struct Sampler {
    lanes: Vec<Lane>,
    whole: Counted,
}

/// One sample.
#[derive(Debug)]
struct Lane {
    sample: Sample,
    trace: Trace,
    numbering: Numbering,
    counts: Vec<Counted>,
    spooling: Spooling,
    /// A page of the host request under way is in the sample.
    begun: bool,
}

impl Sampler {
    pub fn new(samples: &[Sample], name: &str, page_bytes: u32) -> Self {
        let lane = |sample: &Sample| Lane {
            sample: *sample,
            trace: Trace { name: name.to_owned(), page_bytes, ..Trace::default() },
            numbering: Numbering::default(),
            counts: Vec::new(),
            spooling: Spooling::default(),
            begun: false,
        };
        Self { lanes: samples.iter().map(lane).collect(), whole: Counted::default() }
    }

    /// The next record of the whole trace.
    pub fn record(
        &mut self,
        page: PageId,
        op: Op,
        continues: bool,
        time_us: Option<u64>,
    ) -> Result<(), Misfit> {
        for lane in &mut self.lanes {
            lane.begun &= continues;
            if lane.sample.holds(page.0) {
                lane.push(page, op, time_us, self.whole)?;
            }
        }
        self.whole.add(op, continues);
        Ok(())
    }

    /// Records so far, drawn or not.
    pub fn records(&self) -> usize {
        self.whole.records as usize
    }

    /// The samples. `finish` completes each trace, whose pages are numbered already.
    pub fn finish(self, mut finish: impl FnMut(Trace) -> Trace) -> Vec<SampledTrace> {
        let whole = self.whole;
        let done = |lane: Lane| {
            let Lane { sample, mut trace, numbering, counts, spooling, .. } = lane;
            trace.pages = numbering.into_pages();
            trace.spool = spooling.finish();
            SampledTrace { trace: finish(trace), sample, whole, counts }
        };
        self.lanes.into_iter().map(done).collect()
    }
}

impl Lane {
    fn push(&mut self, page: PageId, op: Op, time_us: Option<u64>, before: Counted) -> Result<(), Misfit> {
        let Some((dense, _)) = self.numbering.number(page) else {
            return Err(Misfit::TooMany("a sample has more pages than can be numbered".to_owned()));
        };
        if self.trace.requests.len() == SPOOL_RECORDS {
            self.spooling.take(&mut self.trace).map_err(Misfit::NoRoom)?;
        }
        if (self.spooling.len() + self.trace.requests.len()).is_multiple_of(STRIDE) {
            self.counts.push(before);
        }
        let request = Request::new(dense, op);
        let continues = std::mem::replace(&mut self.begun, true);
        self.trace.requests.push(if continues { request.continued() } else { request });
        self.trace.times_us.extend(time_us);
        Ok(())
    }
}

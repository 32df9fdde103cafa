//! Builds a trace request by request: gives pages their dense numbers and splits extents into pages.
//!
//! Invariant: whatever is added, the trace built so far keeps the promises of [`Trace`].

use crate::numbering::{Numbering, PAGES_MAX};
use crate::sample::{Sample, SampledTrace, Sampler};
use crate::{Op, Place, Relations, Request, Trace, TraceError};
use entresol_core::PageId;
use std::collections::HashMap;

/// Largest host request: nothing real is larger, and a damaged length must not fill the memory.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Most objects: relations are numbered with 16 bits.
const OBJECTS_MAX: usize = 1 << 16;

/// Why something cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It makes no sense.
    Senseless(String),
    /// A page number, or the number of pages, does not fit in 32 bits.
    TooMany(String),
    /// There is no room for the records of a sample.
    NoRoom(String),
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Misfit::Senseless(reason) | Misfit::TooMany(reason) | Misfit::NoRoom(reason) => {
                f.write_str(reason)
            }
        }
    }
}

impl Misfit {
    /// The error for something at `place` of the trace called `name`.
    pub(crate) fn at(self, name: &str, place: Place) -> TraceError {
        let name = name.to_owned();
        match self {
            Misfit::Senseless(reason) => TraceError::Damaged { name, place, reason },
            Misfit::TooMany(reason) => TraceError::TooManyPages { name, place, reason },
            Misfit::NoRoom(reason) => TraceError::NoRoom { name, reason },
        }
    }
}

/// A trace that grows.
#[derive(Debug)]
pub struct TraceBuilder {
    trace: Trace,
    numbering: Numbering,
    objects: HashMap<String, u32>,
    labels: Vec<String>,
    /// The time that is 0 in the trace.
    start_us: Option<u64>,
    /// The time of the last record.
    last_us: u64,
    /// Takes all records, where samples are wanted instead of the trace.
    sampler: Option<Box<Sampler>>,
}

/// The result.
#[derive(Debug)]
pub(crate) enum Built {
    /// All of the trace.
    Whole(Trace),
    /// Samples of it, and how many records it has.
    Samples(Vec<SampledTrace>, usize),
}

impl Built {
    /// Whether the trace has no record, sampled or not.
    pub fn is_empty(&self) -> bool {
        match self {
            Built::Whole(trace) => trace.is_empty(),
            Built::Samples(_, records) => *records == 0,
        }
    }
}

impl TraceBuilder {
    /// An empty trace of pages of `page_bytes`.
    pub fn new(name: impl Into<String>, page_bytes: u32) -> Self {
        let trace = Trace { name: name.into(), page_bytes, ..Trace::default() };
        let numbering = Numbering::default();
        let (objects, labels) = (HashMap::new(), Vec::new());
        Self { trace, numbering, objects, labels, start_us: None, last_us: 0, sampler: None }
    }

    /// The same for samples of it; without any it is for all of the trace.
    pub(crate) fn sampled(mut self, samples: &[Sample]) -> Self {
        let sampler = || Box::new(Sampler::new(samples, &self.trace.name, self.trace.page_bytes));
        self.sampler = (!samples.is_empty()).then(sampler);
        self
    }

    /// Times that follow count from `start_us` on, not from the first of them.
    pub fn start_at(&mut self, start_us: u64) {
        self.start_us = Some(start_us);
    }

    /// The number of the object (relation, file, volume) that the source calls `label`.
    ///
    /// # Errors
    /// [`Misfit::TooMany`] beyond 65,536 objects.
    pub fn object(&mut self, label: &str) -> Result<u32, Misfit> {
        if let Some(&object) = self.objects.get(label) {
            return Ok(object);
        }
        if self.labels.len() == OBJECTS_MAX {
            return Err(Misfit::TooMany(format!(
                "{label:?} is object number {} of the trace and {OBJECTS_MAX} are possible",
                OBJECTS_MAX + 1
            )));
        }
        let object = self.labels.len() as u32;
        self.objects.insert(label.to_owned(), object);
        self.labels.push(label.to_owned());
        Ok(object)
    }

    /// The dense number of a page; a new one if it was not seen before.
    #[inline]
    fn dense(&mut self, page: PageId) -> Result<u32, Misfit> {
        match self.numbering.number(page) {
            Some((dense, _)) => Ok(dense),
            None => Err(Misfit::TooMany(format!("the trace has more than {PAGES_MAX} different pages"))),
        }
    }

    /// A record. Either all records of a trace have a time or none has.
    ///
    /// # Errors
    /// [`Misfit::TooMany`] if the trace has too many pages; [`Misfit::NoRoom`].
    #[inline]
    pub(crate) fn record(
        &mut self,
        page: PageId,
        op: Op,
        continues: bool,
        time_us: Option<u64>,
    ) -> Result<(), Misfit> {
        let time_us = time_us.map(|time_us| self.since_start(time_us));
        if let Some(sampler) = &mut self.sampler {
            return sampler.record(page, op, continues, time_us);
        }
        let request = Request::new(self.dense(page)?, op);
        self.trace.requests.push(if continues { request.continued() } else { request });
        self.trace.times_us.extend(time_us);
        Ok(())
    }

    /// Microseconds since the start of the trace.
    #[inline]
    fn since_start(&mut self, time_us: u64) -> u64 {
        let start_us = *self.start_us.get_or_insert(time_us);
        // Captures of several processors are not quite in order: a time before the last one is replaced by
        // the last one.
        self.last_us = time_us.saturating_sub(start_us).max(self.last_us);
        self.last_us
    }

    /// Touches the entries of the next pages, `pages`, in memory, so that several are fetched at once.
    #[inline]
    pub(crate) fn warm(&self, pages: impl Iterator<Item = PageId>) {
        std::hint::black_box(self.numbering.warm(pages));
    }

    /// `op` on one page. Either all requests of a trace have a time or none has.
    ///
    /// # Errors
    /// [`Misfit::TooMany`] if the trace has too many pages.
    pub fn page(&mut self, page: PageId, op: Op, time_us: Option<u64>) -> Result<(), Misfit> {
        self.record(page, op, false, time_us)
    }

    /// A host request of `bytes` bytes from byte `first` of `object` on, split into the pages that it
    /// touches. One of no bytes is skipped, and counted.
    ///
    /// # Errors
    /// [`Misfit`] if the extent is larger than 64 MiB or reaches beyond page 2^32 - 1.
    pub fn extent(
        &mut self,
        object: u32,
        first: u64,
        bytes: u64,
        op: Op,
        time_us: Option<u64>,
    ) -> Result<(), Misfit> {
        if bytes == 0 {
            self.trace.empty_requests += 1;
            return Ok(());
        }
        if bytes > REQUEST_BYTES_MAX {
            return Err(Misfit::Senseless(format!(
                "a request of {bytes} bytes; at most {REQUEST_BYTES_MAX} are possible"
            )));
        }
        let page_bytes = u64::from(self.trace.page_bytes);
        let last = first.saturating_add(bytes - 1) / page_bytes;
        let Ok(last) = u32::try_from(last) else {
            // The first byte of the request that has no page.
            let byte = first.max((u64::from(u32::MAX) + 1).saturating_mul(page_bytes));
            return Err(Misfit::TooMany(format!(
                "byte {byte} is in page {} of {page_bytes} bytes, and page numbers end at {}",
                byte / page_bytes,
                u32::MAX
            )));
        };
        for number in (first / page_bytes) as u32..=last {
            let continues = u64::from(number) > first / page_bytes;
            self.record(PageId::new(object, number), op, continues, time_us)?;
        }
        Ok(())
    }

    /// Number of requests so far.
    pub fn len(&self) -> usize {
        self.trace.requests.len()
    }

    /// Whether there is no request yet.
    pub fn is_empty(&self) -> bool {
        self.trace.requests.is_empty()
    }

    /// The trace. Objects become its relations, called what `name` makes of their labels.
    pub fn finish(mut self, name: impl Fn(&str) -> String) -> Trace {
        debug_assert!(
            self.trace.times_us.is_empty() || self.trace.times_us.len() == self.trace.requests.len(),
            "either all requests have a time or none"
        );
        self.trace.pages = self.numbering.into_pages();
        with_relations(self.trace, &self.labels, &name)
    }

    /// The trace, or the samples that are wanted instead.
    pub(crate) fn finish_any(mut self, name: impl Fn(&str) -> String) -> Built {
        match self.sampler.take() {
            None => Built::Whole(self.finish(name)),
            Some(sampler) => {
                let (records, empty_requests) = (sampler.records(), self.trace.empty_requests);
                let finish = |trace| with_relations(Trace { empty_requests, ..trace }, &self.labels, &name);
                Built::Samples(sampler.finish(finish), records)
            }
        }
    }
}

/// The trace with its objects as relations, called what `name` makes of their labels.
fn with_relations(mut trace: Trace, labels: &[String], name: &impl Fn(&str) -> String) -> Trace {
    if !labels.is_empty() {
        let of_page = trace.pages.iter().map(|&page| PageId(page).object() as u16).collect();
        let names = labels.iter().map(|label| name(label)).collect();
        trace.relations = Some(Relations::new(of_page, names));
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(trace: &Trace) -> Vec<(u64, Op, bool)> {
        let page = |request: &Request| trace.pages[request.page() as usize];
        trace.requests.iter().map(|r| (page(r), r.op(), r.continues())).collect()
    }

    #[test]
    fn extents_are_split_where_pages_end() {
        let mut builder = TraceBuilder::new("t", 4096);
        builder.extent(0, 4095, 2, Op::Write, None).expect("fits");
        builder.extent(0, 4096, 4096, Op::Read, None).expect("fits");
        builder.extent(0, 8191, 4098, Op::Read, None).expect("fits");
        builder.extent(0, 123, 0, Op::Read, None).expect("nothing");
        let trace = builder.finish(str::to_owned);
        let expected = [
            (0, Op::Write, false),
            (1, Op::Write, true),
            (1, Op::Read, false),
            (1, Op::Read, false),
            (2, Op::Read, true),
            (3, Op::Read, true),
        ];
        assert_eq!(shown(&trace), expected);
        assert_eq!(trace.empty_requests, 1);
        assert_eq!(trace.pages, [0, 1, 2, 3]);
        assert_eq!((trace.relations, trace.times_us), (None, vec![]));
    }

    #[test]
    fn pages_beyond_32_bits_are_refused() {
        let mut builder = TraceBuilder::new("t", 4096);
        builder.extent(0, 0xFFFF_FFFF << 12, 4096, Op::Read, None).expect("the last page");
        for first in [0xFFFF_FFFF << 12 | 1, 1 << 44, u64::MAX] {
            let refused = builder.extent(0, first, 4096, Op::Read, None);
            assert!(matches!(refused, Err(Misfit::TooMany(_))), "{first}: {refused:?}");
        }
        let refused = builder.extent(0, 0, REQUEST_BYTES_MAX + 1, Op::Read, None);
        assert!(matches!(refused, Err(Misfit::Senseless(_))), "{refused:?}");
        assert_eq!(builder.len(), 1, "what was refused left no trace");
        // Only its last page is beyond: that is the one named.
        let refused = builder.extent(0, 0xFFFF_FFFF << 12, 8192, Op::Read, None);
        let Err(Misfit::TooMany(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("byte 17592186044416 is in page 4294967296"), "{why}");
    }

    #[test]
    fn times_start_at_the_first_and_never_go_back() {
        let mut builder = TraceBuilder::new("t", 4096);
        for time_us in [1_000, 1_500, 1_400, 1_600] {
            builder.page(PageId::new(0, 7), Op::Read, Some(time_us)).expect("fits");
        }
        assert_eq!(builder.finish(str::to_owned).times_us, [0, 500, 500, 600]);
    }

    #[test]
    fn objects_become_relations() {
        let mut builder = TraceBuilder::new("t", 4096);
        for label in ["b", "a", "b"] {
            let object = builder.object(label).expect("few");
            builder.page(PageId::new(object, 1), Op::Read, None).expect("fits");
        }
        let relations =
            builder.finish(|label| format!("table {label}")).relations.expect("there are objects");
        assert_eq!(relations.names(), ["table b", "table a"]);
        assert_eq!(relations.of_pages(), [0, 1]);
    }
}

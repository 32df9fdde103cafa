//! Recording page references as they happen, to be replayed later.
//!
//! Invariant: a record costs an append under a mutex, and the recording depends on the calls alone, in their
//! order. While a recorder is off nothing is kept.

use crate::builder::Misfit;
use crate::{Op, Relations, Trace, TraceBuilder};
use entresol_core::PageId;
use entresol_runtime::sync::{Rank, TinyMutex, TinyMutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: PageId,
    /// Microseconds, and in the lowest bit whether it is news of a change.
    time_and_kind: u64,
}

/// Collects page references; shared by all threads. It begins switched off.
#[derive(Debug)]
pub struct Recorder {
    on: AtomicBool,
    entries: TinyMutex<Vec<Entry>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { on: AtomicBool::new(false), entries: TinyMutex::new(Rank::Trace, Vec::new()) }
    }
}

impl Recorder {
    /// Records from now on, or no longer.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Release);
    }

    /// A page was referenced, so many microseconds after some beginning.
    pub fn referenced(&self, page: PageId, time_us: u64) {
        self.add(page, time_us << 1);
    }

    /// A page that was referenced before was changed.
    pub fn changed(&self, page: PageId, time_us: u64) {
        self.add(page, time_us << 1 | 1);
    }

    fn add(&self, page: PageId, time_and_kind: u64) {
        if self.on.load(Ordering::Acquire) {
            self.entries().push(Entry { page, time_and_kind });
        }
    }

    fn entries(&self) -> TinyMutexGuard<'_, Vec<Entry>> {
        self.entries.lock()
    }

    /// Number of records so far.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The trace so far, and an empty recorder. `relation` gives the relation of a page.
    ///
    /// # Errors
    /// [`Misfit::TooMany`] beyond 2^32 - 2 pages or 65,536 relations.
    pub fn take(
        &self,
        name: &str,
        page_bytes: u32,
        mut relation: impl FnMut(PageId) -> String,
    ) -> Result<Trace, Misfit> {
        let entries = std::mem::take(&mut *self.entries());
        let mut builder = TraceBuilder::new(name, page_bytes);
        for Entry { page, time_and_kind } in entries {
            let op = if time_and_kind & 1 == 0 { Op::Read } else { Op::Dirty };
            builder.page(page, op, Some(time_and_kind >> 1))?;
        }
        let mut trace = builder.finish(str::to_owned);
        let (mut numbers, mut names) = (BTreeMap::new(), Vec::new());
        let mut of_page = Vec::with_capacity(trace.pages.len());
        for &page in &trace.pages {
            let name = relation(PageId(page));
            let number = *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() - 1
            });
            let number = u16::try_from(number);
            of_page.push(number.map_err(|_| Misfit::TooMany(format!("{} relations", names.len())))?);
        }
        trace.relations = Some(Relations::new(of_page, names));
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_while_it_was_on_is_the_trace() {
        let recorder = Recorder::default();
        let [a, b] = [PageId::new(1, 7), PageId::new(2, 7)];
        recorder.referenced(b, 1);
        recorder.switch(true);
        recorder.referenced(a, 500);
        recorder.changed(a, 501);
        recorder.referenced(b, 700);
        recorder.switch(false);
        recorder.changed(b, 800);
        assert_eq!(recorder.len(), 3);
        let trace = recorder.take("run", 4096, |page| format!("t{}", page.object())).expect("few");
        let expected = [(0, Op::Read, 0), (0, Op::Dirty, 1), (1, Op::Read, 200)];
        let found: Vec<_> = trace
            .requests
            .iter()
            .zip(&trace.times_us)
            .map(|(r, &time_us)| (r.page(), r.op(), time_us))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(trace.pages, [a.0, b.0]);
        assert_eq!(trace.relations.expect("asked for").names(), ["t1", "t2"]);
        assert!(recorder.is_empty());
    }
}

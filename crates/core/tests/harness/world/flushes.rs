//! Summaries of groups with the records in them, and flushes.

use super::*;
use entresol_core::{Flush, Forgotten};

/// The summary of a group.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// First position of the group.
    pub first: u64,
    /// Records of forgotten pages.
    pub records: Vec<Forgotten>,
}

/// The place of a summary on flash.
#[derive(Clone, Debug, Default)]
pub struct SummaryCell {
    pub durable: Summary,
    /// A write is under way.
    pub writing: Option<Summary>,
}

/// The summary that is written with a job.
pub(super) struct Summing {
    pub first: u64,
    /// Places before this one are durable with it.
    pub upto: u64,
    /// Bit `i`: place `i` is named.
    named: u128,
    /// Records before this number are durable with it.
    records: u64,
}

impl World {
    fn summary_cell(&mut self, first: u64) -> &mut SummaryCell {
        let group = u64::from(self.config.group_pages);
        &mut self.summaries[(first % u64::from(self.config.slots) / group) as usize]
    }

    /// Records the front durably.
    pub(super) fn record_front(&mut self) {
        let mut partition = partition!(self);
        let front = partition.window().0;
        if let Some(log) = partition.log_mut() {
            log.front_is_durable(front);
        }
        self.recorded_front = front.0;
        self.model.front_is_durable(front.0);
    }

    /// Composes the summary of a write that completes or flushes a group.
    pub(super) fn compose_summary(&mut self, ticket: Ticket, first: u64, upto: u64) -> Summing {
        let mut partition = partition!(self);
        let named = log(&mut partition).staged_pages(Position(first));
        let (records, end) = log(&mut partition).records(ticket, self.dead.synced);
        let group_end = first + u64::from(self.config.group_pages);
        self.model.records(self.dead.synced, group_end, &records, end);
        let cell = self.summary_cell(first);
        // A flush of the group before may have recorded some.
        let before = Some(&cell.durable).filter(|summary| summary.first == first);
        let mut summary = Summary { first, records: before.map_or(Vec::new(), |b| b.records.clone()) };
        summary.records.extend(records);
        cell.writing = Some(summary);
        Summing { first, upto, named, records: end }
    }

    /// The summary and all pages that it names are durable.
    pub(super) fn summary_is_durable(&mut self, summing: &Summing) {
        for place in 0..summing.upto {
            let position = summing.first + place;
            let frame = (position % u64::from(self.config.staging_pages())) as usize;
            let cell = &mut self.flash[(position % u64::from(self.config.slots)) as usize];
            let written = cell.writing.take();
            let is_here = cell.content.is_some_and(|content| content.position == position);
            if summing.named >> place & 1 == 0 {
                if written.is_some() || is_here {
                    cell.content = None;
                    self.directory.remove(&position);
                }
                continue;
            }
            let Some(content) = written else {
                assert!(is_here, "position {position} is named and was not written");
                continue;
            };
            assert_eq!(self.staging[frame], Some(content), "a frame keeps its page until it is written");
            cell.content = Some(content);
            self.page_is_durable(content);
        }
        let cell = self.summary_cell(summing.first);
        cell.durable = cell.writing.take().expect("it was being written");
        log(&mut partition!(self)).recorded(summing.records);
        self.model.recorded(summing.records);
        self.recorded(summing.records);
    }

    fn page_is_durable(&mut self, content: Content) {
        let on_disk = self.dead.unsynced.get(&content.page);
        let is_unsynced = on_disk.is_some_and(|u| u.writes.iter().any(|(_, v)| *v == content.version));
        assert!(content.dirty || !is_unsynced, "{content:?} is not durable on disk, and clean");
        let durable = &mut self.durable[content.page as usize];
        *durable = content.version.max(*durable);
        self.directory.insert(content.position, content.page);
    }

    /// Everything staged so far is to be durable soon.
    pub(super) fn flush(&mut self) {
        let got = partition!(self).flush();
        self.model.flush(got);
        match got {
            None => self.flushes_full += 1,
            Some(promised) => self.flush_promised = self.flush_promised.max(promised.0),
        }
    }

    /// What the partition says to be flushed is on flash.
    pub(super) fn verify_flushed(&mut self) {
        let partition = partition!(self);
        let Some(log) = partition.log() else { return };
        let (published, flushed) = (partition.published().0, partition.flushed().0);
        let group = u64::from(self.config.group_pages);
        for position in published..flushed {
            let first = position / group * group;
            if log.staged_pages(Position(first)) >> (position - first) & 1 == 0 {
                continue;
            }
            let staged = self.staging[(position % u64::from(self.config.staging_pages())) as usize];
            let cell = self.flash[(position % u64::from(self.config.slots)) as usize];
            assert_eq!(cell.content, staged, "the flushed page at {position}");
            assert!(cell.content.is_some(), "the flushed page at {position}");
        }
    }

    /// All work has ended, so what was promised to be flushed is.
    pub(super) fn assert_flushed(&mut self) {
        let flushed = partition!(self).flushed().0;
        assert!(flushed >= self.flush_promised, "flushed to {flushed} of {}", self.flush_promised);
    }

    pub(super) fn records_waiting(&mut self) -> u32 {
        partition!(self).log().map_or(0, |log| log.records_waiting())
    }

    /// Flushes until no record waits.
    pub(super) fn record_all(&mut self) {
        for _ in 0..4 {
            if self.records_waiting() == 0 {
                break;
            }
            self.flush();
            self.settle(true);
        }
        assert_eq!(self.records_waiting(), 0, "a flush writes the records");
        self.assert_all_promised();
    }

    pub(super) fn count_flush(&mut self, flush: Option<&Flush>) {
        self.flushes += u64::from(flush.is_some());
    }
}

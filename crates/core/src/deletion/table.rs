//! The table of a ring's deletions whose records are not durable yet.

use super::causes::Causes;
use crate::job::{DELETIONS_MAX, Forgotten, ForgottenPages};
use crate::{PageId, Position};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Records are numbered, and causes are numbered apart from them. A record is at the index that is its number
/// modulo [`DELETIONS_MAX`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Deletions {
    /// Number of the oldest record that is not durable, and the number of the next record.
    first: u64,
    next: u64,
    /// Records with lower numbers are not extended any more.
    sealed: u64,
    /// The greatest cause of the deletion of a dirty page. No slot is released until it is durable.
    dirty: u64,
    /// Slots may be released for causes up to this one.
    released_for: u64,
    records: [Forgotten; DELETIONS_MAX as usize],
    pub(super) causes: Causes,
}

impl Deletions {
    fn at(number: u64) -> usize {
        (number % u64::from(DELETIONS_MAX)) as usize
    }

    /// The records that are not durable, oldest first.
    fn waiting(&self) -> impl Iterator<Item = &Forgotten> {
        (self.first..self.next).map(|number| &self.records[Self::at(number)])
    }

    /// Made: notes that copies of `pages` (first and last) at positions below `below` are stale, once the
    /// cause `after` is durable. A range that is adjacent to that of the newest record extends it. `None`:
    /// the table is full.
    pub(crate) fn make(&mut self, pages: (PageId, PageId), below: Position, after: u64) -> Option<Position> {
        let (first, last) = pages;
        let newest = &mut self.records[Self::at(self.next.wrapping_sub(1))];
        let follows = newest.last.0.checked_add(1) == Some(first.0) && newest.first.object() == last.object();
        if self.next > self.sealed && follows && newest.below == below && newest.after == after {
            newest.last = last;
            return Some(below);
        }
        if self.are_full() {
            return None;
        }
        self.records[Self::at(self.next)] = Forgotten { first, last, below, after };
        self.next += 1;
        Some(below)
    }

    /// Whether there is no room for another record.
    pub(crate) fn are_full(&self) -> bool {
        self.next - self.first == u64::from(DELETIONS_MAX)
    }

    /// Written: the records for the summary of a group that ends at `group_end`, oldest first, if all causes
    /// up to `durable` are durable; and the number after them. They are not extended any more.
    ///
    /// They end before the first record whose cause is not durable, or whose copies may be in a later group:
    /// the summary may be overwritten before such a copy.
    pub(super) fn take(&mut self, group_end: u64, durable: u64) -> (ForgottenPages, u64) {
        let waits = |record: &&Forgotten| record.after > durable || record.below.0 > group_end;
        let records: ForgottenPages = self.waiting().take_while(|record| !waits(record)).copied().collect();
        let end = self.first + records.len() as u64;
        self.sealed = self.sealed.max(end);
        (records, end)
    }

    /// Durable: the records before number `end`.
    pub(super) fn are_durable(&mut self, end: u64) {
        self.first = self.first.max(end);
    }

    /// The number of all records made.
    pub(super) fn made(&self) -> u64 {
        self.next
    }

    /// The number of those that are durable.
    pub(super) fn durable(&self) -> u64 {
        self.first
    }

    /// The number of records that are not durable.
    pub(crate) fn wait(&self) -> u64 {
        self.next - self.first
    }

    /// The cause of the oldest record that waits.
    pub(super) fn oldest_awaits(&self) -> Option<u64> {
        self.waiting().next().map(|record| record.after)
    }

    /// Whether a record that is not durable names `page`.
    pub(crate) fn name(&self, page: PageId) -> bool {
        self.waiting().any(|record| (record.first..=record.last).contains(&page))
    }

    /// Whether one names a page from `first` to `last`.
    pub(super) fn name_any(&self, first: PageId, last: PageId) -> bool {
        self.waiting().any(|record| record.first <= last && first <= record.last)
    }

    /// The cause that must be durable before the slot of a copy of `page` at `position` is released: the
    /// newest cause of the records that make the copy stale, 0 if the page is dead. `None`: no record does.
    pub(crate) fn cause_of(&self, page: PageId, position: u64) -> Option<u64> {
        let names = |r: &&Forgotten| (r.first..=r.last).contains(&page) && position < r.below.0;
        let causes = self.waiting().filter(names).map(|record| record.after);
        causes.map(|after| if self.causes.is_of_dead(after) { 0 } else { after }).max()
    }

    /// A dirty page was deleted, for this cause.
    pub(crate) fn dirty_page(&mut self, after: u64) {
        self.dirty = self.dirty.max(after);
    }

    /// The cause that must be durable before slots are released; `None`: they may be released.
    pub(crate) fn keep_slots(&self) -> Option<u64> {
        (self.dirty > self.released_for).then_some(self.dirty)
    }

    /// Causes up to this one are durable, and slots may be released.
    pub(crate) fn release_for(&mut self, durable: u64) {
        self.released_for = self.released_for.max(durable);
    }

    /// The broken invariant. `None`: the numbers are consistent, and `rear` is beyond all positions.
    pub(crate) fn fault(&self, rear: u64) -> Option<String> {
        let Self { first, next, sealed, .. } = *self;
        if !(first <= next && next - first <= u64::from(DELETIONS_MAX)) {
            return Some(format!("{first} to {next} are the records that wait"));
        }
        if !(first <= sealed && sealed <= next) {
            return Some(format!("record {sealed} is the first that may be extended, of {first} to {next}"));
        }
        let mut before = 0;
        for (record, number) in self.waiting().zip(first..) {
            if record.first > record.last {
                return Some(format!("record {number} is of no range: {record:?}"));
            }
            if !(before <= record.below.0 && record.below.0 <= rear) {
                return Some(format!("record {number}: {record:?} is before another one or beyond {rear}"));
            }
            before = record.below.0;
        }
        None
    }
}

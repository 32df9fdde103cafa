//! Records of forgotten pages ([`super::forget`]), from when they are made until they are durable.
//!
//! The driver takes the records that wait with [`Log::records`] for each summary that it composes, and
//! reports them with [`Log::recorded`] when that is durable.

use super::{Log, Ring};
use crate::contents::Contents;
use crate::job::{Forgotten, ForgottenPages, Ticket};
use crate::{PageId, Position};

/// Records that may wait.
pub(crate) const FORGOTTEN_MAX: u32 = 64;

impl Log<'_> {
    /// The records that the summary of the write `ticket` is to name, oldest first, if everything up to
    /// `durable` is durable; and the number to [report](Log::recorded) when the summary is. The write
    /// completes or flushes its group, and is under way. If an earlier flush of the group recorded some, the
    /// driver's summary repeats these. The records are not extended any more.
    ///
    /// They end before the first one whose `after` is beyond `durable`, or whose copies may be in a later
    /// group than this one: such a copy would stay on flash when the summary is overwritten.
    pub fn records(&mut self, ticket: Ticket, durable: u64) -> (ForgottenPages, u64) {
        let Self { contents, ring } = self;
        let group_end = contents.staging.frame(ticket.0 * ring.group_pages).position.0 + ring.group();
        let (first, next) = (ring.head.forgotten_first, ring.head.forgotten_next);
        let at = |number: u64| (number % FORGOTTEN_MAX as u64) as usize;
        let waits_longer = |number: &u64| {
            let record = &ring.head.forgotten[at(*number)];
            let is_late = record.below.0 > group_end;
            record.after > durable || is_late
        };
        let end = (first..next).find(waits_longer).unwrap_or(next);
        ring.head.forgotten_sealed = ring.head.forgotten_sealed.max(end);
        let forgotten = &ring.head.forgotten;
        let record = move |number: u64| forgotten[at(number)];
        ((first..end).map(record).collect(), end)
    }

    /// Records of forgotten pages that are not durable.
    pub fn records_waiting(&self) -> u32 {
        self.ring.waiting() as u32
    }

    /// Whether there is no room for another record: nothing can be forgotten until some are durable.
    pub fn records_are_full(&self) -> bool {
        self.ring.records_are_full()
    }

    /// What must be durable before the oldest record that waits is written: its `after`.
    pub fn oldest_record_awaits(&self) -> Option<u64> {
        let head = &*self.ring.head;
        let first = (head.forgotten_first % u64::from(FORGOTTEN_MAX)) as usize;
        (self.ring.waiting() > 0).then(|| head.forgotten[first].after)
    }

    /// Records made ever.
    pub fn records_made(&self) -> u64 {
        self.ring.head.forgotten_next
    }

    /// Of the records made ever, how many are durable.
    pub fn records_durable(&self) -> u64 {
        self.ring.head.forgotten_first
    }

    /// The records before number `end` are durable on flash.
    pub fn recorded(&mut self, end: u64) {
        let head = &mut *self.ring.head;
        head.forgotten_first = head.forgotten_first.max(end);
    }

    /// A restart begins at `front` or after it, since a record is durable that all positions below are
    /// released ([`Partition::window`](crate::Partition::window)). (When a cache is given up, more are
    /// durably gone than were released.)
    pub fn front_is_durable(&mut self, front: Position) {
        let head = &mut *self.ring.head;
        head.front_durable = head.front_durable.max(front.0.min(head.released));
    }

    /// What must be durable before slots are released: the greatest `after` of a dirty page that was
    /// forgotten, if that is not known to be durable.
    pub fn awaits_dead(&self) -> Option<u64> {
        self.ring.awaits_dead().then_some(self.ring.head.dead_after)
    }

    /// Everything up to `after` is durable.
    pub fn dead_is_durable(&mut self, after: u64) {
        let Self { contents, ring } = self;
        ring.head.dead_durable = ring.head.dead_durable.max(after);
        ring.release(contents);
    }
}

impl Ring<'_> {
    fn waiting(&self) -> u64 {
        self.head.forgotten_next - self.head.forgotten_first
    }

    /// Whether there is no room for another record.
    pub(super) fn records_are_full(&self) -> bool {
        self.waiting() == FORGOTTEN_MAX as u64
    }

    /// Notes that copies of `pages` below the present rear are stale. `None`: too many records wait.
    pub(super) fn record(
        &mut self,
        contents: &Contents<'_>,
        pages: (PageId, PageId),
        after: u64,
    ) -> Option<Position> {
        let below = Position(contents.staging.window.rear);
        let (first, last) = pages;
        // The next range after the newest record, with no page in between: one record.
        let newest = (self.head.forgotten_next % FORGOTTEN_MAX as u64 + FORGOTTEN_MAX as u64 - 1) as usize
            % FORGOTTEN_MAX as usize;
        let record = &mut self.head.forgotten[newest];
        let follows = record.last.0.checked_add(1) == Some(first.0) && record.first.object() == last.object();
        if self.head.forgotten_next > self.head.forgotten_sealed
            && follows
            && record.below == below
            && record.after == after
        {
            record.last = last;
            return Some(below);
        }
        if self.records_are_full() {
            return None;
        }
        let at = (self.head.forgotten_next % FORGOTTEN_MAX as u64) as usize;
        self.head.forgotten[at] = Forgotten { first, last, below, after };
        self.head.forgotten_next += 1;
        Some(below)
    }

    /// Whether a crash may find a copy of one of the pages in a slot that is released: nothing else was
    /// written there, and the restart may begin before it.
    pub(super) fn may_return(&self, contents: &Contents<'_>, first: PageId, last: PageId) -> bool {
        let slots = u64::from(self.slots);
        let oldest = self.head.front_durable.max(self.head.released.saturating_sub(slots));
        (oldest..self.head.released).any(|position| {
            let page = contents.pages.directory.entry((position % slots) as u32).page();
            (first..=last).contains(&page)
        })
    }

    /// Whether a record that is not durable names `page`.
    pub(super) fn is_being_forgotten(&self, page: PageId) -> bool {
        let mut numbers = self.head.forgotten_first..self.head.forgotten_next;
        numbers.any(|number| {
            let record = &self.head.forgotten[(number % FORGOTTEN_MAX as u64) as usize];
            (record.first..=record.last).contains(&page)
        })
    }

    /// Whether forgotten dirty pages keep slots from being released.
    pub(super) fn awaits_dead(&self) -> bool {
        self.head.dead_after > self.head.dead_durable
    }
}

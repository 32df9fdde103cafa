//! What a driver of a log asks and reports about deletions.
//!
//! The driver takes the records that wait with [`Log::records`] for each summary that it composes, and
//! reports them with [`Log::recorded`] when that is durable.

use crate::job::{ForgottenPages, Ticket};
use crate::placement::Log;
use crate::{PageId, Position};

impl Log<'_> {
    /// The records that the summary of the write `ticket` is to name, oldest first, if all causes up to
    /// `durable` are durable; and the number to [report](Log::recorded) when the summary is. The write
    /// completes or flushes its group, and is under way. If an earlier flush of the group recorded some, the
    /// driver's summary repeats these. The records are not extended any more.
    ///
    /// They end before the first one whose cause is not durable, or whose copies may be in a later group than
    /// this one.
    pub fn records(&mut self, ticket: Ticket, durable: u64) -> (ForgottenPages, u64) {
        let Self { contents, ring } = self;
        let group_end = contents.staging.frame(ticket.0 * ring.group_pages).position.0 + ring.group();
        ring.head.deletions.take(group_end, durable)
    }

    /// The causes up to this one are durable.
    pub fn causes_durable(&self) -> u64 {
        self.ring.head.deletions.causes.durable()
    }

    /// Records of forgotten pages that are not durable.
    pub fn records_waiting(&self) -> u32 {
        self.ring.head.deletions.wait() as u32
    }

    /// Whether there is no room for another record: nothing can be forgotten until some are durable.
    pub fn records_are_full(&self) -> bool {
        self.ring.head.deletions.are_full()
    }

    /// Records made ever.
    pub fn records_made(&self) -> u64 {
        self.ring.head.deletions.made()
    }

    /// Of the records made ever, how many are durable.
    pub fn records_durable(&self) -> u64 {
        self.ring.head.deletions.durable()
    }

    /// Whether a crash may bring back a copy of one of these pages that was forgotten: a record that is not
    /// durable names it.
    pub fn may_come_back(&self, first: PageId, last: PageId) -> bool {
        self.ring.head.deletions.name_any(first, last)
    }

    /// The records before number `end` are durable on flash.
    pub fn recorded(&mut self, end: u64) {
        self.ring.head.deletions.are_durable(end);
    }

    /// A restart begins at `front` or after it, since a record is durable that all positions below are
    /// released ([`Partition::window`](crate::Partition::window)). (When a cache is given up, more are
    /// durably gone than were released.)
    pub fn front_is_durable(&mut self, front: Position) {
        let head = &mut *self.ring.head;
        head.front_durable = head.front_durable.max(front.0.min(head.released));
    }

    /// What a cause stands for is done: the write that makes deleted pages dead has returned, say.
    pub fn cause_ends(&mut self, number: u64) {
        self.ring.head.deletions.causes.end(number);
    }

    /// What must be durable before slots are released: the greatest cause of a dirty page that was forgotten,
    /// if that is not known to be durable.
    pub fn awaits_dead(&self) -> Option<u64> {
        self.ring.head.deletions.keep_slots()
    }

    /// Everything up to the cause `after` is durable: slots may be released.
    pub fn dead_is_durable(&mut self, after: u64) {
        let Self { contents, ring } = self;
        ring.head.deletions.release_for(after);
        ring.release(contents);
    }
}

//! Confirming a flush. The summary of a flush names the part of the group that it makes durable, and says of
//! the parts before that they are. After a crash a damaged page of these is damage. One of the newest part
//! may also be torn. A confirmation is one more summary, which says so of the newest part, too.

use super::{Log, Ring};
use crate::Position;
use crate::contents::Contents;
use crate::job::{Ticket, WriteJob, WritePages};

impl Log<'_> {
    /// The position up to which the open group is flushed, if no durable summary says that.
    pub fn unconfirmed(&self) -> Option<Position> {
        let (first, at) = self.ring.unconfirmed(&self.contents)?;
        Some(Position(first + u64::from(self.ring.groups[at].flushed)))
    }

    /// A write without pages ([`Partition::next_write`](crate::Partition::next_write)) makes a summary
    /// durable that says how far the group is flushed, if nothing was flushed after `position`.
    pub fn confirm(&mut self, position: Position) {
        self.ring.head.confirm_to = position.0;
    }
}

impl Ring<'_> {
    /// Starts the write of a summary alone, which [confirms](Log::confirm) the newest flush.
    pub(super) fn confirmation(
        &mut self,
        contents: &Contents<'_>,
        pages: &mut WritePages,
    ) -> Option<WriteJob> {
        if self.head.confirm_to <= contents.staging.window.front {
            return None;
        }
        let (first, at) = self.unconfirmed(contents)?;
        let group = &mut self.groups[at];
        if self.head.confirm_to < first + u64::from(group.flushed)
            || group.writing != 0
            || group.flushing != 0
        {
            return None;
        }
        group.flushing = group.flushed;
        pages.clear();
        Some(WriteJob { ticket: Ticket(at as u32), one_io: self.by_group, completes_group: false })
    }

    /// The group of which no durable summary says how far it is flushed: its first position and its number.
    fn unconfirmed(&self, contents: &Contents<'_>) -> Option<(u64, usize)> {
        let staging = &contents.staging;
        let groups = (staging.window.front..staging.window.rear).step_by(self.group_pages as usize);
        groups
            .map(|first| (first, (staging.frame_of(first) / self.group_pages) as usize))
            .find(|(_, at)| self.groups[*at].flushed > self.groups[*at].confirmed)
    }
}

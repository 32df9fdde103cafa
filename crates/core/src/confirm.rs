//! Confirming a flush. The summary of a flush names the part of the group that it makes durable, and says of
//! the parts before that they are. After a crash a damaged page of these is damage. One of the newest part
//! may also be torn. A confirmation is one more summary, which says so of the newest part, too.

use crate::Position;
use crate::partition::{Partition, Place};

impl Partition<'_> {
    /// Log placement: the position up to which the open group is flushed, if no durable summary says that.
    pub fn unconfirmed(&self) -> Option<Position> {
        let Place::Ring(ring) = &self.place else { return None };
        let (first, at) = ring.unconfirmed(&self.contents)?;
        Some(Position(first + u64::from(ring.groups[at].flushed)))
    }

    /// Log placement: a write without pages ([`Partition::next_write`]) makes a summary durable that says how
    /// far the group is flushed, if nothing was flushed after `position`.
    pub fn confirm(&mut self, position: Position) {
        if let Place::Ring(ring) = &mut self.place {
            ring.head.confirm_to = position.0;
        }
    }
}

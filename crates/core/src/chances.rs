//! Pages of a dequeue that return to the rear of the ring (log placement): second chances, and pages that are
//! held.

use crate::job::{Admission, DequeuePage, Ticket};
use crate::partition::{Partition, Place};
use crate::{Lsn, PageId};

impl Partition<'_> {
    /// Whether pages of a dequeue that leave are to be durable on disk before its second chances are
    /// [restaged](Self::restage).
    pub fn leaves_first(&self, ticket: Ticket) -> bool {
        matches!(&self.place, Place::Ring(ring) if ring.is_leaving(ticket))
    }

    /// The destages of a dequeue that [leave first](Self::leaves_first) are durable. The first
    /// [`Partition::restage`] implies this. The caller wakes the tasks that wait for these pages.
    pub fn left(&mut self, ticket: Ticket) {
        if let Place::Ring(ring) = &mut self.place {
            ring.left(ticket);
        }
    }

    /// Gives a page of a dequeue whose fate is a second chance a position at the rear; `lsn` is the page's.
    /// [`Admission::AlreadyThere`]: a newer version has entered in the meantime, and there is nothing to do.
    /// [`Admission::Full`]: there is no room in staging, or it is the turn of an earlier dequeue. Ask again
    /// when a job is complete.
    ///
    /// # Panics
    /// With slot placement, which gives no second chances.
    pub fn restage(&mut self, ticket: Ticket, page: &DequeuePage, lsn: Lsn) -> Admission {
        let Place::Ring(ring) = &mut self.place else { panic!("only a log gives second chances") };
        ring.restage(&mut self.contents, ticket, page.slot, lsn)
    }

    /// A dequeue's second chances were restaged: no positions are held back for it now. May be said twice.
    pub fn restaged(&mut self, ticket: Ticket) {
        if let Place::Ring(ring) = &mut self.place {
            ring.restaged(ticket);
        }
    }

    /// Log placement: versions of `page` that enter from now on do not leave the flash until
    /// [`Partition::let_go`], whatever the policy says: a dequeue gives the newest one a second chance, as
    /// long as a group of the ring is free. A page is held once at a time. False: too many pages are held,
    /// at most [`crate::HOLDS_MAX`] and a quarter of the slots.
    #[must_use]
    pub fn hold(&mut self, page: PageId) -> bool {
        match &mut self.place {
            Place::Ring(ring) => ring.hold(page, self.contents.staging.window.rear),
            Place::Slots(_) => false,
        }
    }

    /// Ends one [`Partition::hold`] of `page`.
    pub fn let_go(&mut self, page: PageId) {
        if let Place::Ring(ring) = &mut self.place {
            ring.let_go(page);
        }
    }
}

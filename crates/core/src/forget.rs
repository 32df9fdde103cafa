//! Forgetting pages that are dead: deleted, cut off, or written elsewhere.
//!
//! Slot placement frees the slots at once, and its directory does not outlive a crash (or is the driver's to
//! change). Log placement needs a record of it on flash ([`crate::placement::ring`], `forget`): the driver
//! takes the records that wait with [`Partition::records`] for each summary that it composes, and reports
//! them with [`Partition::recorded`] when that is durable.

use crate::job::{FORGET_PAGES_MAX, Forget, ForgottenPages, Ticket};
use crate::partition::{Partition, Place};
use crate::slot::DIRTY;
use crate::{PageId, Position};
use std::ops::Range;

impl Partition<'_> {
    /// Forgets the pages from `first` to `last`, at most [`FORGET_PAGES_MAX`]: they are dead, or are about to
    /// be written elsewhere. `after` is the driver's number of what made them dead: no record of it is to be
    /// written, and no slot is released, before that is durable.
    pub fn forget(&mut self, first: PageId, last: PageId, after: u64) -> Forget {
        debug_assert!(last.0 - first.0 < FORGET_PAGES_MAX);
        match &mut self.place {
            Place::Ring(ring) => ring.forget_pages(&mut self.contents, (first, last), after),
            Place::Slots(slots) => {
                // All or nothing: the driver repeats a request that was refused.
                let pages = || (first.0..=last.0).map(PageId);
                if pages().any(|page| slots.is_busy(&self.contents, page)) {
                    return Forget::Full;
                }
                let (mut found, mut dirty) = (0, 0);
                for page in pages() {
                    let directory = &self.contents.pages.directory;
                    let is_dirty = directory.find(page).is_some_and(|at| directory.entry(at).has(DIRTY));
                    dirty += u32::from(is_dirty);
                    found += u32::from(slots.forget(&mut self.contents, page) == Some(true));
                }
                Forget::Done { found, dirty, in_dequeue: false }
            }
        }
    }

    /// Log placement, for ranges longer than [`Partition::forget`] takes: makes the record of it. Gives the
    /// position below which copies are to be forgotten, by [`Partition::forget_entries`] or
    /// [`Partition::forget_below`]. `None`: too many records wait.
    ///
    /// `after` is not durable before they are forgotten: a page that got a second chance between two steps,
    /// when its record was on flash already, would live on.
    ///
    /// # Panics
    /// With slot placement.
    pub fn forget_begin(&mut self, first: PageId, last: PageId, after: u64) -> Option<Position> {
        let Place::Ring(ring) = &mut self.place else { panic!("slots are forgotten page by page") };
        self.contents.decisions.note(!(first.0 << 2 | 2));
        self.contents.decisions.note(last.0);
        ring.record(&self.contents, (first, last), after)
    }

    /// Log placement: forgets the copies below `below` of the pages from `first` to `last` that are in these
    /// entries of the directory, of which there are [`Partition::entries`]. Between two calls the partition
    /// may be used, so the calls must go through the entries in ascending order.
    ///
    /// # Panics
    /// With slot placement, or if there are no such entries.
    pub fn forget_entries(
        &mut self,
        (first, last): (PageId, PageId),
        below: Position,
        after: u64,
        entries: Range<u32>,
    ) -> Forget {
        let Place::Ring(ring) = &mut self.place else { panic!("slots are forgotten page by page") };
        ring.forget_entries(&mut self.contents, (first, last), below, after, entries)
    }

    /// Log placement: as [`Partition::forget_entries`], looking for each page of a part of the range, of at
    /// most [`FORGET_PAGES_MAX`] pages. The parts may come in any order.
    ///
    /// # Panics
    /// With slot placement.
    pub fn forget_below(&mut self, (first, last): (PageId, PageId), below: Position, after: u64) -> Forget {
        debug_assert!(last.0 - first.0 < FORGET_PAGES_MAX);
        let Place::Ring(ring) = &mut self.place else { panic!("slots are forgotten page by page") };
        ring.forget_below(&mut self.contents, (first, last), below, after)
    }

    /// Log placement: drops the copies in these entries of the directory that `is_dead` names. The driver has
    /// a table of what is dead, and sees to it that a crash does not bring them back
    /// ([`Partition::next_dequeue`]). Returns how many were dropped; with slot placement none.
    pub fn drop_dead(&mut self, entries: Range<u32>, is_dead: impl FnMut(PageId, Position) -> bool) -> u32 {
        match &mut self.place {
            Place::Ring(ring) => ring.drop_dead(&mut self.contents, entries, is_dead),
            Place::Slots(_) => 0,
        }
    }

    /// As [`Partition::drop_dead`], of the copies of one page: to be asked before the page enters again.
    pub fn drop_dead_copies(&mut self, page: PageId, is_dead: impl FnMut(PageId, Position) -> bool) -> u32 {
        match &mut self.place {
            Place::Ring(ring) => ring.drop_dead_copies(&mut self.contents, page, is_dead),
            Place::Slots(_) => 0,
        }
    }

    /// Log placement: the entries of the group that is dequeued next. Dead pages that are dropped before the
    /// dequeue begins are not read. The driver's table must be durable before the dequeue is reported done.
    /// With slot placement there are none.
    pub fn next_dequeue(&self) -> Range<u32> {
        match &self.place {
            Place::Ring(ring) => ring.next_dequeue(),
            Place::Slots(_) => 0..0,
        }
    }

    /// Log placement: the dequeues that have begun are of groups before this position. Those of later groups
    /// take no version to disk that is dead or forgotten by now.
    pub fn dequeues_begun(&self) -> Position {
        match &self.place {
            Place::Ring(ring) => ring.dequeues_begun(),
            Place::Slots(_) => Position(0),
        }
    }

    /// Whether an older version of one of these pages may be on its way to disk, but for dequeues that have
    /// begun since [`Partition::dequeues_begun`] was `begun`.
    pub fn is_in_dequeue(&self, first: PageId, last: PageId, begun: Position) -> bool {
        match &self.place {
            Place::Ring(ring) => ring.is_on_its_way(&self.contents, (first, last), begun),
            Place::Slots(_) => false,
        }
    }

    /// Entries of the directory: of slots and of staging frames.
    pub fn entries(&self) -> u32 {
        self.contents.pages.directory.entries.len() as u32
    }

    /// Log placement: the records of forgotten pages that the summary of the write `ticket` is to name,
    /// oldest first, if everything up to `durable` is durable; and the number to
    /// [report](Partition::recorded) when the summary is. The write completes or flushes its group, and is
    /// under way. If an earlier flush of the group recorded some, the driver's summary repeats these.
    pub fn records(&mut self, ticket: Ticket, durable: u64) -> (ForgottenPages, u64) {
        let Place::Ring(ring) = &mut self.place else { return (ForgottenPages::new(), 0) };
        let (records, end) = ring.records(&self.contents, ticket, durable);
        (records.collect(), end)
    }

    /// Records of forgotten pages that are not durable.
    pub fn records_waiting(&self) -> u32 {
        match &self.place {
            Place::Ring(ring) => (ring.head.forgotten_next - ring.head.forgotten_first) as u32,
            Place::Slots(_) => 0,
        }
    }

    /// Whether there is no room for another record: nothing can be forgotten until some are durable.
    pub fn records_are_full(&self) -> bool {
        match &self.place {
            Place::Ring(ring) => ring.records_are_full(),
            Place::Slots(_) => false,
        }
    }

    /// What must be durable before the oldest record that waits is written: its `after`.
    pub fn oldest_record_awaits(&self) -> Option<u64> {
        match &self.place {
            Place::Ring(ring) => ring.oldest_record().map(|record| record.after),
            Place::Slots(_) => None,
        }
    }

    /// Records made ever.
    pub fn records_made(&self) -> u64 {
        match &self.place {
            Place::Ring(ring) => ring.head.forgotten_next,
            Place::Slots(_) => 0,
        }
    }

    /// Of the records made ever, how many are durable.
    pub fn records_durable(&self) -> u64 {
        match &self.place {
            Place::Ring(ring) => ring.head.forgotten_first,
            Place::Slots(_) => 0,
        }
    }

    /// Log placement: the records before number `end` are durable.
    pub fn recorded(&mut self, end: u64) {
        if let Place::Ring(ring) = &mut self.place {
            ring.recorded(end);
        }
    }

    /// Log placement: a restart begins at `front` or after it, since a record is durable that all positions
    /// below are released ([`Partition::window`]).
    pub fn front_is_durable(&mut self, front: Position) {
        if let Place::Ring(ring) = &mut self.place {
            ring.front_is_durable(front);
        }
    }

    /// Log placement: what must be durable before slots are released: the greatest `after` of a dirty page
    /// that was forgotten, if that is not known to be durable.
    pub fn awaits_dead(&self) -> Option<u64> {
        match &self.place {
            Place::Ring(ring) => ring.awaits_dead().then_some(ring.head.dead_after),
            Place::Slots(_) => None,
        }
    }

    /// Log placement: whether a dequeue that has ended waits for [`Partition::awaits_dead`] alone.
    pub fn release_awaits_dead(&self) -> bool {
        match &self.place {
            Place::Ring(ring) => ring.awaits_dead() && ring.may_release(),
            Place::Slots(_) => false,
        }
    }

    /// Log placement: everything up to `after` is durable.
    pub fn dead_is_durable(&mut self, after: u64) {
        if let Place::Ring(ring) = &mut self.place {
            ring.dead_is_durable(&mut self.contents, after);
        }
    }
}

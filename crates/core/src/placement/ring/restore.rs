//! Rebuilding a ring from the entries found on flash (FaCE §4.2): entries are restored in
//! ascending position, and the newest version of a page wins.
//!
//! # Which front
//!
//! The ring on flash ends at the rear, after the newest complete group, and holds at most `slots` positions
//! before it. While all of these slots are intact, recovery need not know which were dequeued. A dequeued
//! page with a newer version is superseded by it here too, and one that was destaged or dropped clean is the
//! same as on disk.
//!
//! A front that is too old is a fault, because of writes under way in the crash:
//!
//! 1. Writes may have destroyed slots just after the rear (in the ring: the oldest positions), in any order.
//! 2. Such a slot held the newest version on flash of a page, which had been destaged.
//! 3. An older version of the page, at a position before it, would be restored and hide the newer copy on
//!    disk.
//!
//! So recovery must begin after the last slot that may have been destroyed. Either of two methods finds it:
//!
//! - Before a slot is overwritten, a front beyond its old position is recorded durably (the engine does so).
//! - Recovery reads the pages at the oldest `staging_pages` positions (no write reaches farther) and begins
//!   after the last one that differs from the directory.
//!
//! Where pages are forgotten, only the first method will do. A forgotten page may have a copy in a slot that
//! is released and intact, and its record is needed only until the recorded front is beyond that slot
//! ([`Log::front_is_durable`]). The same holds where a policy keeps changed pages out: only the disk
//! has them, and an older copy may be in such a slot.
//!
//! Neither loses data. A position is given out only when its slot is released, and slots are released in
//! order, so all pages up to an overwritten slot had been durably destaged or superseded.

use super::{Log, Ring};
use crate::job::Forgotten;
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position, SlotId};

impl Log<'_> {
    /// Begins at `front`, the oldest position that may still be on flash: a multiple of the group size, at
    /// most [`Position::MAX`]. The partition has just been formatted.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn restore_begin(&mut self, front: Position) {
        let Self { contents, ring } = self;
        assert!(front.0.is_multiple_of(ring.group_pages as u64), "front {} is inside a group", front.0);
        assert!(front <= Position::MAX, "front {} is out of range", front.0);
        assert_eq!(contents.staging.window.rear, 0, "the partition that is restored into was used");
        ring.set_released(contents, front.0, (front.0 % u64::from(ring.slots)) as u32);
        ring.head.scan = front.0;
        ring.head.front_durable = front.0;
        contents.staging.begin_at(front);
    }

    /// Restores the page at `position`, which is above all before it and less than `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or was restored before.
    pub fn restore_entry(&mut self, position: Position, page: PageId, dirty: bool) {
        let Self { contents, ring } = self;
        assert_in_ring(ring, position, ring.slots as u64 - 1);
        // The version restored so far, if any, is not the newest.
        if let Some(older) = contents.pages.directory.find(page) {
            ring.supersede(contents, older);
        }
        let directory = &mut contents.pages.directory;
        let slot = ring.slot_of(position.0);
        assert!(!directory.entry(slot).has(HELD), "position {} was restored before", position.0);
        directory.restore(slot, page, HELD | if dirty { DIRTY } else { 0 });
    }

    /// The checksum of the page that was [restored](Log::restore_entry) at `position` is `proof`. It is
    /// kept if the configuration says so.
    ///
    /// # Panics
    /// If the position is outside the ring.
    pub fn restore_proof(&mut self, position: Position, proof: u32) {
        let Self { contents, ring } = self;
        assert_in_ring(ring, position, ring.slots as u64 - 1);
        contents.pages.directory.set_proof(ring.slot_of(position.0), proof);
    }

    /// The disk durably has the page that was restored at `position`, the newest version of its page.
    ///
    /// # Panics
    /// If no dirty page that counts was restored there.
    pub fn restored_clean_at(&mut self, position: Position) {
        let slot = self.ring.slot_of(position.0);
        let directory = &mut self.contents.pages.directory;
        let entry = directory.entry(slot);
        assert!(entry.has(VALID) && entry.has(DIRTY), "position {} has no dirty page", position.0);
        directory.is_clean_now(slot);
    }

    /// The disk durably has every page that was restored: none is dirty.
    pub fn restored_clean(&mut self) {
        self.contents.pages.directory.are_clean_now();
    }

    /// Pages were forgotten: their copies among the entries so far that are below the record's position are
    /// stale.
    pub fn restore_forget(&mut self, record: &Forgotten) {
        let Self { contents, ring } = self;
        let Forgotten { first, last, below, .. } = *record;
        let slots = contents.pages.directory.slots;
        if last.0 - first.0 < slots as u64 {
            for page in (first.0..=last.0).map(PageId) {
                ring.forget_page(contents, page, below.0);
            }
            return;
        }
        for slot in 0..slots {
            let entry = contents.pages.directory.entry(slot);
            let is_wanted = entry.has(VALID) && (first..=last).contains(&entry.page());
            if is_wanted && ring.is_below(contents, slot, below.0) {
                ring.forget_entry(contents, slot);
            }
        }
    }

    /// All restored pages have been copied to disk.
    pub fn restore_all_clean(&mut self) {
        self.contents.pages.directory.are_clean_now();
    }

    /// Ends at `rear`, the next position to give out: a multiple of the group size, above all entries and at
    /// most `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or inside a group.
    pub fn restore_end(&mut self, rear: Position) {
        let Self { contents, ring } = self;
        assert!(rear.0.is_multiple_of(ring.group_pages as u64), "rear {} is inside a group", rear.0);
        assert_in_ring(ring, rear, ring.slots as u64);
        contents.staging.begin_at(rear);
    }

    /// As [`Partition::take_over`](crate::Partition::take_over).
    pub(crate) fn take_over(&mut self, old: &Log<'_>) {
        let (front, rear) = (old.ring.head.released, old.contents.staging.window.rear);
        self.restore_begin(Position(front));
        self.contents.pages.directory.bases.take_over(&old.contents.pages.directory.bases);
        for position in (front..rear).map(Position) {
            let slot = SlotId((position.0 % u64::from(self.ring.slots)) as u32);
            if let Some(view) = old.slot(slot).filter(|view| view.valid) {
                self.restore_entry(position, view.page, view.dirty);
                self.restore_proof(position, view.proof);
                if let Some(base) = old.base(slot) {
                    self.restore_base(position, base);
                }
            }
        }
        self.restore_end(Position(rear));
    }
}

fn assert_in_ring(ring: &Ring<'_>, position: Position, last: u64) {
    let front = ring.head.released;
    let inside = position.0 >= front && position.0 - front <= last;
    assert!(inside, "position {} is not in the ring of {} that begins at {front}", position.0, ring.slots);
}

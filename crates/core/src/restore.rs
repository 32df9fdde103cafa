//! Rebuilding a log-placed partition from what was found on flash (FaCE §4.2): entries in ascending position,
//! the newest version of a page wins.
//!
//! # Which front
//!
//! The ring on flash ends at the rear, after the newest complete group, and holds at most `slots` positions
//! before it. Which of these were dequeued already need not be known as long as all are intact: a dequeued
//! page that has a newer version is superseded by it here too, and one that was destaged or dropped clean is
//! the same as on disk.
//!
//! But writes that were under way in the crash may have destroyed slots just behind the rear (in the ring:
//! the oldest positions), in any order. If such a slot held the newest version on flash of a page, an older
//! one before it would come back and hide the newer copy on disk. So recovery must begin after the last slot
//! that may have been destroyed. There are two ways to know it, and either will do:
//!
//! - before a slot is overwritten, a front beyond its old position is recorded durably (the engine does so);
//! - recovery reads the pages at the oldest `staging_pages` positions (no write reaches farther) and begins
//!   after the last one that does not hold what the directory says.
//!
//! Nothing is lost by either: a position is given out only when its slot is released, and slots are released
//! in order, so everything up to an overwritten slot had been destaged or superseded durably.

use crate::contents::Contents;
use crate::pages::Pages;
use crate::partition::{Partition, Place};
use crate::placement::{Ring, SlotTable};
use crate::policy::ONLY_LIST;
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position, SlotId};

/// Drivers let the positions of an open begin at a multiple of this power of two.
const POSITIONS_OF_AN_OPEN_BITS: u32 = 36;

impl<'r> Partition<'r> {
    fn ring(&mut self) -> (&mut Ring<'r>, &mut Contents<'r>) {
        let Place::Ring(ring) = &mut self.place else { panic!("only a log is restored by position") };
        (ring, &mut self.contents)
    }

    fn slot_table(&mut self) -> (&mut SlotTable<'r>, &mut Contents<'r>) {
        let Place::Slots(slots) = &mut self.place else { panic!("a log is restored by position") };
        (slots, &mut self.contents)
    }

    /// Begins at `front`, the oldest position that may still be on flash: a multiple of the group size, at
    /// most [`Position::MAX`]. The partition has just been formatted.
    ///
    /// # Panics
    /// If one of these does not hold, or the policy has no log placement.
    pub fn restore_begin(&mut self, front: Position) {
        let (ring, contents) = self.ring();
        assert!(front.0.is_multiple_of(ring.group_pages as u64), "front {} is inside a group", front.0);
        assert!(front <= Position::MAX, "front {} is out of range", front.0);
        assert_eq!(contents.staging.window.rear, 0, "the partition that is restored into was used");
        ring.begin_at(front);
        contents.staging.begin_at(front);
    }

    /// The page at `position`, which is above all before it and less than `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or was restored before.
    pub fn restore_entry(&mut self, position: Position, page: PageId, dirty: bool) {
        let (ring, contents) = self.ring();
        assert_in_ring(ring, position, ring.slots as u64 - 1);
        if !crate::mutant!("older-version-restored-too") {
            ring.restore_invalidate(contents, page);
        }
        let directory = &mut contents.pages.directory;
        let slot = ring.slot_of(position.0);
        assert!(!directory.entry(slot).has(HELD), "position {} was restored before", position.0);
        let dirty = dirty && !crate::mutant!("dirty-forgotten-in-restore");
        directory.restore(slot, page, HELD | if dirty { DIRTY } else { 0 });
    }

    /// `page` was written elsewhere after the entries so far: its copy on flash, if there is one, is stale.
    pub fn restore_invalidate(&mut self, page: PageId) {
        let (ring, contents) = self.ring();
        ring.restore_invalidate(contents, page);
    }

    /// All that was restored has been copied to disk.
    pub fn restore_all_clean(&mut self) {
        let directory = &mut self.contents.pages.directory;
        directory.entries.iter_mut().for_each(|slot| slot.lower(DIRTY));
        directory.counts.dirty = 0;
    }

    /// Ends at `rear`, the position that the next page gets: a multiple of the group size, above all entries
    /// and at most `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or inside a group.
    pub fn restore_end(&mut self, rear: Position) {
        let (ring, contents) = self.ring();
        assert!(rear.0.is_multiple_of(ring.group_pages as u64), "rear {} is inside a group", rear.0);
        assert_in_ring(ring, rear, ring.slots as u64);
        contents.staging.begin_at(rear);
    }

    /// Slot placement: begins to fill a partition that has just been formatted with what lies in its slots.
    /// `rear` is the position that the next page gets: a multiple of the group size, above those of all
    /// entries.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn restore_slots_begin(&mut self, rear: Position) {
        let (_, Contents { staging, pages, .. }) = self.slot_table();
        assert!(rear.0.is_multiple_of(staging.group_pages as u64), "rear {} is inside a group", rear.0);
        assert!(rear <= Position::MAX, "rear {} is out of range", rear.0);
        let used = (staging.window.rear, pages.directory.counts.valid);
        assert_eq!(used, (0, 0), "the partition that is restored into was used");
        staging.begin_at(rear);
        // Until it is said what an earlier open has left in a slot, it does not count from where it may have
        // then.
        let first = (rear.0 >> POSITIONS_OF_AN_OPEN_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        (0..pages.directory.slots).for_each(|slot| pages.lists.set_generation_byte(slot, first as u8));
    }

    /// The version last written to `slot`, which is empty, was stamped with `position`: its writes are
    /// counted from there.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn restore_empty_slot(&mut self, slot: SlotId, position: Position) {
        self.assert_slot(slot);
        self.contents.pages.lists.set_generation_byte(slot.0, position.0 as u8);
    }

    /// `page`, in the version whose stamp is `position`, lies in `slot`. Entries come in the order in which
    /// the policy would have them leave. False, and nothing is done, if the slot does not exist or is taken,
    /// if the page is there already, or if it may not lie in this slot: then the directory that says so is
    /// not to be trusted.
    pub fn restore_slot(&mut self, slot: SlotId, page: PageId, dirty: bool, position: Position) -> bool {
        let (slots, contents) = self.slot_table();
        let (directory, sets) = (&contents.pages.directory, contents.pages.sets);
        let possible = slot.0 < directory.slots
            && !directory.entry(slot.0).has(VALID)
            && directory.find(page).is_none()
            && (!slots.in_sets || sets.of_page(page) == sets.of_slot(slot.0));
        if possible {
            slots.occupy(contents, slot.0, page, dirty);
            contents.pages.lists.set_generation_byte(slot.0, position.0 as u8);
        }
        possible
    }

    /// All slots that were not named are free.
    pub fn restore_slots_end(&mut self) {
        let (slots, contents) = self.slot_table();
        slots.rebuild_free(&mut contents.pages);
    }

    /// Slot placement, for policies with one list: the occupied slots with their pages, in the order in which
    /// these would leave, as [`Partition::restore_slot`] wants them.
    ///
    /// # Panics
    /// If the policy's pages do not stand in one list.
    pub fn slots_in_order(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        assert_eq!(self.config().lists(), 1, "the policy has no order of all its pages");
        let Pages { directory, lists, .. } = &self.contents.pages;
        let mut at = lists.next_of(lists.head(ONLY_LIST));
        std::iter::from_fn(move || {
            let slot = lists.slot(at)?;
            at = lists.next_of(slot);
            Some((SlotId(slot), directory.entry(slot).page()))
        })
    }

    /// Slot placement: which of the writes to `slot` was the last.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot_generation(&self, slot: SlotId) -> u8 {
        self.assert_slot(slot);
        self.contents.pages.lists.generation_byte(slot.0)
    }

    fn assert_slot(&self, slot: SlotId) {
        let slots = self.contents.pages.directory.slots;
        assert!(slot.0 < slots, "the cache has {slots} slots, and no {}", slot.0);
    }

    /// Pages newer than disk, with their slots, in slot order.
    pub fn dirty_slots(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        let slots = self.contents.pages.directory.of_slots().iter().zip(0..);
        let dirty = slots.filter(|(entry, _)| entry.has(VALID) && entry.has(DIRTY));
        dirty.map(|(entry, slot)| (SlotId(slot), entry.page()))
    }
}

fn assert_in_ring(ring: &Ring<'_>, position: Position, last: u64) {
    let front = ring.head.released;
    let inside = position.0 >= front && position.0 - front <= last;
    assert!(inside, "position {} is not in the ring of {} that begins at {front}", position.0, ring.slots);
}

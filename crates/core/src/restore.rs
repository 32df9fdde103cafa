//! Rebuilding a log-placed partition from what was found on flash (FaCE §4.2): entries in ascending position, the
//! newest version of a page wins.
//!
//! # Which front
//!
//! The ring on flash ends at the rear, after the newest complete group, and holds at most `slots` positions before it.
//! Which of these were dequeued already need not be known as long as all are intact: a dequeued page that has a newer
//! version is superseded by it here too, and one that was destaged or dropped clean is the same as on disk.
//!
//! But writes that were under way in the crash may have destroyed slots just behind the rear (in the ring: the oldest
//! positions), in any order. If such a slot held the newest version on flash of a page, an older one before it would
//! come back and hide the newer copy on disk. So recovery must begin after the last slot that may have been destroyed.
//! There are two ways to know it, and either will do:
//!
//! - before a slot is overwritten, a front beyond its old position is recorded durably (the engine does so);
//! - recovery reads the pages at the oldest `staging_pages` positions (no write reaches farther) and begins after the
//!   last one that does not hold what the directory says.
//!
//! Nothing is lost by either: a position is given out only when its slot is released, and slots are released in order,
//! so everything up to an overwritten slot had been destaged or superseded durably.

use crate::policy::Placement;
use crate::region::Partition;
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position, SlotId};

/// Drivers let the positions of an open begin at a multiple of this power of two.
const POSITIONS_OF_AN_OPEN_BITS: u32 = 36;

impl Partition<'_> {
    /// Begins at `front`, the oldest position that may still be on flash: a multiple of the group size, at most
    /// [`Position::MAX`]. The partition has just been formatted.
    ///
    /// # Panics
    /// If one of these does not hold, or the policy has no log placement.
    pub fn restore_begin(&mut self, front: Position) {
        assert_eq!(self.placement, Placement::Log, "only a log-placed directory survives a crash");
        assert!(front.0.is_multiple_of(self.head.group_pages as u64), "front {} is inside a group", front.0);
        assert!(front <= Position::MAX, "front {} is out of range", front.0);
        assert_eq!(self.head.rear, 0, "the partition that is restored into was used");
        self.head.rear = front.0;
        self.head.released = front.0;
        self.head.released_slot = (front.0 % self.head.slots as u64) as u32;
        self.head.scan = front.0;
        self.restore_staging(front);
    }

    fn restore_staging(&mut self, front: Position) {
        self.head.staged_front = front.0;
        self.head.front_frame = (front.0 % self.staging_pages()) as u32;
    }

    fn assert_in_ring(&self, position: Position, last: u64) {
        let front = self.head.released;
        let inside = position.0 >= front && position.0 - front <= last;
        assert!(
            inside,
            "position {} is not in the ring of {} that begins at {front}",
            position.0, self.head.slots
        );
    }

    /// The page at `position`, which is above all before it and less than `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or was restored before.
    pub fn restore_entry(&mut self, position: Position, page: PageId, dirty: bool) {
        self.assert_in_ring(position, self.head.slots as u64 - 1);
        if !crate::mutant!("older-version-restored-too") {
            self.restore_invalidate(page);
        }
        let slot = self.slot_of(position.0);
        assert!(!self.slots[slot as usize].has(HELD), "position {} was restored before", position.0);
        let dirty = dirty && !crate::mutant!("dirty-forgotten-in-restore");
        self.slots[slot as usize].set(page, HELD | VALID | if dirty { DIRTY } else { 0 });
        self.link(slot);
        self.head.valid += 1;
        self.head.dirty += u32::from(dirty);
    }

    /// `page` was written elsewhere after the entries so far: its copy on flash, if there is one, is stale.
    pub fn restore_invalidate(&mut self, page: PageId) {
        if let Some(slot) = self.find(page) {
            self.unlink(slot);
            self.head.valid -= 1;
            self.head.dirty -= u32::from(self.slots[slot as usize].has(DIRTY));
            self.head.superseded += 1;
            self.slots[slot as usize].lower(VALID);
        }
    }

    /// All that was restored has been copied to disk.
    pub fn restore_all_clean(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.lower(DIRTY));
        self.head.dirty = 0;
    }

    /// Ends at `rear`, the position that the next page gets: a multiple of the group size, above all entries and at most
    /// `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or inside a group.
    pub fn restore_end(&mut self, rear: Position) {
        assert!(rear.0.is_multiple_of(self.head.group_pages as u64), "rear {} is inside a group", rear.0);
        self.assert_in_ring(rear, self.head.slots as u64);
        self.head.rear = rear.0;
        self.restore_staging(rear);
    }

    /// Slot placement: begins to fill a partition that has just been formatted with what lies in its slots. `rear` is the
    /// position that the next page gets: a multiple of the group size, above those of all entries.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn restore_slots_begin(&mut self, rear: Position) {
        assert_eq!(self.placement, Placement::Slots, "a log is restored by position");
        assert!(rear.0.is_multiple_of(self.head.group_pages as u64), "rear {} is inside a group", rear.0);
        assert!(rear <= Position::MAX, "rear {} is out of range", rear.0);
        assert_eq!((self.head.rear, self.head.valid), (0, 0), "the partition that is restored into was used");
        self.head.rear = rear.0;
        self.restore_staging(rear);
        // Until it is said what an earlier open has left in a slot, it does not count from where it may have then.
        let first = (rear.0 >> POSITIONS_OF_AN_OPEN_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        (0..self.head.slots).for_each(|slot| self.set_generation_byte(slot, first as u8));
    }

    /// The version last written to `slot`, which is empty, was stamped with `position`: its writes are counted from there.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn restore_empty_slot(&mut self, slot: SlotId, position: Position) {
        assert!(slot.0 < self.head.slots, "the cache has {} slots, and no {}", self.head.slots, slot.0);
        self.set_generation_byte(slot.0, position.0 as u8);
    }

    /// `page`, in the version whose stamp is `position`, lies in `slot`. Entries come in the order in which the policy would have them
    /// leave. False, and nothing is done, if the slot does not exist or is taken, if the page is there already, or if it
    /// may not lie in this slot: then the directory that says so is not to be trusted.
    pub fn restore_slot(&mut self, slot: SlotId, page: PageId, dirty: bool, position: Position) -> bool {
        let possible = slot.0 < self.head.slots
            && !self.slots[slot.0 as usize].has(VALID)
            && self.find(page).is_none()
            && (!self.policy.in_sets() || self.set_of_page(page) == self.set_of_slot(slot.0));
        if possible {
            self.occupy(slot.0, page, dirty);
            self.set_generation_byte(slot.0, position.0 as u8);
        }
        possible
    }

    /// All slots that were not named are free.
    pub fn restore_slots_end(&mut self) {
        self.rebuild_free();
    }

    /// Slot placement, for policies with one list: the occupied slots with their pages, in the order in which these would leave, as
    /// [`Partition::restore_slot`] wants them.
    ///
    /// # Panics
    /// If the policy's pages do not stand in one list.
    pub fn slots_in_order(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        assert_eq!(self.config().lists(), 1, "the policy has no order of all its pages");
        let node = self.list_node(crate::policy::ONLY_LIST);
        let mut at = self.next_of(node);
        std::iter::from_fn(move || {
            let slot = (at != node).then_some(at)?;
            at = self.next_of(slot);
            Some((SlotId(slot), self.slots[slot as usize].page()))
        })
    }

    /// Slot placement: which of the writes to `slot` was the last.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot_generation(&self, slot: SlotId) -> u8 {
        assert!(slot.0 < self.head.slots, "the cache has {} slots, and no {}", self.head.slots, slot.0);
        self.generation_byte(slot.0)
    }

    /// Pages newer than disk, with their slots, in slot order.
    pub fn dirty_slots(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        let slots = self.head.slots;
        (0..slots).filter_map(move |slot| {
            let entry = &self.slots[slot as usize];
            (entry.has(VALID) && entry.has(DIRTY)).then(|| (SlotId(slot), entry.page()))
        })
    }
}

//! Rebuilding a log-placed partition from what was found on flash (FaCE §4.2): entries in ascending position, the
//! newest version of a page wins.

use crate::region::Partition;
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position, SlotId};

impl Partition<'_> {
    /// Begins at `front`, the oldest position that may still be on flash: a multiple of the group size. The partition
    /// is empty.
    pub fn restore_begin(&mut self, front: Position) {
        debug_assert!(front.0.is_multiple_of(self.head.group_pages as u64));
        self.head.rear = front.0;
        self.head.released = front.0;
        self.head.released_slot = self.slot_of(front.0);
        self.head.scan = front.0;
        self.head.staged_front = front.0;
    }

    /// The page at `position`, which is at or above all before it.
    pub fn restore_entry(&mut self, position: Position, page: PageId, dirty: bool) {
        self.restore_invalidate(page);
        let slot = self.slot_of(position.0);
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

    /// Ends at `rear`, the position that the next page gets: a multiple of the group size.
    pub fn restore_end(&mut self, rear: Position) {
        debug_assert!(rear.0.is_multiple_of(self.head.group_pages as u64));
        self.head.rear = rear.0;
        self.head.staged_front = rear.0;
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

//! The division of the slots into sets (set-associative placement). A page is placed only in the set that its
//! number gives.

use crate::PageId;
use crate::hash::bucket_of;

/// Sets of consecutive slots.
#[derive(Clone, Copy)]
pub(crate) struct Sets {
    /// Slots in all sets.
    slots: u32,
    /// Slots of a set. The last set also has the remaining slots.
    set_slots: u32,
}

impl Sets {
    /// `slots` slots in sets of `set_slots`.
    pub(crate) const fn new(slots: u32, set_slots: u32) -> Self {
        Self { slots, set_slots }
    }

    /// How many sets there are.
    pub(crate) const fn count(&self) -> u32 {
        if self.slots < self.set_slots { 1 } else { self.slots / self.set_slots }
    }

    /// The set of `slot`, which is also the number of the list of its pages.
    pub(crate) fn of_slot(&self, slot: u32) -> u32 {
        (slot / self.set_slots).min(self.count() - 1)
    }

    /// The set of `page`. Runs of consecutive pages as long as a set share one.
    pub(crate) fn of_page(&self, page: PageId) -> u32 {
        bucket_of(page.0 / self.set_slots as u64, self.count() as usize) as u32
    }

    /// The list of the free slots of `set`.
    pub(crate) fn free_list(&self, set: u32) -> u32 {
        self.count() + set
    }
}

//! Fetches noted for later, so that a hit does not change lists: these are changed for a whole batch before anything is
//! decided by them (Ding et al.: BP-Wrapper, ICDE 2009). A hit touches fewer cache lines of the lists' nodes, and the nodes
//! of a batch are fetched from memory at once. No decision changes.
//!
//! Invariant: a slot in the batch holds the page that was fetched; the policy empties the batch before a slot changes hands
//! and before it decides anything by its lists.

use crate::region::Partition;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Fetches in a batch: enough for the memory to work on many at once, few enough that the batch is short.
const BATCH: usize = 64;

/// A batch of fetched slots, in order; a slot may be in it more than once.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Hits {
    slots: [u32; BATCH],
    count: u32,
    /// Keeps the header a multiple of 8 bytes long.
    reserved: u32,
}

impl Hits {
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots[..self.count as usize]
    }
}

impl Partition<'_> {
    /// Notes a fetch of `slot`. True if the batch is full now.
    #[inline]
    pub(crate) fn defer_hit(&mut self, slot: u32) -> bool {
        let hits = &mut self.head.hits;
        hits.slots[hits.count as usize] = slot;
        hits.count += 1;
        hits.count as usize == BATCH
    }

    /// Empties the batch: does `each` with its slots, in order. `list_of` guesses the list that a slot goes to.
    #[inline]
    pub(crate) fn catch_up_with(
        &mut self,
        list_of: impl Fn(&Self, u32) -> u32,
        mut each: impl FnMut(&mut Self, u32),
    ) {
        if self.head.hits.count == 0 {
            return;
        }
        let batch = self.head.hits;
        self.head.hits.count = 0;
        self.touch_nodes(batch.slots(), list_of);
        for slot in batch.slots() {
            each(self, *slot);
        }
    }
}

//! Batched fetches: a hit is noted, and the lists are changed for a whole batch, before the policy next
//! decides by its lists (Ding et al.: BP-Wrapper, ICDE 2009). A hit then touches fewer cache lines of the
//! lists' nodes, and the nodes of a batch are loaded from memory together. Decisions are the same as without
//! batches.
//!
//! Invariant: a slot in the batch holds the page that was fetched. The policy empties the batch before a slot
//! changes its page and before each decision by its lists.

use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Fetches in a batch: enough for the memory to load many nodes at once, few enough for a short batch.
const BATCH: usize = 64;

/// A batch of fetched slots, in order. A slot may be in it more than once.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Hits {
    slots: [u32; BATCH],
    count: u32,
}

impl Hits {
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots[..self.count as usize]
    }

    /// The batch is not full: a full one is emptied at once.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        same(|| "the batch of fetches is not full", true, (self.count as usize) < BATCH)
    }

    /// Notes a fetch of `slot`. True if the batch is full now.
    #[inline]
    pub(crate) fn defer(&mut self, slot: u32) -> bool {
        self.slots[self.count as usize] = slot;
        self.count += 1;
        self.count as usize == BATCH
    }

    /// The page of `old` is in `new` now.
    pub(crate) fn replace(&mut self, old: u32, new: u32) {
        let slots = &mut self.slots[..self.count as usize];
        slots.iter_mut().filter(|slot| **slot == old).for_each(|slot| *slot = new);
    }

    /// Empties the batch. `None`: the batch was empty.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Hits> {
        if self.count == 0 {
            return None;
        }
        let batch = *self;
        self.count = 0;
        Some(batch)
    }
}

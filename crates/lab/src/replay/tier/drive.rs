//! The drive's own translation layer: a page map with greedy garbage collection, 64 pages a block (RW §4.1).
//! The cache fills the whole drive, which has the spare space of a consumer drive (2^30 against 10^9 bytes).
//!
//! Invariant: the model only counts. It makes no decision of the cache, and the device's model has the times.

use super::Totals;
use entresol_core::SlotId;
use entresol_ftl::{Counters, FreeOrder, Ftl, Lpn, PageMap};

const BLOCK_PAGES: u32 = 64;
const SPARE: f64 = 0.07;

/// The erase blocks of a drive, and the counts of its garbage collection.
pub(super) struct Drive {
    map: PageMap,
    /// The counts at the beginning of the measurement.
    before: Counters,
}

impl Drive {
    /// An empty drive of `slots` pages.
    pub(super) fn new(slots: u32) -> Self {
        let map = PageMap::new(slots, BLOCK_PAGES, SPARE, FreeOrder::LeastWorn);
        Self { map, before: Counters::default() }
    }

    /// Counts the write of a page to `slot`.
    pub(super) fn write(&mut self, slot: SlotId) {
        self.map.write(Lpn(slot.0));
    }

    pub(super) fn begin_measurement(&mut self) {
        self.before = self.map.counters();
    }

    /// `totals`, with the copies and collections since the beginning of the measurement.
    pub(super) fn complete(&self, totals: Totals) -> Totals {
        let now = self.map.counters();
        Totals {
            copied: Some(now.copies - self.before.copies),
            collections: Some(now.collections - self.before.collections),
            ..totals
        }
    }
}

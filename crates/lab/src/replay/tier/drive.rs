//! The drive's own translation layer: a page map with greedy garbage collection, 64 pages a block (RW §4.1),
//! of a drive that the cache fills, with the spare space of a consumer drive (2^30 against 10^9 bytes).
//!
//! Invariant: it counts and decides nothing; times come from the device.

use super::Totals;
use entresol_core::SlotId;
use entresol_ftl::{Counters, FreeOrder, Ftl, Lpn, PageMap};

const BLOCK_PAGES: u32 = 64;
const SPARE: f64 = 0.07;

/// What a drive does with its erase blocks.
pub(super) struct Drive {
    map: PageMap,
    /// What it had counted when the measurement began.
    before: Counters,
}

impl Drive {
    /// An empty drive of so many slots.
    pub(super) fn new(slots: u32) -> Self {
        let map = PageMap::new(slots, BLOCK_PAGES, SPARE, FreeOrder::LeastWorn);
        Self { map, before: Counters::default() }
    }

    /// A page is written to `slot`.
    pub(super) fn write(&mut self, slot: SlotId) {
        self.map.write(Lpn(slot.0));
    }

    pub(super) fn begin_measurement(&mut self) {
        self.before = self.map.counters();
    }

    /// `totals` with what the drive did.
    pub(super) fn complete(&self, totals: Totals) -> Totals {
        let now = self.map.counters();
        Totals {
            copied: Some(now.copies - self.before.copies),
            collections: Some(now.collections - self.before.collections),
            ..totals
        }
    }
}

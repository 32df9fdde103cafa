//! The slot directory on flash: its entry for each slot, for fetches (TAC; see `tier::slots::upkeep`).

use entresol_core::{PageId, Position, SlotId};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// No page.
const NOBODY: u64 = u64::MAX;

/// By slot: the page whose entry may be valid on flash, and the position of the version that it is, or was,
/// valid for.
pub(crate) struct Listed(Vec<(AtomicU64, AtomicU64)>);

impl Listed {
    pub(crate) fn new(entries: impl Iterator<Item = Option<(PageId, Position)>>) -> Self {
        let word = |entry: Option<(PageId, Position)>| match entry {
            Some((page, position)) => (AtomicU64::new(page.0), AtomicU64::new(position.0)),
            None => (AtomicU64::new(NOBODY), AtomicU64::new(0)),
        };
        Self(entries.map(word).collect())
    }

    /// The page whose entry may be valid on flash.
    pub(crate) fn page(&self, slot: SlotId) -> Option<PageId> {
        Some(PageId(self.0[slot.0 as usize].0.load(SeqCst))).filter(|page| page.0 != NOBODY)
    }

    /// The entry of `slot` is going to be valid for this version.
    pub(crate) fn set(&self, slot: SlotId, page: PageId, position: Position) {
        let (listed, at) = &self.0[slot.0 as usize];
        at.store(position.0, SeqCst);
        listed.store(page.0, SeqCst);
    }

    /// The entry of `slot` is invalid on flash.
    pub(crate) fn clear(&self, slot: SlotId) {
        self.0[slot.0 as usize].0.store(NOBODY, SeqCst);
    }

    /// Whether the version of `page` that entered at `position` may be the content of `slot`.
    pub(crate) fn admits(&self, slot: SlotId, page: PageId, position: Position) -> bool {
        self.page(slot) != Some(page) || self.0[slot.0 as usize].1.load(SeqCst) == position.0
    }
}

//! The sizes of the parts of a partition: its configuration without its policy.

use crate::sets::Sets;

/// Most pages of a group.
pub const GROUP_PAGES_MAX: usize = 128;
/// Dequeues that may be under way at once, usually.
pub const DEQUEUES_USUAL: u32 = 8;
/// Most dequeues that may be under way at once.
pub const DEQUEUES_MAX: u32 = 32;
/// Most groups that staging holds.
pub const STAGING_GROUPS_MAX: u32 = 64;

/// Most slots that are kept free ahead of demand, where a slot is free as soon as it is emptied.
const FREE_AHEAD_MAX: u32 = 32;

/// How large a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Slots on flash.
    pub slots: u32,
    /// Pages of a group.
    pub group_pages: u32,
    /// Groups that staging holds.
    pub staging_groups: u32,
    /// A cleaner works while more than this many per mille of the slots are dirty.
    pub dirty_permille_max: u32,
    /// Evicted pages that are remembered.
    pub history: u32,
    /// Slots of a set.
    pub set_slots: u32,
    /// A checksum is kept for each entry.
    pub proofs: bool,
    /// The disk may refuse pages.
    pub refusals: bool,
    /// Dequeues that may be under way at once.
    pub dequeues: u32,
    /// Slots survive a crash.
    pub keeps_slots: bool,
    /// A base is kept for each dirty page.
    pub bases: bool,
    /// Entries have reference bits.
    pub references: bool,
    /// Hits need no latch.
    pub unlatched: bool,
}

impl Sizes {
    /// Pages that staging holds.
    pub(crate) const fn staging_pages(&self) -> u32 {
        self.group_pages.saturating_mul(self.staging_groups)
    }

    /// Entries of the directory: one for each slot and one for each staging frame.
    pub(crate) const fn entries(&self) -> u32 {
        self.slots + self.staging_pages()
    }

    /// Slots that are kept free ahead of demand, at most.
    pub(crate) const fn free_ahead_max(&self) -> u32 {
        // Two batches are under way while a third one is filled.
        if self.keeps_slots { 3 * self.group_pages } else { FREE_AHEAD_MAX }
    }

    /// Checksums that are kept.
    pub(crate) const fn proofs(&self) -> u32 {
        if self.proofs { self.entries() } else { 0 }
    }

    /// The division of the slots into sets.
    pub(crate) const fn sets(&self) -> Sets {
        Sets::new(self.slots, self.set_slots)
    }
}

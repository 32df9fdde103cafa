//! The words that all fronts and the back share. All of them may be read and changed at any time, by anybody;
//! a board of zeros is that of a cache that runs.

use crate::metrics::Tallies;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Counters of the order of pages.
pub(crate) const ORDER_PLACES: usize = 4096;

/// See the module's header.
#[repr(C)]
pub(crate) struct Board {
    /// How the cache is: a [`super::State`].
    pub(super) state: AtomicU32,
    /// Database checkpoints under way.
    pub checkpoints: AtomicU32,
    /// Evictors that wait for room.
    pub waiting: AtomicU32,
    /// Number of the last disk write that a caller made.
    pub disk_owed: AtomicU64,
    /// Of the pages written to disk, how many are known to be durable there.
    pub disk_synced: AtomicU64,
    pub tallies: Tallies,
    /// See [`super::PageOrder`].
    pub(super) order: [AtomicU32; ORDER_PLACES],
    pub(super) writing: [AtomicU32; ORDER_PLACES],
}

impl Default for Board {
    fn default() -> Self {
        Self {
            state: AtomicU32::default(),
            checkpoints: AtomicU32::default(),
            waiting: AtomicU32::default(),
            disk_owed: AtomicU64::default(),
            disk_synced: AtomicU64::default(),
            tallies: Tallies::default(),
            order: [const { AtomicU32::new(0) }; ORDER_PLACES],
            writing: [const { AtomicU32::new(0) }; ORDER_PLACES],
        }
    }
}

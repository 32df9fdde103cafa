//! Watching which pages a store references: for recording traces.
//!
//! Invariant: a watcher is told of each access that [`StoreMetrics::fixes`](crate::StoreMetrics) counts,
//! once.

use entresol_core::PageId;

/// Told of every page access of a store. Called with pool locks free but often under a page latch: it must be
/// quick and must not wait.
pub trait PageWatcher: Send + Sync + std::fmt::Debug {
    /// A page was fixed in the buffer pool.
    fn fixed(&self, page: PageId);

    /// A page was changed, for the first time since it was latched.
    fn changed(&self, page: PageId);
}

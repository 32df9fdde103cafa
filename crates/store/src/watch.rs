//! Watchers of a store's page references, to record traces.
//!
//! Invariant: a watcher is notified exactly once of each access that
//! [`StoreMetrics::fixes`](crate::StoreMetrics) counts.

use entresol_core::PageId;

/// Notified of every page access of a store. It is called without pool locks but often under a page latch: it
/// must be quick and must not wait.
pub trait PageWatcher: Send + Sync + std::fmt::Debug {
    /// A page was fixed in the buffer pool.
    fn fixed(&self, page: PageId);

    /// A page was changed, for the first time since it was latched.
    fn changed(&self, page: PageId);
}

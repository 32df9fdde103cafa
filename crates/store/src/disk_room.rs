//! Room on the disk: the part for clients, and the reserve for their rollbacks.
//!
//! A transaction that finds no room gets [`StoreError::DiskFull`] before its commit. All other work
//! continues: reads, commits of other transactions, changes in place, deletions, rollbacks, checkpoints.
//!
//! A rollback may need pages: when it restores a deleted row, the leaf may be full of other rows and must be
//! split.
//!
//! Rules:
//!
//! 1. Clients grow the store (insert a row, make one longer, split, create or load a table) only while `free
//!    >= KEPT + need`. `free` is the number of pages that can be allocated after the growth. `need` is the
//!    number of pages that rollbacks of the active transactions may take ([`crate::undo`]).
//! 2. Deletions and changes in place are always allowed. A page emptied by a deletion is freed, but by rule 1
//!    no other transaction gets it while this transaction may need it back.
//! 3. Rollbacks and restarts may allocate every free page.
//!
//! Why a rollback always finds its pages:
//!
//! 1. Consider the last moment at which a client grew the store. At that moment `free >= KEPT + need`. So
//!    each leaf from which rows were deleted can be split once for them, and the new pages for that are free,
//!    too.
//! 2. Rows that were deleted later are restored to a place that no client has filled meanwhile: to their
//!    leaf, or, if that was freed, to a page that was freed with it.
//! 3. The `KEPT` pages are for inner pages above split leaves, and for a new bitmap page.
//!
//! At first `free` is a lower bound: after an open, freed pages below the store's end are not known. They are
//! counted once, when the bound is not sufficient.

use crate::StoreError;
use crate::page::bitmap;
use crate::pool::Pool;
use crate::space::{Space, bitmaps_to_come};
use crate::undo::ActiveTable;
use std::sync::Arc;

/// Number of pages that clients must keep free.
pub(crate) const KEPT: u64 = 16;

/// See the module's header.
pub(crate) struct DiskRoom {
    pool: Arc<Pool>,
    space: Arc<Space>,
    active: Arc<ActiveTable>,
}

impl DiskRoom {
    pub(crate) fn new(pool: Arc<Pool>, space: Arc<Space>, active: Arc<ActiveTable>) -> DiskRoom {
        DiskRoom { pool, space, active }
    }

    /// An error unless clients may grow the store by `pages` (rule 1). The caller holds no latch and not the
    /// modification lock.
    pub(crate) fn check(&self, pages: u64) -> Result<(), StoreError> {
        if self.has(pages) {
            return Ok(());
        }
        let _lock = self.space.modify();
        self.check_locked(pages)
    }

    /// As [`DiskRoom::check`], for callers that hold the modification lock.
    pub(crate) fn check_locked(&self, pages: u64) -> Result<(), StoreError> {
        if self.has(pages) {
            return Ok(());
        }
        let _permit = self.pool.enter();
        self.count_free()?;
        self.active.find_oldest(self.space.allocations());
        if self.has(pages) {
            return Ok(());
        }
        Err(self.full())
    }

    /// As [`DiskRoom::check`], but uses the current bound without a count of the free pages. Never waits,
    /// so it can be called under a latch: rows that are deleted from the latched page count.
    pub(crate) fn has(&self, pages: u64) -> bool {
        self.space.free().number() >= KEPT + pages + self.pages_needed()
    }

    /// Maximum number of pages that rollbacks of the active transactions may take.
    fn pages_needed(&self) -> u64 {
        let splits = self.active.splits(self.space.allocations());
        self.active.undo_needs().pages(splits, self.space.page_bytes() as u64)
    }

    fn full(&self) -> StoreError {
        StoreError::DiskFull {
            free: self.space.free().number(),
            reserved: KEPT + self.pages_needed(),
            capacity: self.space.capacity(),
        }
    }

    /// An error if `page` is beyond the disk's end, so that it can never be allocated.
    pub(crate) fn check_on_disk(&self, page: u64) -> Result<(), StoreError> {
        match page < self.space.capacity() {
            true => Ok(()),
            false => Err(self.full()),
        }
    }

    /// Counts the free pages, unless they were counted before. The caller holds the modification lock and no
    /// latch.
    fn count_free(&self) -> Result<(), StoreError> {
        if self.space.free().is_counted() {
            return Ok(());
        }
        let (page_bytes, capacity) = (self.space.page_bytes(), self.space.capacity());
        let group_pages = u64::from(bitmap::group_pages(page_bytes));
        let groups = self.space.groups();
        let mut free = 0;
        for group in 0..groups {
            let number = bitmap::bitmap_of_group(group, page_bytes);
            let page = self.pool.fix_shared(number)?;
            bitmap::check(&page, number)?;
            let on_disk = capacity.saturating_sub(u64::from(group) * group_pages).min(group_pages);
            free += u64::from(bitmap::count_free(&page, on_disk as u32));
        }
        // Each future group needs a bitmap page.
        let rest = capacity.saturating_sub(u64::from(groups) * group_pages);
        free += rest - bitmaps_to_come(groups, capacity, page_bytes);
        self.space.free().counted(free);
        Ok(())
    }
}

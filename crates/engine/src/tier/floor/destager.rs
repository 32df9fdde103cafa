//! Writes pages from flash to disk, counts them, and tells the buffer pool.

use super::above::Above;
use crate::TierError;
use crate::TierOptions;
use crate::access::{Access, BoardRef};
use crate::disk::DiskPages;
use crate::to_disk::{Destages, write_sorted};
use entresol_core::{Lsn, PageId};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;

/// Places of the table of the last destages.
const PLACES: usize = 4096;

/// See the module's header.
pub(crate) struct Destager {
    options: Arc<TierOptions>,
    board: BoardRef,
    disk: Arc<DiskPages>,
    upstream: Arc<Above>,
    /// The versions that were destaged last, to count destages of a version that the disk already had: a
    /// frame's `dirty` may outlive the destage of its flash copy. Indexed by page; so the count is a lower
    /// bound.
    last: TinyMutex<Vec<(PageId, Lsn)>>,
}

impl Destager {
    pub(crate) fn new(access: &Arc<Access>, disk: &Arc<DiskPages>, upstream: &Arc<Above>) -> Self {
        let last = TinyMutex::new(Rank::Destaged, vec![(PageId(u64::MAX), Lsn(0)); PLACES]);
        Self {
            options: access.options.clone(),
            board: access.board.clone(),
            disk: disk.clone(),
            upstream: upstream.clone(),
            last,
        }
    }

    /// Writes pages to disk as one batch. Not synced.
    pub(crate) fn destage(&self, pages: &mut Destages<'_>) -> Result<(), TierError> {
        write_sorted(&self.disk, pages)?;
        self.board.tallies.disk_writes.add(pages.len());
        Ok(())
    }

    /// Tells the buffer pool that the disk has these versions.
    pub(crate) fn tell(&self, pages: &[(PageId, &[u8])]) {
        let upstream = self.upstream.get();
        for (id, data) in pages.iter().copied() {
            let lsn = self.options.page_format.lsn(data);
            if self.repeats(id, lsn) {
                self.board.tallies.redundant_destages.add(1);
            }
            if let Some(upstream) = &upstream {
                upstream.destaged(id, lsn);
            }
        }
    }

    /// Remembers a destage; says whether it was the last one of that page, too.
    fn repeats(&self, page: PageId, lsn: Lsn) -> bool {
        let place = (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let newest = &mut self.last.lock()[place];
        let repeated = *newest == (page, lsn);
        *newest = (page, lsn);
        repeated
    }
}

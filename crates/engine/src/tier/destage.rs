//! Pages on their way from flash to disk: written, counted, and told to the buffer pool.

use super::shared::Shared;
use crate::TierError;
use crate::to_disk::{Destages, write_sorted};
use entresol_core::{Lsn, PageId};
use entresol_format::page;
use entresol_runtime::sync::{Rank, TinyMutex};

/// Entries of [`Destaged`].
const PLACES: usize = 4096;

/// Which versions were destaged last, to count destages of a version that the disk already had: a frame's
/// `dirty` may outlive the destage of its flash copy. The table has a fixed size and is indexed by page, so
/// the count is a lower bound.
pub(crate) struct Destaged(TinyMutex<Vec<(PageId, Lsn)>>);

impl Default for Destaged {
    fn default() -> Self {
        Self(TinyMutex::new(Rank::Destaged, vec![(PageId(u64::MAX), Lsn(0)); PLACES]))
    }
}

impl Destaged {
    /// Remembers a destage; says whether it was the last one of that page, too.
    pub(crate) fn repeats(&self, page: PageId, lsn: Lsn) -> bool {
        let place = (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let newest = &mut self.0.lock()[place];
        let repeated = *newest == (page, lsn);
        *newest = (page, lsn);
        repeated
    }
}

impl Shared {
    /// Writes pages to disk as one batch. Not synced.
    pub(crate) fn destage(&self, pages: &mut Destages<'_>) -> Result<(), TierError> {
        write_sorted(&self.disk, pages)?;
        self.tallies.disk_writes.add(pages.len());
        Ok(())
    }

    /// Tells the buffer pool that the disk has these versions.
    pub(crate) fn tell_destaged(&self, pages: &[(PageId, &[u8])]) {
        let upstream = self.upstream();
        for (id, data) in pages.iter().copied() {
            let lsn = page::lsn(data);
            if self.destaged.repeats(id, lsn) {
                self.tallies.redundant_destages.add(1);
            }
            if let Some(upstream) = &upstream {
                upstream.destaged(id, lsn);
            }
        }
    }
}

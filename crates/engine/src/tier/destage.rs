//! Writes pages from flash to disk, counts them, and tells the buffer pool.

use super::back::Back;
use crate::TierError;
use crate::to_disk::{Destages, write_sorted};
use entresol_core::PageId;

impl Back {
    /// Writes pages to disk as one batch. Not synced.
    pub(crate) fn destage(&self, pages: &mut Destages<'_>) -> Result<(), TierError> {
        write_sorted(&self.disk, pages)?;
        self.front.tallies().disk_writes.add(pages.len());
        Ok(())
    }

    /// Tells the buffer pool that the disk has these versions.
    pub(crate) fn tell_destaged(&self, pages: &[(PageId, &[u8])]) {
        let upstream = self.upstream();
        for (id, data) in pages.iter().copied() {
            let lsn = self.front.options.page_format.lsn(data);
            if self.destaged.repeats(id, lsn) {
                self.front.tallies().redundant_destages.add(1);
            }
            if let Some(upstream) = &upstream {
                upstream.destaged(id, lsn);
            }
        }
    }
}

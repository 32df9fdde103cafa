//! Writes pages from flash to disk, counts them, and tells the buffer pool.

use super::shared::Shared;
use crate::TierError;
use crate::to_disk::{Destages, write_sorted};
use entresol_core::PageId;
use entresol_format::page;

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

//! Notes for the buffer pool's log: pages that are durable on disk, which a restart need not redo.
//!
//! Invariant: a page is noted only after a sync that began when its write had completed.

use super::DiskPages;
use crate::TierError;
use crate::api::Upstream;
use entresol_core::{Lsn, PageId};
use entresol_runtime::sync::{Rank, TinyMutex};

/// Pages written between two syncs made for this purpose.
const PAGES_PER_SYNC: usize = 256;

/// Pages written and not told of.
pub(crate) struct DurableNotes {
    written: TinyMutex<Vec<(PageId, Lsn)>>,
}

impl Default for DurableNotes {
    fn default() -> Self {
        Self { written: TinyMutex::new(Rank::DurableNotes, Vec::new()) }
    }
}

impl DurableNotes {
    /// Adds pages that have been written. From time to time syncs the disk and reports all pages to
    /// `upstream`.
    pub(crate) fn add(
        &self,
        disk: &DiskPages,
        upstream: Option<&dyn Upstream>,
        pages: impl Iterator<Item = (PageId, Lsn)>,
    ) -> Result<(), TierError> {
        let Some(upstream) = upstream else { return Ok(()) };
        let full = {
            let mut written = self.written.lock();
            written.extend(pages);
            if written.len() < PAGES_PER_SYNC {
                return Ok(());
            }
            std::mem::replace(&mut *written, Vec::with_capacity(PAGES_PER_SYNC + 64))
        };
        disk.sync()?;
        upstream.durable(&full, None);
        Ok(())
    }
}

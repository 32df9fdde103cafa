//! Notes for the buffer pool's log: pages that are durable on disk, which a restart need not redo.
//!
//! Invariant: a page is noted only after a sync that began when its write had completed.

use super::DiskPages;
use crate::TierError;
use crate::api::Upstream;
use entresol_core::{Lsn, PageId};
use entresol_runtime::sync::{Rank, TinyMutex};

/// Pages written after which there is a sync for this purpose, if there was none for another one.
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
        let is_due = {
            let mut written = self.written.lock();
            written.extend(pages);
            written.len() >= PAGES_PER_SYNC
        };
        match is_due {
            true => self.sync(disk, Some(upstream)),
            false => Ok(()),
        }
    }

    /// Syncs the disk, and reports the pages that have been written to `upstream`.
    pub(crate) fn sync(&self, disk: &DiskPages, upstream: Option<&dyn Upstream>) -> Result<(), TierError> {
        let written = {
            let mut written = self.written.lock();
            let room = if written.is_empty() { 0 } else { PAGES_PER_SYNC };
            std::mem::replace(&mut *written, Vec::with_capacity(room))
        };
        disk.sync()?;
        if let Some(upstream) = upstream
            && !written.is_empty()
        {
            upstream.durable(&written, None);
        }
        Ok(())
    }
}

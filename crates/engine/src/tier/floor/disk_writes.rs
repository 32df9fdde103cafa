//! Writes of callers to disk, before or instead of the flash, and their sync.

use super::causes::Causes;
use super::disk_trouble::DiskTrouble;
use crate::TierError;
use crate::TierOptions;
use crate::access::{Access, BoardRef, RUN_PAGES_MAX, RunState};
use crate::disk::DiskPages;
use entresol_core::PageId;
use entresol_device::BufferPool;
use entresol_shm::Gone;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// See the module's header.
pub(crate) struct DiskWrites {
    options: Arc<TierOptions>,
    state: Arc<RunState>,
    board: BoardRef,
    disk: Arc<DiskPages>,
    causes: Arc<Causes>,
    trouble: Arc<DiskTrouble>,
    /// For pages on their way to disk.
    buffers: BufferPool,
}

impl DiskWrites {
    pub(crate) fn new(
        access: &Arc<Access>,
        disk: &Arc<DiskPages>,
        causes: &Arc<Causes>,
        trouble: &Arc<DiskTrouble>,
    ) -> Self {
        let buffers = BufferPool::new(access.flash_pages.page_bytes, usize::MAX);
        Self {
            options: access.options.clone(),
            state: access.state.clone(),
            board: access.board.clone(),
            disk: disk.clone(),
            causes: causes.clone(),
            trouble: trouble.clone(),
            buffers,
        }
    }

    /// Writes a page.
    pub(crate) fn write(&self, page: PageId, data: &[u8]) -> Result<(), TierError> {
        let mut buffer = self.buffers.take(data.len());
        buffer.copy_from_slice(data);
        self.options.page_format.seal_for_disk(&mut buffer, page);
        let written = self.disk.write(page, &buffer);
        self.buffers.give_back(buffer);
        self.wrote(1);
        written?;
        self.trouble.took(std::iter::once(page));
        if self.state.is_gone() {
            // Without the table of objects the home may have left the page out.
            return Err(Gone.into());
        }
        Ok(())
    }

    /// Writes pages that need no seal to disk.
    pub(crate) fn write_run(&self, pages: &[(PageId, &[u8])]) -> Result<(), TierError> {
        if let [(page, data)] = pages {
            return self.write(*page, data);
        }
        let written = self.disk.write_all::<RUN_PAGES_MAX>(pages.iter().copied());
        self.wrote(pages.len());
        written?;
        self.trouble.took(pages.iter().map(|(page, _)| *page));
        Ok(())
    }

    /// Writes adjacent pages, `run`, whose bytes are `data`, past the flash in one request.
    pub(crate) fn write_around(&self, run: &[(PageId, &[u8])], data: &[u8]) -> Result<(), TierError> {
        let Some((first, _)) = run.first() else { return Ok(()) };
        let written = self.disk.write_run(*first, data);
        self.has_written_around(&(first.0..first.0 + run.len() as u64), written.is_ok());
        written
    }

    /// Adjacent pages were written past the flash, or that has failed.
    pub(crate) fn has_written_around(&self, pages: &Range<u64>, is_written: bool) {
        let count = (pages.end - pages.start) as usize;
        self.wrote(count);
        if is_written {
            self.trouble.took(pages.clone().map(PageId));
            self.board.tallies.bypassed.add(count);
            (0..count).for_each(|_| self.board.tallies.evicted(true, true));
        }
    }

    /// A caller has written so many pages to disk: they are durable after the next sync of it. To be called
    /// after a failure, too: the disk may have carried the write out.
    pub(crate) fn wrote(&self, pages: usize) {
        let board = &self.board;
        board.tallies.disk_writes.add(pages);
        board.disk_owed.fetch_max(board.tallies.disk_writes.get(), SeqCst);
    }

    /// Syncs the disk, unless all that was written there is durable.
    pub(crate) fn sync_if_written(&self) -> Result<(), TierError> {
        let written = self.board.tallies.disk_writes.get();
        if self.board.disk_synced.load(SeqCst) < written {
            self.disk.sync()?;
            self.board.disk_synced.fetch_max(written, SeqCst);
        }
        Ok(())
    }

    /// Syncs what callers have written to disk, if it is not durable there; and what made forgotten pages
    /// dead.
    pub(crate) fn sync_callers(&self) -> Result<(), TierError> {
        if self.board.disk_synced.load(SeqCst) < self.board.disk_owed.load(SeqCst) {
            self.sync_if_written()?;
        }
        self.causes.settle_dead()
    }
}

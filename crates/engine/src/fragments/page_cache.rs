//! The cache for a caller without memory of its own for pages.

use super::FragmentTier;
use crate::TierError;
use crate::api::{DiskState, Layer, MissingPages, Progress, ReadCounts, ReadRoute, WritebackState};
use crate::interface::{AroundWrite, Deletes, LookedUp, PageCache};
use crate::options::Flushed;
use entresol_core::{Costs, PageId, WritebackOptions};
use entresol_objects::{Locator, ObjectId, Usage};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Deletes for FragmentTier {
    /// Copies of these pages leave the flash. A population under way leaves them out.
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        self.mapping.forget(first, last);
        Ok(0)
    }

    fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let made = make_dead();
        self.mapping.forget(first, last);
        made
    }

    fn define(&self, _: &Locator) -> Result<Option<ObjectId>, TierError> {
        Err(no_objects())
    }

    fn object(&self, _: &Locator) -> Result<Option<ObjectId>, TierError> {
        Err(no_objects())
    }

    fn retire(&self, _: ObjectId) -> Result<bool, TierError> {
        Err(no_objects())
    }

    fn retire_matching(&self, _: impl FnMut(&Locator) -> bool) -> Result<u32, TierError> {
        Err(no_objects())
    }

    fn cut(&self, _: ObjectId, _: u32) -> Result<(), TierError> {
        Err(no_objects())
    }

    fn objects(&self) -> Option<Usage> {
        None
    }
}

fn no_objects() -> TierError {
    TierError::Config("a cache of fragments has no table of objects; forget pages".to_owned())
}

/// Flash is never newer than disk here: nothing is dirty, and the disk is bound to no cache.
impl PageCache for FragmentTier {
    fn read_pages(&self, first: PageId, buffer: &mut [u8], how: ReadRoute) -> Result<ReadCounts, TierError> {
        self.reads.read_pages(first, buffer, how)
    }

    fn begin_read(self: Arc<Self>, first: PageId, pages: usize) -> Option<LookedUp> {
        let read = self.look_up(first, pages)?;
        Some(LookedUp::fragments(self, read))
    }

    fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        self.writes.write_pages(first, data)
    }

    /// Its writes wait for the disk.
    fn try_write_pages(&self, _: PageId, _: &[u8]) -> Result<bool, TierError> {
        Ok(false)
    }

    fn is_newer(&self, _: PageId) -> bool {
        false
    }

    /// Writes of pages whose fragments are not on flash always bypass it. The others must not become stale.
    fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        let pages = data.len() as u64 / self.page_bytes();
        let cached = (first.0..first.0 + pages).filter(|page| self.is_on_flash(PageId(*page))).count();
        self.write_pages(first, data).map(|()| pages - cached as u64)
    }

    /// Its writes never begin past the flash.
    fn forget_clean_durably(&self, _: &[PageId]) -> Result<(), TierError> {
        Ok(())
    }

    /// Its writes take turns in which they wait.
    fn begin_around(self: Arc<Self>, _: PageId, _: u64) -> Option<AroundWrite> {
        None
    }

    fn flush(&self) -> Result<(), TierError> {
        self.checkpoint()
    }

    fn sync_disk(&self) -> Result<(), TierError> {
        self.behind.disk.sync()
    }

    /// A crash finds nothing in this cache.
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        self.forget(first, last)
    }

    /// What a population has read before `work` ended is forgotten after it.
    fn keep_out(&self, first: PageId, last: PageId, work: &mut dyn FnMut()) -> Result<(), TierError> {
        work();
        if self.mapping.is_running() {
            self.mapping.forget(first, last);
        }
        Ok(())
    }

    fn detach(&self) -> Result<(), TierError> {
        self.close()
    }

    fn detach_with_loss(&self) -> Result<(), TierError> {
        self.close()
    }

    fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError> {
        let pages = (first.0..=last.0).map(PageId);
        Ok(pages.filter(|page| self.is_on_flash(*page)).map(|page| (page, false)).collect())
    }

    fn lost_among(&self, _: PageId, _: PageId) -> Result<Vec<PageId>, TierError> {
        Ok(Vec::new())
    }

    fn give_up(&self, page: PageId) -> Result<(), TierError> {
        // The disk has all that its fragments have.
        self.mapping.forget(page, page);
        Ok(())
    }

    fn missing(&self) -> Option<MissingPages> {
        None
    }

    fn disk_state(&self) -> DiskState {
        // It writes what its callers write, at once: an error is theirs.
        DiskState::default()
    }

    fn bring_to_disk(&self, _: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<u64, TierError> {
        Ok(0)
    }

    fn writeback(&self) -> Option<WritebackState> {
        None
    }

    fn is_at_ceiling(&self) -> bool {
        false
    }

    fn set_writeback(&self, _: WritebackOptions) {}

    fn dirty_pages(&self) -> u64 {
        0
    }

    fn flushed(&self) -> Option<Flushed> {
        None
    }

    fn page_bytes(&self) -> u64 {
        self.copies.options.page_bytes.into()
    }

    fn is_log(&self) -> bool {
        false
    }

    /// Its writes to flash are not counted so.
    fn write_workers(&self) -> usize {
        1
    }

    fn spare_writes(&self, _: bool) {}

    fn set_write_worth(&self, _: u32) {}

    fn costs(&self) -> Costs {
        Costs::default()
    }

    fn ended(&self) -> Option<TierError> {
        // An error of the disk is its caller's.
        self.tasks.lock().is_empty().then_some(TierError::Gone("the flash cache has ended"))
    }

    fn notice(&self) -> Option<String> {
        self.mapping.notice()
    }
}

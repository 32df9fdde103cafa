//! The cache for a caller without memory of its own for pages.

use super::FlashTier;
use super::floor::writeback::WritebackTask;
use crate::TierError;
use crate::access::Access;
use crate::api::{DiskState, MissingPages, Progress, ReadCounts, ReadRoute, WritebackState};
use crate::disk::PageRanges;
use crate::interface::{AroundWrite, Deletes, LookedUp, PageCache};
use crate::options::Flushed;
use entresol_core::{Costs, PageId, Partition, Position, WritebackOptions};
use entresol_shm::Gone;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Pages that no read brings into the flash until this is dropped, nor a read that began before the drop.
struct KeptOut<'a>(&'a Access, (PageId, PageId));

impl<'a> KeptOut<'a> {
    fn begin(access: &'a Access, pages: (PageId, PageId)) -> Result<Self, Gone> {
        access.directory.with(|_| access.order.writes_begin(pages))?;
        Ok(Self(access, pages))
    }
}

impl Drop for KeptOut<'_> {
    fn drop(&mut self) {
        let Self(access, pages) = self;
        // Where the memory is given up, so is the order.
        let _ = access.directory.step(|_| access.order.writes_end(*pages));
    }
}

impl PageCache for FlashTier {
    fn read_pages(&self, first: PageId, buffer: &mut [u8], how: ReadRoute) -> Result<ReadCounts, TierError> {
        let _guard = self.guard();
        match how {
            ReadRoute::Populates => self.parts.reads.read_pages(first, buffer, true),
            ReadRoute::StaysOut => self.parts.reads.read_pages(first, buffer, false),
            ReadRoute::Around => self.parts.reads.read_around(first, buffer),
        }
    }

    fn begin_read(self: Arc<Self>, first: PageId, pages: usize) -> Option<LookedUp> {
        let read = self.look_up(first, pages)?;
        Some(LookedUp::pages(self, read))
    }

    fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.writes.write_pages(first, data)
    }

    fn try_write_pages(&self, first: PageId, data: &[u8]) -> Result<bool, TierError> {
        let _guard = self.guard();
        self.parts.writes.try_write_pages(first, data)
    }

    fn is_newer(&self, page: PageId) -> bool {
        self.parts.floor.access.cached.is_dirty(page).unwrap_or(false)
    }

    fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        let _guard = self.guard();
        self.parts.writes.write_around(first, data)
    }

    fn forget_clean_durably(&self, pages: &[PageId]) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.writes.forget_clean_durably(pages)
    }

    fn begin_around(self: Arc<Self>, first: PageId, pages: u64) -> Option<AroundWrite> {
        let around = {
            let _guard = self.guard();
            self.parts.writes.begin_around(first, pages)?
        };
        Some(AroundWrite::new(self, around))
    }

    fn flush(&self) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.room.flush()
    }

    fn sync_disk(&self) -> Result<(), TierError> {
        self.parts.floor.disk.sync()
    }

    fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        let found = self.forget(first, last)?;
        // A page that is not in the cache may have a record, too: a crash would find its last slot.
        let directory = &self.parts.floor.access.directory;
        let may_come_back = directory.with(|partition| match partition {
            Partition::Log(log) => log.records_waiting() > 0,
            Partition::Slots(slots) => slots.may_come_back(first, last),
        })?;
        if may_come_back {
            self.flush()?;
        }
        Ok(found)
    }

    fn keep_out(&self, first: PageId, last: PageId, work: &mut dyn FnMut()) -> Result<(), TierError> {
        let _guard = self.guard();
        let _out = KeptOut::begin(&self.parts.floor.access, (first, last))?;
        work();
        // Before a read brings one in: a clean page is on flash only when the disk has it durably.
        self.parts.floor.disk.was_changed((first, last));
        Ok(())
    }

    fn detach(&self) -> Result<(), TierError> {
        self.detach_with(false)
    }

    fn detach_with_loss(&self) -> Result<(), TierError> {
        self.detach_with(true)
    }

    fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError> {
        match self.parts.floor.disk.missing.since_failure() {
            Some(missing) => Ok(missing.within(first, last).into_iter().map(|page| (page, true)).collect()),
            None => self.parts.floor.access.cached.among((first, last)),
        }
    }

    fn lost_among(&self, first: PageId, last: PageId) -> Result<Vec<PageId>, TierError> {
        let lost = match self.parts.floor.disk.missing.since_failure() {
            Some(missing) => PageRanges::of_list(&missing.count().1),
            None => self.parts.floor.lost.now()?,
        };
        Ok(lost.from(first).take_while(|page| *page <= last).collect())
    }

    fn give_up(&self, page: PageId) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.floor.lost.give_up(page)
    }

    fn missing(&self) -> Option<MissingPages> {
        let missing = match self.parts.floor.disk.missing.since_failure() {
            Some(missing) => {
                let (pages, lost) = missing.count();
                MissingPages { pages, lost }
            }
            None => MissingPages { pages: 0, lost: self.parts.floor.lost.now().unwrap_or_default().list() },
        };
        (missing != MissingPages::default()).then_some(missing)
    }

    fn disk_state(&self) -> DiskState {
        self.parts.floor.trouble.report()
    }

    fn bring_to_disk(&self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<u64, TierError> {
        let _guard = self.guard();
        let (copied, stays) = self.parts.losses.copy_to_disk_what_is_there(watch)?;
        if stays.is_nothing() {
            self.parts.floor.dirt.clear()?;
        }
        if stays.is_nothing() { Ok(copied) } else { Err(TierError::Losing(stays)) }
    }

    fn writeback(&self) -> Option<WritebackState> {
        self.parts.writeback.as_ref().and_then(WritebackTask::report)
    }

    fn is_at_ceiling(&self) -> bool {
        self.parts.floor.dirt.is_at_ceiling()
    }

    fn set_writeback(&self, options: WritebackOptions) {
        self.parts.writeback.iter().for_each(|writeback| writeback.set(options));
    }

    fn dirty_pages(&self) -> u64 {
        if let Some(missing) = self.parts.floor.disk.missing.since_failure() {
            return missing.count().0;
        }
        let directory = &self.parts.floor.access.directory;
        directory.with(|partition| partition.unsaved()).map_or(0, |unsaved| unsaved.pages.into())
    }

    fn flushed(&self) -> Option<Flushed> {
        let access = &self.parts.floor.access;
        if !access.directory.keeps_pages() || !access.state.is_running() {
            return None;
        }
        let below = access.directory.with(|partition| match partition {
            Partition::Log(_) => partition.flushed(),
            // Of slots, the batches below this number.
            Partition::Slots(slots) => Position(slots.oldest_batch()),
        });
        let below = below.ok()?;
        let superblocks = &self.parts.floor.superblocks;
        Some(Flushed { cache: superblocks.cache, epoch: superblocks.epoch, below })
    }

    fn page_bytes(&self) -> u64 {
        self.parts.floor.access.flash_pages.page_bytes as u64
    }

    fn is_log(&self) -> bool {
        self.parts.floor.access.directory.is_log()
    }

    fn write_workers(&self) -> usize {
        self.parts.floor.access.options.write_workers
    }

    fn spare_writes(&self, spares: bool) {
        self.parts.floor.budget.spare_writes(spares);
    }

    fn set_write_worth(&self, permille: u32) {
        self.parts.floor.budget.set_write_worth(permille);
    }

    fn costs(&self) -> Costs {
        self.parts.floor.access.options.costs
    }

    fn ended(&self) -> Option<TierError> {
        let state = &self.parts.floor.access.state;
        let has_ended = state.is_closed() || state.is_gone();
        state.failure().or_else(|| has_ended.then_some(TierError::Gone("the flash cache has ended")))
    }

    fn held_up(&self) -> Option<TierError> {
        self.parts.floor.access.state.obstacle()
    }

    fn notice(&self) -> Option<String> {
        self.parts.floor.access.state.notice()
    }
}

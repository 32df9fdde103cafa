//! A cache for a caller that has no memory of its own for pages.

use super::{AroundWrite, Deletes, LookedUp};
use crate::TierError;
use crate::api::{DiskState, Layer, MissingPages, Progress, ReadCounts, ReadRoute, WritebackState};
use crate::options::Flushed;
use entresol_core::{Costs, PageId, WritebackOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A cache of the pages of a disk, for a caller that has no memory of its own for pages, and no log: a
/// volume. Pages are read and written by adjacent ones, and [`PageCache::flush`] makes writes durable.
pub trait PageCache: Layer + Deletes {
    /// Reads adjacent pages from `first` on: as [`Layer::fetch`] of each. What enters the cache, `how` says.
    /// That never waits, and a page that is written meanwhile does not enter. Returns where the pages came
    /// from. SCE's fragments become warmer, and none enters by itself.
    ///
    /// # Errors
    /// As [`Layer::fetch`]; [`TierError::Config`] if `buffer` does not have whole pages.
    fn read_pages(&self, first: PageId, buffer: &mut [u8], how: ReadRoute) -> Result<ReadCounts, TierError>;

    /// Looks up `pages` adjacent pages from `first` on, which count as fetched; the caller reads the flash by
    /// its own means, many reads at once. `None`: some are not on flash, or there are more than
    /// [`FLASH_READ_PAGES_MAX`](crate::FLASH_READ_PAGES_MAX), or they have to be read by
    /// [`PageCache::read_pages`]; so is a read that fails here.
    fn begin_read(self: Arc<Self>, first: PageId, pages: usize) -> Option<LookedUp>;

    /// Writes adjacent pages from `first` on, newer than any other copy: as [`Layer::evict`] of each. In
    /// write-through mode they share a flush of flash. No other task writes these pages meanwhile.
    ///
    /// # Errors
    /// As [`Layer::evict`]; some of the pages may have been written.
    fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError>;

    /// As [`PageCache::write_pages`], of pages that enter the cache at once: nothing is waited for. False:
    /// some did not, and all are to be written by [`PageCache::write_pages`].
    ///
    /// # Errors
    /// As there.
    fn try_write_pages(&self, first: PageId, data: &[u8]) -> Result<bool, TierError>;

    /// Whether `page` is newer in the cache than on disk.
    fn is_newer(&self, page: PageId) -> bool;

    /// As [`PageCache::write_pages`], past the flash: pages are written to disk alone, except those that are
    /// dirty in the cache. Returns how many were written to disk alone.
    ///
    /// # Errors
    /// As [`PageCache::write_pages`].
    fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError>;

    /// Forgets the copies of these pages that are not dirty, so that no crash finds them, and writes of them
    /// can begin past the flash ([`PageCache::begin_around`]): with one flush of flash for all. The caller
    /// excludes other writers of them. Does nothing where slots have the pages.
    ///
    /// # Errors
    /// What failed: the cache's.
    fn forget_clean_durably(&self, pages: &[PageId]) -> Result<(), TierError>;

    /// Begins a write of `pages` adjacent pages from `first` on past the flash; the caller carries it out by
    /// its own means, many writes at once, and excludes other writers of these pages. Never waits. `None`:
    /// the cache has copies of some, or the write has to be made by [`PageCache::write_around`]; so is a
    /// write that fails here.
    fn begin_around(self: Arc<Self>, first: PageId, pages: u64) -> Option<AroundWrite>;

    /// Makes everything durable that was evicted, written or forgotten before.
    ///
    /// # Errors
    /// What failed. Then nothing is known of pages written since the last flush.
    fn flush(&self) -> Result<(), TierError>;

    /// Syncs the disk, for an owner that has written to it past the cache. If the sync fails, what the cache
    /// has written there may be lost, and is not read any more.
    ///
    /// # Errors
    /// The disk's.
    fn sync_disk(&self) -> Result<(), TierError>;

    /// As [`Deletes::forget`], and when it returns, no crash finds copies of these pages any more.
    ///
    /// # Errors
    /// What failed: the cache's.
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError>;

    /// Does `work`, which changes the pages from `first` to `last` on disk without the cache, and need not
    /// make that durable. No read brings one of them into the cache meanwhile, nor does one that began before
    /// `work` ended and ends later: it may have met what the disk had before. Dirty copies in the cache stay
    /// as they are.
    ///
    /// # Errors
    /// [`TierError::Gone`]; then `work` is not done.
    fn keep_out(&self, first: PageId, last: PageId, work: &mut dyn FnMut()) -> Result<(), TierError>;

    /// Copies everything that is newer than disk there, empties the cache, releases the disk from it, and
    /// ends. From then on [`DiskLayer::open`](crate::DiskLayer::open) takes the disk. No other task may use
    /// the cache meanwhile.
    ///
    /// # Errors
    /// [`TierError::Losing`]: the newest versions of some pages cannot be read from flash. All others are on
    /// disk, and the cache still serves. Any other error: what failed, and the cache has ended.
    fn detach(&self) -> Result<(), TierError>;

    /// As [`PageCache::detach`], with the loss of pages that cannot be read: the disk's versions of them
    /// count from then on.
    ///
    /// # Errors
    /// What failed.
    fn detach_with_loss(&self) -> Result<(), TierError>;

    /// Those of the pages from `first` to `last` that are in the cache, in order, each with whether it is, or
    /// may be, newer there than on disk. A long range costs by the pages of the cache, a short one by its
    /// own. Of a degraded cache: the pages that the disk lacks.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError>;

    /// Which of the pages from `first` to `last` cannot be read, so that requests for them fail until they
    /// are written as a whole.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    fn lost_among(&self, first: PageId, last: PageId) -> Result<Vec<PageId>, TierError>;

    /// Gives up the version in the cache of a page that cannot be read there, durably after the next flush:
    /// requests for the page fail until it is written as a whole, also after a restart. So an acknowledged
    /// write of a part of it, which cannot be carried out, is not followed by an older version. Of a degraded
    /// cache it is durable at once.
    ///
    /// # Errors
    /// What failed, or too many pages are lost: the cache stops then.
    fn give_up(&self, page: PageId) -> Result<(), TierError>;

    /// What the disk lacks. `None`: nothing that is not in the cache.
    fn missing(&self) -> Option<MissingPages>;

    /// Whether the disk refuses writes now, and which pages stay on flash for that.
    fn disk_state(&self) -> DiskState;

    /// Copies all pages that are newer than disk now there, durably; they stay in the cache, as clean ones.
    /// Requests continue meanwhile. `watch` is told how far it is, and may end it. Returns how many pages
    /// were copied.
    ///
    /// # Errors
    /// [`TierError::Losing`]: the newest versions of some pages cannot be read from flash, or the disk does
    /// not take them. All others are on disk, and the cache serves. Else what failed.
    fn bring_to_disk(&self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<u64, TierError>;

    /// When dirty pages are copied to disk before their turn. `None`: never, or none is ever dirty.
    fn writeback(&self) -> Option<WritebackState>;

    /// Whether as many pages are dirty as these options permit. The owner writes pages that are not dirty
    /// past the flash then ([`PageCache::write_around`]): whole pages, or a part of one by its own means,
    /// since a power failure may tear a page that is written to disk in place.
    fn is_at_ceiling(&self) -> bool;

    /// Other options of that from now on, if there are any.
    fn set_writeback(&self, options: WritebackOptions);

    /// Pages that are newer in the cache than on disk, those in staging included.
    fn dirty_pages(&self) -> u64;

    /// How far the flash is flushed now: for the next program, if this one is killed
    /// ([`TierOptions::flushed`](crate::TierOptions)). `None`: nothing on flash outlives it.
    fn flushed(&self) -> Option<Flushed>;

    /// Bytes of a page.
    fn page_bytes(&self) -> u64;

    /// Whether pages are on flash in a log.
    fn is_log(&self) -> bool;

    /// How many writes to flash may be under way at once.
    fn write_workers(&self) -> usize;

    /// Turns second chances off (`true`) or on, for an owner that wants fewer writes to flash.
    fn spare_writes(&self, spares: bool);

    /// From now on a write to flash must promise so many uses, in thousandths, where the policy weighs that
    /// ([`entresol_core::Facts::weighs_costs`]): for an owner that wants fewer writes. 0: as the devices'
    /// times have it.
    fn set_write_worth(&self, permille: u32);

    /// What the devices cost: as the owner said, or as the superblock has it. Unknown, if nothing was said or
    /// measured.
    fn costs(&self) -> Costs;

    /// Why no request can be served any more: the cache has failed, or was ended. `None`: it serves.
    fn ended(&self) -> Option<TierError>;

    /// The flash has failed, and to go on without it the cache needs the disk, which fails, too: requests
    /// have this error meanwhile. `None`: it is not so.
    fn held_up(&self) -> Option<TierError> {
        None
    }

    /// Why the cache was switched off, so that the disk alone serves, if it was.
    fn notice(&self) -> Option<String>;
}

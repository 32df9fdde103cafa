//! The interface between a buffer pool and the layer below it. The flash tier and the plain disk have the
//! same one (3LA §3): without a flash device the same store is the two-layer baseline.
//!
//! The pool calls [`Layer`]: it fetches and evicts pages, and asks for checkpoints. The layer calls
//! [`Upstream`]: it pulls pages and reports which versions are on disk or durable.

use crate::TierError;
use crate::durations::Durations;
use crate::forecast::Forecasts;
use entresol_core::{Lsn, PageId, WritebackOptions};
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_format::losses::Losses;
use entresol_objects::Locator;
use std::sync::Weak;
use std::time::Duration;

/// Where a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In staging, in memory.
    Staging,
    /// On flash.
    Flash,
    /// On disk.
    Disk,
}

/// How many pages of a read came from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// From staging, in memory.
    pub staging: u64,
    /// From flash.
    pub flash: u64,
    /// From disk.
    pub disk: u64,
}

impl ReadCounts {
    /// One more.
    pub fn count(&mut self, source: Source) {
        match source {
            Source::Staging => self.staging += 1,
            Source::Flash => self.flash += 1,
            Source::Disk => self.disk += 1,
        }
    }
}

/// Whether pages that are read enter the cache, and whether they are looked for there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRoute {
    /// What only the disk had is offered to the cache, as if it had been evicted unchanged.
    Populates,
    /// What only the disk had stays out of the cache.
    StaysOut,
    /// Past the flash: what the disk has, durably, comes from there, also if it is in the cache; the rest
    /// from the cache. Nothing enters.
    Around,
}

/// Writes that a disk has refused ([`crate::PageCache::disk_state`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// For how long writes that it refuses have been tried again. `None`: none is.
    pub retrying_for: Option<Duration>,
    /// Refusals since the cache was opened.
    pub refusals: u64,
    /// Pages that it refuses though it takes others. They stay dirty on flash. The first page of each range,
    /// and how many follow each other.
    pub kept: Vec<(PageId, u32)>,
    /// The last error, while one of the two is so.
    pub error: Option<String>,
}

/// How far a copy of dirty pages to disk is ([`crate::PageCache::bring_to_disk`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pages that were copied, or were found on disk.
    pub done: u64,
    /// Pages that were dirty when it began.
    pub total: u64,
}

/// How dirty pages get to disk before their turn ([`crate::PageCache::writeback`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritebackState {
    /// The options.
    pub options: WritebackOptions,
    /// The disk has everything, and its label says so: the flash may be taken away.
    pub is_clean: bool,
}

/// What a disk lacks that is not in its cache either ([`crate::PageCache::missing`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingPages {
    /// How many pages only the flash has, which has failed; 0: it is in use.
    pub pages: u64,
    /// Pages that could not be read from the flash when that was last tried: the first page of each range,
    /// and how many follow each other. If the flash has failed, they are among those above.
    pub lost: Vec<(PageId, u32)>,
}

/// The answer to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where the page was found.
    pub source: Source,
    /// The page is newer than its disk copy; the frame's `dirty` starts with this.
    pub dirty: bool,
    /// The page is newer than all copies in the layer, because it has moved to DRAM (GLB); the frame's
    /// `fdirty` starts with this.
    pub fdirty: bool,
}

/// The disk of a layer, and the log that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The disk.
    pub disk: Uuid,
    /// The log of the database on it. [`Uuid::NIL`]: none was ever used with this disk.
    pub log: Uuid,
    /// The newest session of that log in which this disk took part.
    pub session: Session,
}

/// Pages that their owner wants on disk now ([`crate::FlashTier::destage`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSet {
    /// Those from the first to the last, both included.
    Range(PageId, PageId),
    /// Those of all objects whose names begin with the first `length` bytes of `name`.
    Named {
        /// The bytes.
        name: Locator,
        /// How many of them count.
        length: usize,
    },
}

impl PageSet {
    /// All pages.
    pub const ALL: Self = Self::Range(PageId(0), PageId(u64::MAX));
}

/// A page that is evicted from DRAM or written by a checkpoint. Its log records are durable up to `lsn`
/// before the call (the WAL rule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The page.
    pub page: PageId,
    /// LSN of its newest change.
    pub lsn: Lsn,
    /// Newer than the disk copy.
    pub dirty: bool,
    /// Newer than the flash copy (FaCE §3.3).
    pub fdirty: bool,
}

impl Victim {
    /// Of a page that the cache has no version of: whether the disk lacks it, too. A page that has not
    /// changed since it was fetched left the cache when the disk had it. It must not be written again: a
    /// power failure could leave an unreadable sector, and the log has no image of a page without a change.
    pub(crate) fn is_only_copy(&self) -> bool {
        self.dirty && self.fdirty
    }
}

/// The outcome of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The evicted version is, or will be, newer than the disk copy: a frame that stays in DRAM keeps
    /// `dirty`.
    pub dirty: bool,
}

/// A layer below the buffer pool: the flash tier, or the disk alone.
pub trait Layer: Send + Sync {
    /// Fetches the newest version of `page` into `buffer` (one page), proved by checksum, id and generation.
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError>;
    /// Whether `page` can be fetched without the disk: a hint for recovery, without I/O.
    fn is_on_flash(&self, _page: PageId) -> bool {
        false
    }
    /// Evicts a page to the layer. Returns when the layer holds it (a memory copy in staging, or a completed
    /// disk write): from then on `fetch` serves this version. Waits when staging is full. Never drops a dirty
    /// page.
    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError>;
    /// As [`Layer::evict`], but returns `None` instead of waiting.
    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError>;
    /// A database checkpoint begins: dirty pages in DRAM will be passed to [`Layer::evict`], then
    /// [`Layer::checkpoint`] called. Until that ends no dirty page moves up, so that none slips past both.
    /// Fetches that began before must be waited for ([`Layer::moves_pages_up`]).
    fn checkpoint_begins(&self) {}
    /// Whether fetched pages may move to DRAM, so that DRAM holds the only dirty copy.
    fn moves_pages_up(&self) -> bool {
        false
    }
    /// Makes every page evicted so far durable: the flash tier on flash with its directory (FaCE §2.3), LC
    /// and the disk alone on disk. A database checkpoint calls it before it writes its record.
    fn checkpoint(&self) -> Result<(), TierError>;
    /// After an open: the owner's last complete checkpoint was `number`. An owner whose log replaces a lost
    /// flash (`TierOptions::keeps_bases`) calls this before the first eviction.
    fn resume_checkpoints(&self, _number: u64) -> Result<(), TierError> {
        Ok(())
    }
    /// The owner's checkpoint `number` is complete: its record is durable, and a restart begins with it.
    /// Every page that was dirty at its redo point was evicted to the layer before.
    fn checkpoint_complete(&self, _number: u64) -> Result<(), TierError> {
        Ok(())
    }
    /// Between [`Layer::checkpoint`] and the checkpoint's record: pages of which the disk lacks changes from
    /// before the redo point of checkpoint `number` are copied to disk, durably. Returns the number of the
    /// checkpoint from whose redo point on the owner's log must be kept: with it, the disk needs no flash.
    /// It may be lower than `number`. Then, if it is not one of the owner's, no log replaces the flash yet.
    /// `u64::MAX`: the disk has everything.
    fn bring_to_disk_before(&self, _number: u64) -> Result<u64, TierError> {
        Ok(u64::MAX)
    }
    /// The same is done behind clients from now on.
    fn clean_behind(&self, _number: u64) {}
    /// The flash of this disk is lost, and the owner's log is to replace it.
    fn is_flash_lost(&self) -> bool {
        false
    }
    /// The owner's log replaces the flash: from here on that is refused, durably. Nothing was written before.
    fn give_up_flash(&self) -> Result<(), TierError> {
        Ok(())
    }
    /// Sets the buffer pool that is asked for victims and told of destages. Called once, before the first
    /// fetch.
    fn attach(&self, upstream: Weak<dyn Upstream>);
    /// The groups that the open found of a log on flash. `None` if there is no log, or if it began empty.
    fn survivors(&self) -> Option<&Survivors> {
        None
    }
    /// Pages that fit on the disk. Pages with this number or a higher one cannot be written.
    fn capacity_pages(&self) -> u64;
    /// The binding in the disk's label, read from the disk.
    fn binding(&self) -> Result<Binding, TierError>;
    /// Begins a session of the database: the label names `log` and `session`, durably, before this returns.
    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError>;
    /// Counters since open.
    fn metrics(&self) -> TierMetrics;
    /// Drains staging, then ends background work. The directory is made durable, so the next open is warm.
    fn close(&self) -> Result<(), TierError>;
    /// Whether [`Layer::materialise`] leaves dirty pages on flash.
    fn can_materialise(&self) -> bool {
        false
    }
    /// Ends the layer without waiting for the disk: dirty pages stay on flash, with a directory that counts
    /// for the next open alone (3LA §3.3). Called instead of [`Layer::checkpoint`] and [`Layer::close`],
    /// after [`Layer::checkpoint_begins`] and the eviction of the dirty frames. `end`: everything logged
    /// before it was evicted. No checkpoint record follows it: the owner's log must reach back to the one
    /// before, because after a crash of the next life only what that checkpoint made durable is there.
    fn materialise(&self, _end: Lsn) -> Result<(), TierError> {
        self.checkpoint()?;
        self.close()
    }
    /// What the open has found in such a directory.
    fn materialised(&self) -> Materialised {
        Materialised::default()
    }
}

/// What a shutdown has left on flash instead of copying it to disk ([`Layer::materialise`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Materialised {
    /// Dirty pages.
    pub dirty: u64,
    /// Everything logged before it is in the layer: nothing of the directory is missing. `None`: that is not
    /// certain, or there is no such directory.
    pub end: Option<Lsn>,
}

/// A group of a log on flash that was reported as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableGroup {
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Its number, counted from the first ever.
    pub number: u64,
}

/// The groups that an open found of a log on flash, to be compared with the groups that were reported as
/// durable. The newest groups are beyond the durable position that the flash itself records. If they are
/// damaged or lost, they look like groups that were never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// The epoch that begins; all groups were written in earlier ones.
    pub epoch: u64,
    /// The number after that of the last group.
    pub rear: u64,
    /// Groups before the rear that count as never written, in whole or in part.
    pub missing: Vec<u64>,
    /// Losses found by earlier opens.
    pub losses: Losses,
}

impl Survivors {
    /// Whether all of `group` is present. `false` may be wrong for groups of old epochs.
    pub fn have(&self, group: DurableGroup) -> bool {
        let DurableGroup { epoch, number } = group;
        number < self.rear && !self.missing.contains(&number) && !self.losses.cover(epoch, number)
    }
}

/// Calls from a layer to the buffer pool above it.
pub trait Upstream: Send + Sync {
    /// Evicts up to `pages` of the coldest frames with [`Layer::try_evict`] (FaCE GSC, §3.3). Returns the
    /// number evicted. Must not wait for the layer.
    fn pull_victims(&self, pages: usize) -> usize;
    /// Reports that the version of `page` with `lsn` is on disk: a frame that holds this version is no longer
    /// `dirty`.
    fn destaged(&self, page: PageId, lsn: Lsn);
    /// Reports that these versions, dirty at their eviction, will survive a crash: a restart need not redo
    /// their changes. The report may be late or never made. The implementation must not wait for the layer.
    /// `group`: the group in which they were written to flash, to be compared with [`Layer::survivors`] at a
    /// restart. `None`: they are on disk.
    fn durable(&self, _pages: &[(PageId, Lsn)], _group: Option<DurableGroup>) {}
}

/// Counters of a layer since it was opened. All in pages unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierMetrics {
    /// How long writes of groups, or of pages into slots, took.
    pub write_durations: Durations,
    /// How long other background jobs took: dequeues, cleaning, pulls.
    pub background_durations: Durations,
    /// How long checkpoints took.
    pub checkpoint_durations: Durations,
    /// How long syncs of the flash took.
    pub sync_durations: Durations,
    /// Fetches served from staging.
    pub staging_hits: u64,
    /// Fetches served from flash.
    pub flash_hits: u64,
    /// Fetches served from disk.
    pub disk_reads: u64,
    /// Pages written to disk: destages and bypasses.
    pub disk_writes: u64,
    /// Pages evicted newer than the disk copy and newer than the flash copy, i.e. disk writes of a system
    /// without flash.
    pub dirty_evictions: u64,
    /// Pages fetched from disk that also entered the flash (population).
    pub populated: u64,
    /// Pages that would have been populated, but were not because staging was full.
    pub population_dropped: u64,
    /// Changed pages written to disk and not to flash.
    pub bypassed: u64,
    /// Pages that moved to DRAM without a copy left on flash.
    pub moved_up: u64,
    /// Updates of the slot directory on flash: invalidations and validations (TAC).
    pub directory_writes: u64,
    /// Pages evicted that are clean for the flash.
    pub clean_evictions: u64,
    /// Pages dropped because an identical copy is on flash (conditional enqueue).
    pub already_on_flash: u64,
    /// Pages written to flash from staging, second chances included.
    pub flash_writes: u64,
    /// Pages read from flash in order to be destaged or given a second chance.
    pub dequeue_reads: u64,
    /// Second chances given.
    pub second_chances: u64,
    /// Victims pulled from the buffer pool.
    pub pulled: u64,
    /// Valid pages in slots at present.
    pub slots_valid: u64,
    /// Superseded versions in slots at present (duplicates).
    pub slots_superseded: u64,
    /// Valid dirty pages in slots at present.
    pub slots_dirty: u64,
    /// All slots.
    pub slots: u64,
    /// Clean pages found damaged on flash and read from disk instead.
    pub damaged_clean: u64,
    /// Destages of a version that was already on disk (MISSION, traps).
    pub redundant_destages: u64,
    /// Dirty pages copied to disk before their turn, by the task that does so. They stay in the cache.
    pub cleaned: u64,
    /// Hash of every decision, in order.
    pub decision_hash: u64,
    /// What other policies and sizes would make of the load.
    pub forecasts: Forecasts,
}

//! The interface between a buffer pool and the layer below it. The flash tier and the plain disk have the
//! same one (3LA §3): without a flash device the same store is the two-layer baseline.
//!
//! The pool calls [`Layer`]: it fetches and evicts pages, and asks for checkpoints. The layer calls
//! [`Upstream`]: it pulls pages and reports which versions are on disk or durable.

use crate::TierError;
use entresol_core::{Lsn, PageId};
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_format::losses::Losses;
use std::sync::Weak;

/// Where a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the staging groups, in memory, on its way to flash.
    Staging,
    /// On flash.
    Flash,
    /// On disk.
    Disk,
}

/// The answer to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where the page was found.
    pub source: Source,
    /// The page is newer than its disk copy; the frame's `dirty` starts with this.
    pub dirty: bool,
    /// The page is newer than anything the layer holds, for it has moved up (GLB); the frame's `fdirty`
    /// starts with this.
    pub fdirty: bool,
}

/// Which disk a layer stands on, and which log goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The disk.
    pub disk: Uuid,
    /// The log of the database on it; [`Uuid::NIL`]: none was ever used with this disk.
    pub log: Uuid,
    /// The newest session of that log in which this disk took part.
    pub session: Session,
}

/// A page leaving DRAM, or written out by a checkpoint. Its log records are durable up to `lsn` before it is
/// handed over (the WAL rule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Which page.
    pub page: PageId,
    /// LSN of its newest change.
    pub lsn: Lsn,
    /// Newer than the disk copy.
    pub dirty: bool,
    /// Newer than the flash copy (FaCE §3.3).
    pub fdirty: bool,
}

/// What became of a page that was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The evicted version is (or will be) newer than the disk copy: a frame that stays in DRAM keeps
    /// `dirty`.
    pub dirty: bool,
}

/// A layer below the buffer pool: the flash tier, or the disk alone.
pub trait Layer: Send + Sync {
    /// Fills `buffer` (one page) with the newest version of `page`, proved by checksum, id and generation.
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError>;
    /// Whether `page` can be had without the disk: a hint for recovery, without I/O.
    fn is_on_flash(&self, _page: PageId) -> bool {
        false
    }
    /// Takes a page. Returns when the layer holds it (a memory copy in staging, or a completed disk write):
    /// from then on `fetch` serves this version. Waits when staging is full; never drops a page that is
    /// dirty.
    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError>;
    /// As [`Layer::evict`], but returns `None` instead of waiting.
    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError>;
    /// A database checkpoint begins: dirty pages in DRAM will be passed to [`Layer::evict`], then
    /// [`Layer::checkpoint`] called. Until that ends no dirty page moves up, so that none slips past both.
    /// Fetches that began before must be waited for ([`Layer::moves_pages_up`]).
    fn checkpoint_begins(&self) {}
    /// Whether fetched pages may move up, so that DRAM holds the only copy newer than disk.
    fn moves_pages_up(&self) -> bool {
        false
    }
    /// Makes every page evicted so far durable: for the flash tier on flash with its directory (FaCE
    /// §2.3), for LC and the disk alone on disk. Called by a database checkpoint before it writes its record.
    fn checkpoint(&self) -> Result<(), TierError>;
    /// Tells the layer whom to ask for victims and to tell of destages. Called once, before the first fetch.
    fn attach(&self, upstream: Weak<dyn Upstream>);
    /// What the open has found of a log on flash; `None` where there is none, or where it began empty.
    fn survivors(&self) -> Option<&Survivors> {
        None
    }
    /// Pages that fit on the disk: numbers from this one on cannot be written.
    fn capacity_pages(&self) -> u64;
    /// What the disk's label says, read from the disk.
    fn binding(&self) -> Result<Binding, TierError>;
    /// A session of the database begins: its label names `log` and `session`, durably, before this returns.
    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError>;
    /// Counters since open.
    fn metrics(&self) -> TierMetrics;
    /// Ends background work after draining staging. The directory is made durable, so the next open is warm.
    fn close(&self) -> Result<(), TierError>;
}

/// A group of a log on flash that was told to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableGroup {
    /// The epoch that wrote it.
    pub epoch: u64,
    /// Its number, counted from the first ever.
    pub number: u64,
}

/// What an open has found of a log on flash, to be compared with what was told to be durable. The newest
/// groups lie beyond what the flash itself knows to have been durable: damaged or lost, they look like groups
/// that were never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// The epoch that begins; all groups were written in earlier ones.
    pub epoch: u64,
    /// One past the number of the last group.
    pub rear: u64,
    /// Groups before it of which something counts as never written.
    pub missing: Vec<u64>,
    /// What opens before this one had not found.
    pub losses: Losses,
}

impl Survivors {
    /// Whether all of `group` is there; no may be wrong for groups of epochs long past.
    pub fn have(&self, group: DurableGroup) -> bool {
        let DurableGroup { epoch, number } = group;
        number < self.rear && !self.missing.contains(&number) && !self.losses.cover(epoch, number)
    }
}

/// What a layer asks of the buffer pool above it.
pub trait Upstream: Send + Sync {
    /// Evict up to `pages` of the coldest frames with [`Layer::try_evict`] (FaCE GSC, §3.3). Returns how many
    /// went. Must not wait for the layer.
    fn pull_victims(&self, pages: usize) -> usize;
    /// The version of `page` with `lsn` is now on disk: a frame holding it unchanged is no longer `dirty`.
    fn destaged(&self, page: PageId, lsn: Lsn);
    /// These versions, newer than disk when they were evicted, will survive a crash: a restart need not
    /// redo what is in them. May be told late or not at all. Must not wait for the layer. `group`: with which
    /// they were written to flash, to be compared with [`Layer::survivors`] at a restart; `None`: they are on
    /// disk.
    fn durable(&self, _pages: &[(PageId, Lsn)], _group: Option<DurableGroup>) {}
}

/// Counters of a layer since it was opened. All in pages unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierMetrics {
    /// Fetches served from staging.
    pub staging_hits: u64,
    /// Fetches served from flash.
    pub flash_hits: u64,
    /// Fetches served from disk.
    pub disk_reads: u64,
    /// Pages written to disk: destages, and dirty pages that bypassed the flash.
    pub disk_writes: u64,
    /// Pages evicted newer than the disk copy and newer than the flash copy, i.e. that would have been
    /// disk writes without a flash layer.
    pub dirty_evictions: u64,
    /// Pages that came from disk and entered the flash on their way up (population).
    pub populated: u64,
    /// Pages that may have, but were left out because staging was full.
    pub population_dropped: u64,
    /// Changed pages that went to disk and not to flash.
    pub bypassed: u64,
    /// Pages that moved up and left no copy behind.
    pub moved_up: u64,
    /// Updates of the slot directory on flash: invalidations and validations (TAC).
    pub directory_writes: u64,
    /// Clean (for the flash) pages evicted.
    pub clean_evictions: u64,
    /// Pages that were dropped because an identical copy is on flash (conditional enqueue).
    pub already_on_flash: u64,
    /// Pages written to flash from staging, second chances included.
    pub flash_writes: u64,
    /// Pages read from flash in order to be destaged or given a second chance.
    pub dequeue_reads: u64,
    /// Second chances given.
    pub second_chances: u64,
    /// Victims pulled from the buffer pool.
    pub pulled: u64,
    /// Valid pages in slots now.
    pub slots_valid: u64,
    /// Superseded versions in slots now (duplicates).
    pub slots_superseded: u64,
    /// Valid pages in slots now that are newer than disk.
    pub slots_dirty: u64,
    /// Slots there are.
    pub slots: u64,
    /// Clean pages found damaged on flash and read from disk instead.
    pub damaged_clean: u64,
    /// Destages of a version that disk already had (MISSION, traps).
    pub redundant_destages: u64,
    /// Hash of every decision taken, in order.
    pub decision_hash: u64,
}

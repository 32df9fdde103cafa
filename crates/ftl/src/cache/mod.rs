//! Flash caches that are their own translation layer: RFDB/WFDB and FlashTier (thesis §2.4, §3).
//!
//! Here the cache decides by erase blocks: which block is dropped, and which page is worth a block of which
//! kind. So they are not policies of the core, whose slots are pages on a drive that hides its blocks; they
//! are machines of their own, with the core's words: a page is *fetched*, *arrives* from disk, is *evicted*
//! by DRAM. Like the core they do no I/O and know no time: they report their work on the chip, and a driver
//! makes time of it.
//!
//! Both are write-through caches (thesis §4.1.2): a driver writes every dirty page to disk itself, so that
//! nothing here is ever newer than the disk, and dropping loses nothing.
//!
//! Invariants: a page is found in one place only, the write buffer before the chip; a version older than the
//! last one evicted is never found; equal events give equal decisions ([`BlockCache::decision_hash`]).

mod admission;
mod filling;
mod flashtier;
mod read_blocks;
mod rwfdb;
mod write_blocks;
mod write_buffer;

pub use admission::{Admission, Thresholds};
pub use flashtier::{Fill, FlashTier, FlashTierConfig};
pub use rwfdb::{Returned, RwFdb, RwFdbConfig, Update};

use crate::counters::Counters;
use crate::layer::Ftl;
use std::ops::Range;
use thiserror::Error;

/// A page of the database: its number on the disk. Neighbours on disk are neighbours here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPage(pub u32);

/// Where a fetched page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// In the write buffer, in DRAM.
    Buffered,
    /// On flash.
    Flash,
    /// Only on disk.
    Absent,
}

/// Sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// Pages of the disk.
    pub disk_pages: u32,
    /// Flash pages (4 KiB) of a database page: 1, 2 or 4.
    pub unit_pages: u32,
    /// Erase blocks of the chip, those for the log and the spare ones included.
    pub blocks: u32,
    /// Flash pages of an erase block (the thesis: 64).
    pub block_pages: u32,
    /// Write buffer, database pages.
    pub buffer: u32,
}

/// Fewest erase blocks of a chip: data, log and spare blocks of each kind.
pub const BLOCKS_MIN: u32 = 16;

/// Why a cache cannot be made.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CacheError {
    /// Database pages do not fill erase blocks evenly.
    #[error(
        "a block of {block_pages} flash pages does not hold a whole number of database pages of {unit_pages}"
    )]
    Unit {
        /// Flash pages of a block.
        block_pages: u32,
        /// Flash pages of a database page.
        unit_pages: u32,
    },
    /// Too few erase blocks.
    #[error(
        "{found} erase blocks are too few for data, log and spare blocks; at least {BLOCKS_MIN} are needed"
    )]
    Blocks {
        /// Blocks asked for.
        found: u32,
    },
    /// Too many pages.
    #[error("{what} of {pages} flash pages is larger than the model's {max}")]
    Pages {
        /// A disk or a chip.
        what: &'static str,
        /// Its flash pages.
        pages: u64,
        /// Most flash pages.
        max: u64,
    },
    /// The write buffer is needed.
    #[error("rwfdb needs a write buffer of at least one page")]
    Buffer,
    /// A share that is none.
    #[error("the share of write-frequent blocks is between 0 and 1, not {per_mille} per mille")]
    Share {
        /// The share asked for, in thousandths.
        per_mille: u32,
    },
}

impl CacheSizes {
    /// Most flash pages of a disk or a chip: place numbers have 31 bits.
    const PAGES_MAX: u64 = 1 << 31;

    /// Says whether such a cache is possible.
    ///
    /// # Errors
    /// [`CacheError`] names the impossible option.
    pub fn validate(&self) -> Result<(), CacheError> {
        let Self { disk_pages, unit_pages, blocks, block_pages, .. } = *self;
        if unit_pages == 0 || block_pages == 0 || block_pages % unit_pages != 0 {
            return Err(CacheError::Unit { block_pages, unit_pages });
        }
        if blocks < BLOCKS_MIN {
            return Err(CacheError::Blocks { found: blocks });
        }
        let sizes = [("a disk", disk_pages, unit_pages), ("a chip", blocks, block_pages)];
        for (what, count, pages) in sizes {
            let (pages, max) = (u64::from(count) * u64::from(pages), Self::PAGES_MAX);
            if pages >= max {
                return Err(CacheError::Pages { what, pages, max });
            }
        }
        Ok(())
    }

    /// Database pages of an erase block.
    pub fn block_units(&self) -> u32 {
        self.block_pages / self.unit_pages
    }
}

/// The work of a cache, in database pages. Sums only grow. The work of its chip is in [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Pages fetched.
    pub reads: u64,
    /// Of these, found in the write buffer.
    pub buffer_hits: u64,
    /// Of these, found on flash.
    pub flash_hits: u64,
    /// Pages evicted by DRAM, all dirty.
    pub writes: u64,
    /// Of these, with an older version in the cache.
    pub write_hits: u64,
    /// Pages read from disk, those read ahead for a whole block included.
    pub disk_reads: u64,
    /// Pages that moved from the write buffer to a read-frequent block (or to the only kind).
    pub read_frequent: u64,
    /// Pages that moved from the write buffer to a write-frequent block.
    pub write_frequent: u64,
    /// Pages that were dropped from the write buffer.
    pub unadmitted: u64,
    /// Pages that came back to the write buffer from an evicted read-frequent block.
    pub returned: u64,
    /// Read-frequent blocks evicted.
    pub evictions: u64,
}

/// What happened since an earlier reading of the same counters.
impl std::ops::Sub for CacheCounters {
    type Output = CacheCounters;
    fn sub(self, earlier: CacheCounters) -> CacheCounters {
        CacheCounters {
            reads: self.reads - earlier.reads,
            buffer_hits: self.buffer_hits - earlier.buffer_hits,
            flash_hits: self.flash_hits - earlier.flash_hits,
            writes: self.writes - earlier.writes,
            write_hits: self.write_hits - earlier.write_hits,
            disk_reads: self.disk_reads - earlier.disk_reads,
            read_frequent: self.read_frequent - earlier.read_frequent,
            write_frequent: self.write_frequent - earlier.write_frequent,
            unadmitted: self.unadmitted - earlier.unadmitted,
            returned: self.returned - earlier.returned,
            evictions: self.evictions - earlier.evictions,
        }
    }
}

/// How well a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Reads answered by the cache / reads.
    pub hit_rate: f64,
    /// Reads and writes of pages that the cache had / reads and writes.
    pub hit_rate_all: f64,
    /// Cache-level write amplification: flash pages that the cache wrote (population, write buffer, pages
    /// that came back) / flash pages that the workload wrote (HEC; thesis §2.3).
    pub clwa: f64,
    /// Flash-level write amplification: flash pages that the chip's own management wrote (garbage collection,
    /// merges) / flash pages that the workload wrote.
    pub flwa: f64,
    /// Times that space was made: log blocks merged, blocks evicted silently or by the cache.
    pub gc_count: u64,
}

impl Measures {
    /// From what happened in a stretch of time.
    pub fn of(cache: &CacheCounters, chip: &Counters, unit_pages: u32) -> Self {
        let over = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let written = cache.writes * u64::from(unit_pages);
        let hits = cache.buffer_hits + cache.flash_hits;
        Self {
            hit_rate: over(hits, cache.reads),
            hit_rate_all: over(hits + cache.write_hits, cache.reads + cache.writes),
            clwa: over(chip.host_writes, written),
            flwa: over(chip.copies, written),
            gc_count: chip.reclaims() + cache.evictions,
        }
    }

    /// Total write amplification: CLWA + FLWA.
    pub fn twaf(&self) -> f64 {
        self.clwa + self.flwa
    }
}

/// A flash cache that is its own translation layer.
pub trait BlockCache {
    /// DRAM misses `page`: where is it? If it is absent, read [`BlockCache::population`] from disk and report
    /// it with [`BlockCache::arrived`].
    fn fetch(&mut self, page: HostPage) -> Lookup;
    /// The pages to be read from disk when `page` is absent: itself, and neighbours where whole blocks are
    /// cached.
    fn population(&self, page: HostPage) -> Range<u32>;
    /// The population of `page`, which was absent, has been read from disk.
    fn arrived(&mut self, page: HostPage);
    /// DRAM evicts `page`, which it has changed. The driver writes it to disk, too. (Clean pages are not
    /// evicted: the cache's copies are equal.)
    fn evict(&mut self, page: HostPage);
    /// Whether a page would be found, without counting as a reference.
    fn contains(&self, page: HostPage) -> bool;
    /// Sizes.
    fn sizes(&self) -> &CacheSizes;
    /// The work so far.
    fn counters(&self) -> CacheCounters;
    /// The translation layer below: what its chip did so far, and its wear.
    fn chip(&self) -> &dyn Ftl;
    /// Hash of every decision so far: equal events give equal hashes.
    fn decision_hash(&self) -> u64;
    /// Asserts the cache's invariants.
    ///
    /// # Panics
    /// If one is broken.
    fn check(&self);
}

/// A hash over decisions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decisions(u64);

impl Decisions {
    pub fn note(&mut self, kind: u32, page: u32) {
        let mixed = (self.0 ^ (u64::from(kind) << 32 | u64::from(page))).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    pub fn hash(self) -> u64 {
        self.0
    }
}

//! The layers below DRAM, as the replay sees them: one interface for the disk alone ([`Bare`]), for a flash
//! cache under a policy of the core ([`Cached`]), for SCE's cache of fragments ([`Fragmented`]), and for
//! caches that are their own flash translation layer ([`Blocks`]).
//!
//! Invariant: a tier does at once what is to be done, in the order of the events; times are added up beside
//! that and never decide anything. So equal events give equal decisions, in whatever time they come.
//! ([`Fragmented`] is the exception: which of its workers is free depends on the devices.)

mod backlog;
mod bare;
mod beside;
mod blocks;
mod cached;
mod chip;
mod disk;
mod drive;
mod exchange;
mod fragments;
mod inline;

pub use bare::Bare;
pub use beside::Beside;
pub use blocks::Blocks;
pub use cached::Cached;
pub use chip::ChipSpeed;
pub use exchange::{EXCHANGES_MAX, Exchange, Exchanged};
pub use fragments::Fragmented;
pub use inline::{BLOCK_BYTES, Inline};

use super::pool::{Order, Pool, Victim};
use entresol_engine::{Source, TierMetrics};
use entresol_ftl::Counters;
use entresol_ftl::cache::CacheCounters;
use entresol_runtime::Time;

/// The answer to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where the page was found.
    pub source: Source,
    /// [`super::pool::DIRTY`] and [`super::pool::FDIRTY`] of its frame.
    pub flags: u8,
    /// When it is in DRAM.
    pub done: Time,
}

/// A layer below DRAM.
pub trait Layer {
    /// Touches in memory what a fetch of any of `pages` will look at, so that several are fetched at once
    /// instead of one after the other. Returns a number that depends on all of it, lest the compiler leaves
    /// it out.
    #[inline(always)]
    fn warm(&self, _pages: impl Iterator<Item = u32>) -> u32 {
        0
    }
    /// DRAM misses `page` at `now`. `pool` has the pages that the policy pulls.
    fn fetch(&mut self, page: u32, now: Time, pool: &mut Pool<impl Order>) -> Fetched;
    /// DRAM evicts a page at `now`. Returns the time at which its frame is free.
    fn evict(&mut self, victim: Victim, now: Time, pool: &mut Pool<impl Order>) -> Time;
    /// Writes everything that is newer than disk there; when is that done?
    fn flush(&mut self, now: Time, pool: &mut Pool<impl Order>) -> Time;
    /// Of the pages with a base before checkpoint `number` of the owner, copies one in `parts` to disk, at
    /// `now`. Returns how many.
    fn bring_to_disk(&mut self, _number: u64, _parts: u32, _now: Time, _pool: &mut Pool<impl Order>) -> u64 {
        0
    }
    /// The number of the checkpoint from which on the owner's log replaces the flash; `u64::MAX`: the disk
    /// has everything.
    fn horizon(&mut self, _now: Time, _pool: &mut Pool<impl Order>) -> u64 {
        u64::MAX
    }
    /// The owner's checkpoint `number` is complete.
    fn checkpoint_complete(&mut self, _number: u64) {}
    /// Forgets what was counted so far.
    fn begin_measurement(&mut self);
    /// What was done.
    fn totals(&self) -> Totals;
}

/// What a tier has done while it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// In the engine's words.
    pub tier: TierMetrics,
    /// Device access time of flash, nanoseconds (3LA eq. 6).
    pub flash_ns: u64,
    /// Device access time of the disk, nanoseconds (3LA eq. 7).
    pub disk_ns: u64,
    /// Pages that the flash translation layer copied, where one is modelled.
    pub copied: Option<u64>,
    /// Its garbage collections.
    pub collections: Option<u64>,
    /// Pages read from disk without a request: the rest of the requested blocks,
    /// populations.
    pub read_ahead: u64,
    /// What the cache and its chip counted, where the cache is its own translation layer.
    pub chip: Option<(CacheCounters, Counters)>,
    /// Changes of the policy since the run began.
    pub exchanged: Vec<Exchanged>,
}

//! The layers below DRAM, as the replay sees them: one interface for the disk alone ([`Bare`]), for a flash
//! cache under a policy of the core ([`Cached`]), for SCE's cache of fragments ([`Fragmented`]), and for
//! caches that are their own flash translation layer ([`Blocks`]).
//!
//! Invariant: a tier does at once what is to be done, in the order of the events; times are added up beside
//! that and never decide anything. So equal events give equal decisions, in whatever time they come.
//! ([`Fragmented`] is the exception: which of its workers is free depends on the devices.)

mod backlog;
mod bare;
mod blocks;
mod cached;
mod chip;
mod drive;
mod fragments;
mod inline;

pub use bare::Bare;
pub use blocks::Blocks;
pub use cached::Cached;
pub use chip::ChipSpeed;
pub use fragments::Fragmented;
pub use inline::{BLOCK_BYTES, Inline};

use super::pool::{Departed, Order, Pool};
use entresol_engine::TierMetrics;
use entresol_ftl::Counters;
use entresol_ftl::cache::CacheCounters;
use entresol_runtime::Time;

/// Where a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// On flash, or in memory on its way there.
    Flash,
    /// On disk.
    Disk,
}

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

/// What a tier asks of the layer above, as the engine's `Upstream` does.
pub trait Above {
    /// Pages that may be pulled now, of `wanted`.
    fn room_to_pull(&self, wanted: u32) -> u32;
    /// Takes the coldest page out of DRAM.
    fn take_coldest(&mut self) -> Option<Departed>;
    /// Puts it back, when it cannot be had now.
    fn put_back(&mut self, departed: Departed);
    /// A page was written to disk from flash.
    fn destaged(&mut self, page: u32);
}

/// At most this share of the frames lies free because a tier pulled their pages, as in the store.
const RESERVE_SHARE: u32 = 8;

impl<O: Order> Above for Pool<O> {
    fn room_to_pull(&self, wanted: u32) -> u32 {
        wanted.min((self.frames() / RESERVE_SHARE).saturating_sub(self.free_frames() as u32))
    }
    fn take_coldest(&mut self) -> Option<Departed> {
        Pool::take_coldest(self)
    }
    fn put_back(&mut self, departed: Departed) {
        Pool::put_back(self, departed);
    }
    fn destaged(&mut self, page: u32) {
        Pool::destaged(self, page);
    }
}

/// A layer below DRAM.
pub trait Tier {
    /// Touches in memory what a fetch of any of `pages` will look at, so that several are fetched at once
    /// instead of one after the other. Returns a number that depends on all of it, lest the compiler leaves
    /// it out.
    #[inline(always)]
    fn warm(&self, _pages: impl Iterator<Item = u32>) -> u32 {
        0
    }
    /// DRAM misses `page` at `now`.
    fn fetch(&mut self, page: u32, now: Time, above: &mut impl Above) -> Fetched;
    /// DRAM hands a page down at `now`; when may whoever waits for its frame go on?
    fn evict(&mut self, departed: Departed, now: Time, above: &mut impl Above) -> Time;
    /// Writes everything that is newer than disk there; when is that done?
    fn flush(&mut self, now: Time, above: &mut impl Above) -> Time;
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
    /// Pages read from disk that nobody had asked for: the rest of the blocks of those asked for,
    /// populations.
    pub read_ahead: u64,
    /// What the cache and its chip counted, where the cache is its own translation layer.
    pub chip: Option<(CacheCounters, Counters)>,
}

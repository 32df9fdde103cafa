//! A volume: the bytes of a disk, with a flash cache of its pages.
//!
//! | file | what it does |
//! |---|---|
//! | `ahead` | reads from flash, and writes past it, that the caller carries out, many at once |
//! | `devices` | the devices, and their errors |
//! | `error` | why a request was not carried out |
//! | `metrics` | the metrics of a volume |
//! | `options` | pages under a policy, or SCE's fragments |
//! | `phases` | draining, detaching, another mode, the end |
//! | `replay` | the journal: acknowledged writes of a killed program |
//! | `ranges` | one writer of a page at a time |
//! | `direct` | bytes without a cache |
//! | `parts` | parts of a page |
//! | `request` | the requests of a client |
//! | `settle` | what is made durable before a write has to wait for it |
//! | `seen` | what reports see of the cache, without waiting for it |
//! | `size` | another flash, another size of it, a disk that has grown |
//! | `status`, `report` | the report on a volume, and how it is made |
//! | `trim` | unneeded bytes, and zeros |
//! | `without_cache` | opening the disk alone |
//!
//! Invariants:
//!
//! - A write is visible to all readers at once. A write of a part of a page reads the page, changes it, and
//!   writes it, with the page held; so no write of another part is lost.
//! - A read miss enters the cache only if the page was not written meanwhile: the engine sees to that.
//! - After a trim its bytes are the old ones or zeros, never older ones (`trim`).
//! - With a journal, a write is recorded after the cache has it and before it is acknowledged, while its
//!   pages are held: so records of one page are in the order of its writes. Only in write-back mode: in the
//!   others an acknowledged write is on the disk, which outlives the program.
//! - The bytes after the last whole page of the disk are served by the disk alone.

mod ahead;
mod devices;
mod direct;
mod error;
mod metrics;
mod options;
mod parts;
mod phases;
mod ranges;
mod replay;
mod report;
mod request;
mod seen;
mod settle;
mod size;
mod status;
mod trim;
mod without_cache;

pub use ahead::{Ahead, Past};
pub(crate) use devices::DevicePaths;
pub use error::VolumeError;
pub use options::CacheOptions;
pub(crate) use options::keeps_slots;
pub use phases::{Loss, Watch, told_of_loss};
pub(crate) use replay::{follow_no_journal, journal_is_gone};
pub(crate) use report::Health;
pub(crate) use size::room_on;
pub use size::{NewDevice, NewFlash};
pub use status::{Condition, DeviceStatus, JournalStatus, Lost, RequestCounts, UnderWay, VolumeStatus};

use crate::journal::{Journal, Kind};
use crate::steer::{SteerOptions, Steering, Why};
use devices::{Devices, redoing, redoing_label};
use direct::Direct;
use entresol_core::PageId;
use entresol_device::{BufferPool, Device};
use entresol_engine::{AlignedBuffer, InPlaceDisk, PageCache, ReadRoute, TierError};
use entresol_runtime::sync::{Begun, Mutex, Rank, RwLock};
use entresol_runtime::{Time, now};
use ranges::Ranges;
use seen::Seen;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Offsets and lengths of requests are multiples of it, in bytes.
pub const SECTOR_BYTES: u64 = 512;
/// Most pages that a request has from the cache, or writes to it, at once.
const RUN_PAGES_MAX: u64 = 64;
/// Most pages of memory that are kept for the next requests of parts of pages.
const PAGES_KEPT: usize = 16;

/// The cache of a volume.
struct Cache {
    tier: Arc<dyn PageCache>,
    /// `None`: it has failed, and is not there.
    flash: Option<Arc<dyn Device>>,
    options: CacheOptions,
}

/// A disk with a flash cache. See the module's header.
pub struct Volume {
    home: Arc<InPlaceDisk>,
    page_bytes: u64,
    bytes: AtomicU64,
    /// `None`: the disk alone serves. Held shared by each request.
    cache: RwLock<Option<Cache>>,
    /// Writes past the flash that their callers carry out: they do not hold the cache.
    begun_writes: Begun,
    /// Held by the change that is under way.
    turns: Mutex<()>,
    /// The volume is being closed.
    is_closing: AtomicBool,
    seen: Seen,
    devices: Devices,
    direct: Direct,
    ranges: Ranges,
    journal: Option<Journal>,
    steering: Steering,
    passes_trims: AtomicBool,
    /// Memory for the pages of which requests need a part.
    pages: BufferPool,
    at_start: AtStart,
}

/// The findings of the open.
struct AtStart {
    opened: Time,
    /// The notices for the owner.
    notices: Vec<String>,
    /// The journal that the label named was gone: acknowledged writes may be missing.
    journal_missing: bool,
}

impl Volume {
    /// Makes a new, empty cache on `flash` for `disk`. The disk's label is written into `label`, which must
    /// be blank. No byte of the disk is changed.
    ///
    /// # Errors
    /// As [`InPlaceDisk::create`] and [`entresol_engine::FlashTier::create`].
    pub fn create(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
        options: impl Into<CacheOptions>,
    ) -> Result<Self, TierError> {
        let options = options.into();
        let devices = Devices::default();
        let (disk, label, flash) = devices.counted(disk, label, flash);
        let home = InPlaceDisk::create(redoing(disk, &label), redoing_label(label), options.page_bytes())?;
        let tier = options.create(&flash, &home)?;
        let cache = Cache { tier, flash: Some(flash), options };
        Ok(Self::assemble(home, cache.options.page_bytes(), Some(cache), devices))
    }

    /// Opens the cache on `flash` for `disk`, after a shutdown or a crash. Returns messages for the owner,
    /// too. A journal from before is not carried out any more.
    ///
    /// # Errors
    /// As [`InPlaceDisk::open`] and [`entresol_engine::FlashTier::open`].
    pub fn open(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
        options: impl Into<CacheOptions>,
    ) -> Result<(Self, Vec<String>), TierError> {
        let (mut volume, mut notices) = Self::open_as_it_is(disk, label, flash, options.into())?;
        let is_named = match &*volume.cache.read() {
            Some(cache) => follow_no_journal(&*cache.tier)?,
            None => false,
        };
        if is_named {
            notices.push(volume.lacks_its_journal(None));
        }
        Ok((volume, notices))
    }

    /// Remembers the owner's notices of the open, and the devices' paths, for [`VolumeStatus`].
    pub(crate) fn was_told(&mut self, notices: &[String], paths: DevicePaths) {
        self.at_start.notices.extend_from_slice(notices);
        self.devices.are_at(paths);
    }

    /// As [`Volume::open`]; the label still names the earlier journal.
    fn open_as_it_is(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
        options: CacheOptions,
    ) -> Result<(Self, Vec<String>), TierError> {
        let devices = Devices::default();
        let (disk, label, flash) = devices.counted(disk, label, flash);
        let (home, changed) = InPlaceDisk::open(redoing(disk, &label), redoing_label(label))?;
        let (tier, told) = options.open(&flash, &home)?;
        let notices = changed.into_iter().chain(told).collect();
        let options = options.for_a_new_life();
        let cache = Cache { tier, flash: Some(flash), options };
        Ok((Self::assemble(home, cache.options.page_bytes(), Some(cache), devices), notices))
    }

    /// Sets the options of the bypass.
    pub fn steer(&self, options: SteerOptions) {
        let held = self.cache.read();
        let flash = held.as_ref().and_then(|cache| cache.flash.as_ref());
        let flash_bytes = flash.map_or(0, |flash| flash.geometry().capacity_bytes);
        self.steering.set(options, flash_bytes);
        held.iter().for_each(|cache| self.limit_dirt(&*cache.tier));
    }

    /// The owner's limits of dirty pages hold for this cache, too.
    fn limit_dirt(&self, tier: &dyn PageCache) {
        tier.set_writeback(self.steering.writeback(tier.metrics().slots));
    }

    /// Whether a sequential stream of `stream_bytes` bypasses the cache.
    pub fn is_long(&self, stream_bytes: u64) -> bool {
        self.steering.is_long(stream_bytes)
    }

    fn assemble(home: Arc<InPlaceDisk>, page_bytes: u32, cache: Option<Cache>, devices: Devices) -> Self {
        let direct = Direct::new(home.clone());
        let at_start = AtStart { opened: now(), notices: Vec::new(), journal_missing: false };
        Self {
            bytes: AtomicU64::new(direct.bytes()),
            home,
            page_bytes: page_bytes.into(),
            seen: Seen::of(cache.as_ref()),
            devices,
            cache: RwLock::new(Rank::Volume, cache),
            begun_writes: Begun::new(Rank::InFlight),
            turns: Mutex::new(Rank::VolumeChange, ()),
            is_closing: AtomicBool::new(false),
            direct,
            ranges: Ranges::new(),
            journal: None,
            steering: Steering::new(),
            passes_trims: AtomicBool::new(false),
            pages: BufferPool::new(page_bytes as usize, PAGES_KEPT),
            at_start,
        }
    }

    /// Size in bytes, a multiple of [`SECTOR_BYTES`].
    pub fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Bytes of a page of the cache: requests of whole pages are the best.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.bytes());
        if is_inside && offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES) {
            return Ok(());
        }
        Err(VolumeError::Range { offset, length, bytes: self.bytes() })
    }

    /// How many of `length` bytes at `offset` the cache serves: those of the disk's whole pages.
    fn cached_part(&self, cache: Option<&Cache>, offset: u64, length: u64) -> u64 {
        let end = if cache.is_some() { self.bytes() / self.page_bytes * self.page_bytes } else { 0 };
        end.saturating_sub(offset).min(length)
    }

    /// The pieces of a range: whole pages, at most [`RUN_PAGES_MAX`] of them, or a part of one.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + use<> {
        self.pieces_of(offset, length, RUN_PAGES_MAX)
    }

    /// As [`Volume::pieces`], with so many whole pages at most.
    fn pieces_of(&self, offset: u64, length: u64, pages_max: u64) -> impl Iterator<Item = Piece> + use<> {
        let (page_bytes, end) = (self.page_bytes, offset + length);
        let mut at = offset;
        std::iter::from_fn(move || {
            let (page, within) = (at / page_bytes, at % page_bytes);
            let left = end - at;
            if left == 0 {
                return None;
            }
            let whole = if within == 0 { (left / page_bytes).min(pages_max) } else { 0 };
            let length = if whole > 0 { whole * page_bytes } else { left.min(page_bytes - within) };
            let from = (at - offset) as usize;
            at += length;
            let place = from..from + length as usize;
            Some(Piece { page, pages: whole.max(1), is_whole: whole > 0, within: within as usize, place })
        })
    }

    /// Reads from `offset` on.
    ///
    /// # Errors
    /// [`VolumeError`]; then the buffer has anything.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        self.read_of_stream(offset, buffer, false)
    }

    /// As [`Volume::read`]; a read of a long sequential stream bypasses the cache.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read_of_stream(
        &self,
        offset: u64,
        buffer: &mut [u8],
        is_sequential: bool,
    ) -> Result<(), VolumeError> {
        self.check(offset, buffer.len() as u64)?;
        let cache = self.cache.read();
        let cached = self.cached_part(cache.as_ref(), offset, buffer.len() as u64);
        let (by_cache, by_disk) = buffer.split_at_mut(cached as usize);
        if let Some(Cache { tier, .. }) = &*cache {
            self.steering.tick_if_due(&**tier);
            // Past the flash, one request to the disk.
            let pages_max = if is_sequential { u64::MAX } else { RUN_PAGES_MAX };
            for piece in self.pieces_of(offset, cached, pages_max) {
                let bytes = &mut by_cache[piece.place.clone()];
                if piece.is_whole {
                    self.read_whole(&**tier, PageId(piece.page), bytes, is_sequential)?;
                } else {
                    self.read_part(&**tier, &piece, bytes)?;
                }
            }
        }
        self.direct.read(offset + cached, by_disk)
    }

    /// Reads whole pages, as the steering says.
    fn read_whole(
        &self,
        tier: &dyn PageCache,
        first: PageId,
        bytes: &mut [u8],
        is_sequential: bool,
    ) -> Result<(), TierError> {
        let pages = bytes.len() as u64 / self.page_bytes;
        let under_way = self.steering.reads(pages, is_sequential, tier.is_on_flash(first));
        let served = tier.read_pages(first, bytes, under_way.how)?;
        self.steering.was_read(&served, &under_way);
        Ok(())
    }

    /// Writes at `offset`; with `fua` durably, together with all that was written before.
    ///
    /// # Errors
    /// [`VolumeError`]; then any part of it may have been written.
    pub fn write(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), VolumeError> {
        self.write_of_stream(offset, data, fua, false)
    }

    /// As [`Volume::write`]; whole pages of a long sequential stream bypass the cache.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write_of_stream(
        &self,
        offset: u64,
        data: &[u8],
        fua: bool,
        is_sequential: bool,
    ) -> Result<(), VolumeError> {
        self.check(offset, data.len() as u64)?;
        let cache = self.cache.read();
        self.write_some(cache.as_ref(), offset, data, is_sequential)?;
        if fua { self.flush_to(cache.as_ref()) } else { Ok(()) }
    }

    fn write_some(
        &self,
        cache: Option<&Cache>,
        offset: u64,
        data: &[u8],
        is_sequential: bool,
    ) -> Result<(), VolumeError> {
        let cached = self.cached_part(cache, offset, data.len() as u64);
        let (to_cache, to_disk) = data.split_at(cached as usize);
        if let Some(cache @ Cache { tier, .. }) = cache {
            self.steering.tick_if_due(&**tier);
            for piece in self.pieces(offset, cached) {
                let bytes = &to_cache[piece.place.clone()];
                let _held = self.ranges.hold(piece.page..piece.page + piece.pages);
                let around = match piece.is_whole {
                    true => self.write_whole(&**tier, &piece, bytes, is_sequential)?,
                    false if tier.is_at_ceiling() => self.write_part_around(&**tier, &piece, bytes)?,
                    false => self.write_part(&**tier, &piece, bytes).map(|()| false)?,
                };
                let at = piece.page * self.page_bytes + piece.within as u64;
                self.record(cache, if around { Kind::Elsewhere } else { Kind::Data }, at, bytes)?;
            }
        }
        for piece in self.pieces(offset + cached, to_disk.len() as u64) {
            let _held = self.ranges.hold(piece.page..piece.page + piece.pages);
            let at = piece.page * self.page_bytes + piece.within as u64;
            self.direct.write(at, &to_disk[piece.place])?;
        }
        Ok(())
    }

    /// Writes whole pages. True: none of them went to the cache.
    fn write_whole(
        &self,
        tier: &dyn PageCache,
        piece: &Piece,
        bytes: &[u8],
        is_sequential: bool,
    ) -> Result<bool, VolumeError> {
        let (why, begin) = (self.why_around(tier, is_sequential), now());
        let around = match why {
            None => tier.write_pages(PageId(piece.page), bytes).map(|()| 0)?,
            Some(_) => tier.write_around(PageId(piece.page), bytes)?,
        };
        self.steering.was_written(piece.pages, around, begin, why);
        Ok(around == piece.pages)
    }

    /// Why a write of whole pages bypasses the cache, if it does.
    fn why_around(&self, tier: &dyn PageCache, is_sequential: bool) -> Option<Why> {
        let at_ceiling = || tier.is_at_ceiling().then_some(Why::DirtyLimit);
        self.steering.writing(is_sequential).or_else(at_ceiling)
    }

    /// All earlier writes are durable when it returns.
    ///
    /// # Errors
    /// [`VolumeError`]: nothing is known then of the writes since the last flush.
    pub fn flush(&self) -> Result<(), VolumeError> {
        self.flush_to(self.cache.read().as_ref())
    }

    /// Whether the cache has nothing that the disk has not, while the journal still has records: a flush
    /// would end these. Without them a kill leaves nothing that needs the flash.
    pub(crate) fn has_only_records(&self) -> bool {
        let is_clean = || self.seen.cache()?.0.writeback().map(|writeback| writeback.is_clean);
        self.journal.as_ref().is_some_and(|journal| journal.room().1 > 0) && is_clean() == Some(true)
    }

    fn flush_to(&self, cache: Option<&Cache>) -> Result<(), VolumeError> {
        let visible = self.journal.as_ref().map(Journal::mark);
        if let Some(Cache { tier, .. }) = cache {
            tier.flush()?;
        }
        self.direct.flush(cache.map(|cache| &*cache.tier))?;
        self.release(cache, visible)
    }

    /// Reads will follow: pages that only the disk has are offered to the cache.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub fn prefetch(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        self.check(offset, length)?;
        let cache = self.cache.read();
        let cached = self.cached_part(cache.as_ref(), offset, length);
        let Some(Cache { tier, .. }) = &*cache else { return Ok(()) };
        let mut buffer = AlignedBuffer::new((RUN_PAGES_MAX * self.page_bytes) as usize);
        for piece in self.pieces(offset, cached) {
            let pages = piece.page..piece.page + piece.pages;
            if !pages.clone().all(|page| tier.is_on_flash(PageId(page))) {
                let bytes = (piece.pages * self.page_bytes) as usize;
                match tier.read_pages(PageId(piece.page), &mut buffer[..bytes], ReadRoute::Populates) {
                    // The read that follows will be told.
                    Err(
                        TierError::Unreadable { .. } | TierError::Lost { .. } | TierError::Damaged { .. },
                    ) => {}
                    read => _ = read?,
                }
            }
        }
        Ok(())
    }

    /// Whether a read of this range needs no disk: a hint.
    pub fn is_cached(&self, offset: u64, length: u64) -> bool {
        let Some(cache) = self.cache.try_read() else { return false };
        let Some(Cache { tier, .. }) = &*cache else { return false };
        let is_served = self.cached_part(cache.as_ref(), offset, length) == length;
        let pages = offset / self.page_bytes..(offset + length).div_ceil(self.page_bytes);
        is_served && pages.into_iter().all(|page| tier.is_on_flash(PageId(page)))
    }

    /// Why the cache switched itself off and the disk alone serves, if it did.
    pub fn notice(&self) -> Option<String> {
        self.seen.cache()?.0.notice()
    }
}

/// A part of a request.
struct Piece {
    page: u64,
    pages: u64,
    /// It has whole pages.
    is_whole: bool,
    /// Where it begins in its page, in bytes.
    within: usize,
    /// Where it is in the request's data.
    place: std::ops::Range<usize>,
}

//! Reads from flash, and writes past it, that the caller carries out, many at once; and writes into the cache
//! that wait for nothing.
//!
//! Invariants:
//!
//! - A read is as [`Volume::read`] at the time of the begin. It may end after the cache was drained, detached
//!   or opened in another mode: it then returns the volume's content at its begin.
//! - A write past the flash is as [`Volume::write`]: it holds its pages until it has ended, and its record is
//!   in the journal by then. A change of the cache waits for it. One that fails in any step is carried out
//!   anew, by [`Volume::carry_out`], and has its error from there.

use super::ranges::Held;
use super::{Cache, Volume};
use crate::steer::{UnderWay, Why};
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{DeviceError, QueuedFile, ReadPart};
use entresol_engine::{AroundWrite, FLASH_READ_PAGES_MAX, LookedUp, Mode, ReadCounts};
use entresol_runtime::{Time, now};

/// Whole pages that are being read from flash, by the caller.
pub struct Ahead<'a> {
    found: LookedUp,
    pages: u64,
    under_way: UnderWay<'a>,
}

impl Ahead<'_> {
    /// The parts to be read, one after the other.
    pub fn parts(&self) -> ArrayVec<ReadPart, FLASH_READ_PAGES_MAX> {
        self.found.parts()
    }

    /// Where from; `None`: only [`Ahead::read_now`] can.
    pub fn file(&self) -> Option<QueuedFile> {
        self.found.file()
    }

    /// Reads it in the caller's thread. `data` has room for all.
    ///
    /// # Errors
    /// The device's.
    pub fn read_now(&self, data: &mut [u8]) -> Result<(), DeviceError> {
        self.found.read_now(data)
    }
}

/// Whole pages that are being written past the flash, by the caller.
pub struct Past<'a> {
    volume: &'a Volume,
    // Dropped in this order: the pages are held until the write has ended.
    around: Option<AroundWrite>,
    _held: Held<'a>,
    offset: u64,
    pages: u64,
    is_recorded: bool,
    why: Why,
    begin: Time,
}

impl Past<'_> {
    /// The disk's file, and the offset there; `None`: only [`Past::write_now`] can write.
    pub fn place(&self) -> Option<(QueuedFile, u64)> {
        self.around.as_ref()?.place()
    }

    /// Writes it in the caller's thread.
    ///
    /// # Errors
    /// The device's.
    pub fn write_now(&self, data: &[u8]) -> Result<(), DeviceError> {
        self.around.as_ref().map_or(Ok(()), |around| around.write_now(data))
    }
}

impl Drop for Past<'_> {
    fn drop(&mut self) {
        self.around = None;
        self.volume.begun_writes.end();
    }
}

impl Volume {
    /// Begins a read. `None`: the read is no hit of whole pages, or is too long, or the volume is being
    /// reconfigured. Use [`Volume::carry_out`].
    pub fn begin_read(&self, offset: u64, length: u64) -> Option<Ahead<'_>> {
        let held = self.cache.try_read()?;
        let Some(Cache { tier, .. }) = &*held else { return None };
        let (first, pages) = (PageId(offset / self.page_bytes), length / self.page_bytes);
        let is_whole = (offset | length).is_multiple_of(self.page_bytes);
        let is_served = is_whole && self.cached_part(held.as_ref(), offset, length) == length;
        if !is_served || pages > FLASH_READ_PAGES_MAX as u64 || self.steering.may_go_to_disk(pages) {
            return None;
        }
        let found = tier.clone().begin_read(first, pages as usize)?;
        self.steering.tick_if_due(&**tier);
        let under_way = self.steering.reads_flash();
        Some(Ahead { found, pages, under_way })
    }

    /// The caller has read the begun parts. False: it has to be carried out anew, by [`Volume::carry_out`].
    pub fn end_read(&self, ahead: Ahead<'_>, data: &mut [u8]) -> bool {
        let Ahead { found, pages, under_way } = ahead;
        let is_proved = found.end(data);
        if is_proved {
            self.steering.was_read(&ReadCounts { flash: pages, ..ReadCounts::default() }, &under_way);
        }
        is_proved
    }

    /// Writes into the cache, in write-back mode, what need not be durable before a flush. Waits neither for
    /// room nor for another writer. False: there is no room at once, or the write is to bypass the cache, or
    /// is none of whole pages, or the volume is being reconfigured. Use [`Volume::carry_out`]: what is
    /// written may be visible, and is not to be acknowledged.
    pub fn try_write(&self, offset: u64, data: &[u8], is_sequential: bool) -> bool {
        let Some(held) = self.cache.try_read() else { return false };
        let Some(Cache { tier, options, .. }) = &*held else { return false };
        let length = data.len() as u64;
        let is_whole = length > 0 && (offset | length).is_multiple_of(self.page_bytes);
        let is_possible = is_whole && options.mode() == Mode::WriteBack;
        if !is_possible || self.cached_part(held.as_ref(), offset, length) != length {
            return false;
        }
        self.steering.tick_if_due(&**tier);
        let (first, pages) = (offset / self.page_bytes, length / self.page_bytes);
        let Some(_held) = self.ranges.try_hold(first..first + pages) else { return false };
        let (why, begin) = (self.why_around(&**tier, is_sequential), now());
        // Of a page that is dirty there, the cache has the only copy.
        let stays = |page| tier.is_newer(PageId(page));
        if why.is_some() && !(first..first + pages).all(stays)
            || !self.journal.as_ref().is_none_or(|journal| journal.has_room(length))
            || !tier.try_write_pages(PageId(first), data).unwrap_or(false)
        {
            return false;
        }
        self.steering.was_written(pages, 0, begin, why);
        self.try_record(offset, data)
    }

    /// Whether a write of this range goes past the flash, and [`Volume::void_copies`] may help it to begin.
    pub fn has_copies_to_void(&self, offset: u64, length: u64, is_sequential: bool) -> bool {
        let Some(held) = self.cache.try_read() else { return false };
        let Some(Cache { tier, .. }) = &*held else { return false };
        let is_whole = length > 0 && (offset | length).is_multiple_of(self.page_bytes);
        is_whole
            && tier.is_log()
            && self.cached_part(held.as_ref(), offset, length) == length
            && self.why_around(&**tier, is_sequential).is_some()
            && !(offset / self.page_bytes..(offset + length) / self.page_bytes)
                .any(|page| tier.is_newer(PageId(page)))
    }

    /// Writes of these ranges are to begin past the flash: makes clean copies of their pages void, durably,
    /// with one flush of flash for all. A range that another writer has is left out.
    pub fn void_copies(&self, ranges: impl Iterator<Item = (u64, u64)>) {
        let held = self.cache.read();
        let Some(Cache { tier, .. }) = &*held else { return };
        let pages =
            ranges.map(|(offset, length)| offset / self.page_bytes..(offset + length) / self.page_bytes);
        // None of them is waited for, so several may be in one hand.
        let (pages, _held): (Vec<_>, Vec<_>) =
            pages.filter_map(|pages| Some((pages.clone(), self.ranges.try_hold(pages)?))).unzip();
        let pages: Vec<PageId> = pages.into_iter().flatten().map(PageId).collect();
        // What fails here fails again, where there is a reply for it.
        _ = tier.forget_clean_durably(&pages);
    }

    /// Begins a write that is not durable before a flush. `None`: it does not bypass the cache, or has to
    /// wait, or is no write of whole pages, or the volume is being reconfigured. Use [`Volume::carry_out`].
    /// Until it has ended, the caller waits for nothing but its writes.
    pub fn begin_write(&self, offset: u64, length: u64, is_sequential: bool) -> Option<Past<'_>> {
        let held = self.cache.try_read()?;
        let Some(Cache { tier, options, .. }) = &*held else { return None };
        let is_whole = length > 0 && (offset | length).is_multiple_of(self.page_bytes);
        if !is_whole || self.cached_part(held.as_ref(), offset, length) != length {
            return None;
        }
        self.steering.tick_if_due(&**tier);
        let why = self.why_around(&**tier, is_sequential)?;
        let (first, pages) = (offset / self.page_bytes, length / self.page_bytes);
        let _held = self.ranges.try_hold(first..first + pages)?;
        let begin = now();
        let around = tier.clone().begin_around(PageId(first), pages)?;
        if !self.begun_writes.begin() {
            return None;
        }
        let is_recorded = options.mode() == Mode::WriteBack;
        Some(Past { volume: self, around: Some(around), _held, offset, pages, is_recorded, why, begin })
    }

    /// The caller has written the begun write, or has failed to. False: it has to be carried out anew, by
    /// [`Volume::carry_out`].
    pub fn end_write(&self, mut past: Past<'_>, data: &[u8], is_written: bool) -> bool {
        let Some(around) = past.around.take() else { return false };
        if around.end(data, is_written).is_err() || !is_written {
            return false;
        }
        self.steering.was_written(past.pages, past.pages, past.begin, Some(past.why));
        // Without room in the journal it would have to wait for a flush.
        !past.is_recorded || self.try_record_elsewhere(past.offset, data.len() as u64)
    }
}

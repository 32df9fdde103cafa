//! Reads from flash that the caller carries out, many at once.
//!
//! Invariant: as [`Volume::read`] at the time of the begin. It may end after the cache was drained, detached
//! or opened in another mode: it then returns the volume's content at its begin.

use super::{Cache, Volume};
use crate::steer::UnderWay;
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{DeviceError, QueuedFile, ReadPart};
use entresol_engine::{FLASH_READ_PAGES_MAX, LookedUp, ReadCounts};

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
}

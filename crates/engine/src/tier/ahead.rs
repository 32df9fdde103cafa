//! What a caller carries out itself: reads of pages on flash that were looked up
//! ([`LookedUp`](crate::LookedUp)), and writes past the flash ([`AroundWrite`](crate::AroundWrite)).

use super::FlashTier;
use super::requests::writes::Around;
use crate::TierError;
use crate::access::Run;
use crate::interface::FLASH_READ_PAGES_MAX;
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{DeviceError, QueuedFile, ReadPart};

/// Adjacent pages on flash that were looked up, and are to be read.
pub(crate) struct FlashRead(Run<FLASH_READ_PAGES_MAX>);

impl FlashTier {
    /// The file of the flash device, if there is one.
    pub(crate) fn flash_file(&self) -> Option<QueuedFile> {
        self.parts.floor.flash.queued()
    }

    /// See [`PageCache::begin_read`](crate::PageCache::begin_read).
    pub(super) fn look_up(&self, first: PageId, pages: usize) -> Option<FlashRead> {
        if pages > FLASH_READ_PAGES_MAX {
            return None;
        }
        let _guard = self.guard();
        // What fails here fails again, where there is a reply for it.
        self.parts.floor.access.runs.find(first, pages, pages).ok()?.map(FlashRead)
    }

    /// What the caller has to read, one part after the other, into memory for all pages.
    pub(crate) fn parts(&self, read: &FlashRead) -> ArrayVec<ReadPart, FLASH_READ_PAGES_MAX> {
        self.parts.floor.access.runs.parts(&read.0)
    }

    /// Reads at once what was looked up.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn read_now(&self, read: &FlashRead, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.parts.floor.access.runs.read(&read.0, buffer)
    }

    /// Proves what was read. False: read the pages by
    /// [`PageCache::read_pages`](crate::PageCache::read_pages); they have moved meanwhile, or are damaged.
    pub(crate) fn end_read(&self, read: &FlashRead, buffer: &mut [u8]) -> bool {
        let _guard = self.guard();
        let pages = buffer.len() / self.parts.floor.access.flash_pages.page_bytes;
        let proved = self.parts.floor.access.runs.prove(&read.0, buffer);
        let is_proved = proved == pages;
        if is_proved {
            self.parts.floor.access.board.count_flash_hits(pages);
        }
        is_proved
    }

    /// Writes at once what has begun past the flash.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_around_now(&self, around: &Around, data: &[u8]) -> Result<(), DeviceError> {
        self.parts.writes.write_around_now(around, data)
    }

    /// See [`AroundWrite::end`](crate::AroundWrite::end).
    ///
    /// # Errors
    /// It has failed.
    pub(crate) fn end_around(&self, around: Around, data: &[u8], is_written: bool) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.writes.end_around(around, data, is_written)
    }
}

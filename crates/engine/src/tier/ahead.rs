//! Reads that the caller carries out: it looks pages up, reads the flash by its own means, many reads at
//! once, and has the pages proved.
//!
//! Invariant: as [`FlashTier::read_pages`] at the time of the look-up. A page that was overwritten on flash
//! meanwhile is not proved.

use super::FlashTier;
use crate::TierError;
use crate::front::Run;
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{QueuedFile, ReadPart};

impl FlashTier {
    /// Most pages of a [`FlashRead`].
    pub const FLASH_READ_PAGES_MAX: usize = 16;
}

/// Adjacent pages on flash that were looked up, and are to be read.
pub struct FlashRead(Run<{ FlashTier::FLASH_READ_PAGES_MAX }>);

impl FlashTier {
    /// The file of the flash device, if there is one.
    pub fn flash_file(&self) -> Option<QueuedFile> {
        self.parts.floor.flash.queued()
    }

    /// Looks up `pages` pages from `first` on, which count as fetched. `None`: some are not on flash, or
    /// there are too many, or they have to be read by [`FlashTier::read_pages`].
    ///
    /// # Errors
    /// As [`FlashTier::read_pages`].
    pub fn begin_read(&self, first: PageId, pages: usize) -> Result<Option<FlashRead>, TierError> {
        if pages > Self::FLASH_READ_PAGES_MAX {
            return Ok(None);
        }
        let _guard = self.guard();
        Ok(self.parts.floor.front.find_run(first, pages, pages)?.map(FlashRead))
    }

    /// What the caller has to read, one part after the other, into memory for all pages.
    pub fn parts(&self, read: &FlashRead) -> ArrayVec<ReadPart, { FlashTier::FLASH_READ_PAGES_MAX }> {
        self.parts.floor.front.parts(&read.0)
    }

    /// Reads at once what was looked up.
    ///
    /// # Errors
    /// The device's.
    pub fn read_now(&self, read: &FlashRead, buffer: &mut [u8]) -> Result<(), entresol_device::DeviceError> {
        self.parts.floor.front.read_run(&read.0, buffer)
    }

    /// Proves what was read. False: read the pages by [`FlashTier::read_pages`]; they have moved meanwhile,
    /// or are damaged.
    pub fn end_read(&self, read: &FlashRead, buffer: &mut [u8]) -> bool {
        let _guard = self.guard();
        let pages = buffer.len() / self.parts.floor.front.page_bytes();
        let proved = self.parts.floor.front.prove_run(&read.0, buffer);
        let is_proved = proved == pages;
        if is_proved {
            self.parts.floor.front.tallies().flash_hits.add(pages);
        }
        is_proved
    }
}

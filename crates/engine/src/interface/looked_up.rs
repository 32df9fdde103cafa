//! Reads that the caller carries out: it looks pages up, reads the flash by its own means, many reads at
//! once, and has the pages proved.
//!
//! Invariant: as [`PageCache::read_pages`](super::PageCache::read_pages) at the time of the look-up. A page
//! that was overwritten on flash meanwhile is not proved.

use crate::fragments::{FragmentRead, FragmentTier};
use crate::tier::{FlashRead, FlashTier};
use arrayvec::ArrayVec;
use entresol_device::{DeviceError, QueuedFile, ReadPart};
use std::sync::Arc;

/// Most pages of a [`LookedUp`].
pub const FLASH_READ_PAGES_MAX: usize = 16;

/// Adjacent pages on flash that were looked up, in a cache of either kind, and are to be read.
pub struct LookedUp(OfCache);

#[expect(clippy::large_enum_variant, reason = "one for each read under way, on a stack")]
enum OfCache {
    Pages(Arc<FlashTier>, FlashRead),
    Fragments(Arc<FragmentTier>, FragmentRead),
}

impl LookedUp {
    pub(crate) fn pages(tier: Arc<FlashTier>, read: FlashRead) -> Self {
        Self(OfCache::Pages(tier, read))
    }

    pub(crate) fn fragments(tier: Arc<FragmentTier>, read: FragmentRead) -> Self {
        Self(OfCache::Fragments(tier, read))
    }

    /// What the caller has to read, one part after the other, into memory for all pages.
    pub fn parts(&self) -> ArrayVec<ReadPart, FLASH_READ_PAGES_MAX> {
        match &self.0 {
            OfCache::Pages(tier, read) => tier.parts(read),
            OfCache::Fragments(tier, read) => tier.parts(read),
        }
    }

    /// The file of the flash device; `None`: only [`LookedUp::read_now`] can read it.
    pub fn file(&self) -> Option<QueuedFile> {
        match &self.0 {
            OfCache::Pages(tier, _) => tier.flash_file(),
            OfCache::Fragments(tier, _) => tier.flash_file(),
        }
    }

    /// Reads it in the caller's thread. `buffer` has room for all pages.
    ///
    /// # Errors
    /// The device's.
    pub fn read_now(&self, buffer: &mut [u8]) -> Result<(), DeviceError> {
        match &self.0 {
            OfCache::Pages(tier, read) => tier.read_now(read, buffer),
            OfCache::Fragments(tier, read) => tier.read_now(read, buffer),
        }
    }

    /// Proves what was read. False: the pages have moved meanwhile, or are damaged, and are to be read by
    /// [`PageCache::read_pages`](super::PageCache::read_pages).
    pub fn end(&self, buffer: &mut [u8]) -> bool {
        match &self.0 {
            OfCache::Pages(tier, read) => tier.end_read(read, buffer),
            OfCache::Fragments(tier, read) => tier.end_read(read, buffer),
        }
    }
}

//! Writes past the flash that the caller carries out: it begins them, writes the disk by its own means, many
//! at once, and has them ended.
//!
//! Invariant: from its begin to its end, a write excludes other writes of its pages to disk, and no read of
//! one enters the flash. Meanwhile its caller waits for nothing but its writes: others may wait for their
//! end.

use crate::TierError;
use crate::tier::{Around, FlashTier};
use entresol_device::{DeviceError, QueuedFile};
use std::sync::Arc;

/// Adjacent pages that are being written to disk alone, by the caller. Dropped, it has failed.
pub struct AroundWrite {
    tier: Arc<FlashTier>,
    /// `None`: it has ended.
    around: Option<Around>,
}

impl AroundWrite {
    pub(crate) fn new(tier: Arc<FlashTier>, around: Around) -> Self {
        Self { tier, around: Some(around) }
    }

    /// Where to write: the disk's file, and the offset there. `None`: only [`AroundWrite::write_now`] can.
    pub fn place(&self) -> Option<(QueuedFile, u64)> {
        let place = &self.around.as_ref()?.place;
        Some((place.file.clone()?, place.offset))
    }

    /// Writes the pages in the caller's thread.
    ///
    /// # Errors
    /// The device's.
    pub fn write_now(&self, data: &[u8]) -> Result<(), DeviceError> {
        let around = self.around.as_ref().expect("it has not ended");
        self.tier.write_around_now(around, data)
    }

    /// The caller has written the pages, or has failed to: then they may have any content on disk, and are to
    /// be written by [`PageCache::write_around`](super::PageCache::write_around).
    ///
    /// # Errors
    /// As there: it has failed.
    pub fn end(mut self, data: &[u8], is_written: bool) -> Result<(), TierError> {
        let around = self.around.take().expect("it has not ended");
        self.tier.end_around(around, data, is_written)
    }
}

impl Drop for AroundWrite {
    fn drop(&mut self) {
        if let Some(around) = self.around.take() {
            // Its caller carries it out anew.
            let _ = self.tier.end_around(around, &[], false);
        }
    }
}

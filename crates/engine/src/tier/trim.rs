//! What a trim needs, of pages that their owner's client gives up: they leave the cache for good, and
//! nothing brings them back while the disk makes zeros of them.

use super::FlashTier;
use crate::TierError;
use crate::front::Front;
use entresol_core::PageId;
use entresol_shm::Gone;

/// Pages that no read brings into the flash until this is dropped, nor a read that began before the drop.
struct KeptOut<'a>(&'a Front, (PageId, PageId));

impl<'a> KeptOut<'a> {
    fn begin(front: &'a Front, pages: (PageId, PageId)) -> Result<Self, Gone> {
        front.with(|_| front.order.writes_begin(pages))?;
        Ok(Self(front, pages))
    }
}

impl Drop for KeptOut<'_> {
    fn drop(&mut self) {
        let Self(front, pages) = self;
        // Where the memory is given up, so is the order.
        let _ = front.step(|_| front.order.writes_end(*pages));
    }
}

impl FlashTier {
    /// As [`FlashTier::forget`], and when it returns, no crash finds copies of these pages any more.
    ///
    /// # Errors
    /// What failed: the tier's.
    pub fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        let found = self.forget(first, last)?;
        // A page that is not in the cache may have a record, too: a crash would find its last slot.
        if self.parts.floor.front.with(|partition| partition.log().map_or(0, |log| log.records_waiting()))?
            > 0
        {
            self.flush()?;
        }
        Ok(found)
    }

    /// Does `work`, which changes the pages from `first` to `last` on disk behind the cache. No read brings
    /// one of them into the cache meanwhile, nor does one that began before `work` ended and ends later: it
    /// may have met what the disk had before. Their copies in the cache stay as they are.
    ///
    /// # Errors
    /// [`TierError::Gone`]; then `work` is not done.
    pub fn keep_out<R>(&self, first: PageId, last: PageId, work: impl FnOnce() -> R) -> Result<R, TierError> {
        let _guard = self.guard();
        let _out = KeptOut::begin(&self.parts.floor.front, (first, last))?;
        Ok(work())
    }
}

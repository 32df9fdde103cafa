//! Pages that are forgotten: dead, or about to be.

use super::FlashTier;
use crate::{Flushed, TierError};
use entresol_core::PageId;

impl FlashTier {
    /// Forgets the pages from `first` to `last`, which are dead: readers get what is on disk from now on, and
    /// after the next flush or checkpoint that stays so after a crash. When it returns, no older version is
    /// on its way to disk. Returns the number of copies that were in the cache.
    ///
    /// # Errors
    /// What failed: the tier's.
    pub fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        let _guard = self.guard();
        self.parts.placed.forget_range(first, last)
    }

    /// Forgets the pages from `first` to `last` for something that makes them dead and is not durable yet: a
    /// write of them to disk past the cache, a record in their owner's log. `make_dead` does it, durably. It
    /// is called when all copies are forgotten in memory, and none is on its way to disk. No record of that
    /// is written to flash, and no slot released, before `make_dead` has returned. A crash before that finds
    /// the copies again, and a crash before the next flush or checkpoint may; later ones do not. Flushes and
    /// checkpoints wait for `make_dead`, those that have begun before, too, so it makes none; and it hands no
    /// pages down, since these may wait for a slot. A reader that populates meanwhile would bring the disk's
    /// version in: where that may be, wrap it in [`FlashTier::keep_out`]. Only with log placement.
    ///
    /// # Errors
    /// Those of `make_dead`, and the tier's. Then the tier has failed, since a forgotten page may be the
    /// newest version there is: the next open finds it.
    pub fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _guard = self.guard();
        self.parts.placed.forget_for(first, last, make_dead)
    }

    /// Those of the pages from `first` to `last` that are in the cache, in order, each with whether it is, or
    /// may be, newer there than on disk. A long range costs by the pages of the cache, a short one by its
    /// own. Of a degraded tier: the pages that the disk lacks.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError> {
        match self.parts.floor.disk.missing() {
            Some(missing) => Ok(missing.within(first, last).into_iter().map(|page| (page, true)).collect()),
            None => self.parts.floor.front.cached_among((first, last)),
        }
    }

    /// How far the flash is flushed now: for the next program, if this one is killed
    /// ([`TierOptions::flushed`](crate::TierOptions)). `None`: nothing on flash outlives it.
    pub fn flushed(&self) -> Option<Flushed> {
        let front = &self.parts.floor.front;
        let is_running = front.is_log() && front.state.is_running();
        let below = front.with(|partition| partition.flushed()).ok().filter(|_| is_running)?;
        let superblocks = &self.parts.floor.superblocks;
        Some(Flushed { cache: superblocks.cache, epoch: superblocks.epoch, below })
    }
}

//! What a front tells of the cache as a whole, and what it tells the shadows.

use crate::{SharedFront, TierError, TierMetrics};
use entresol_core::PageId;
use entresol_objects::{Locator, ObjectId};

impl SharedFront {
    /// Pages that memory lacks, which the caller reads from disk without a fetch or a look: for what the
    /// cache [forecasts](TierMetrics::forecasts) alone.
    pub fn missed_by_memory(&self, first: PageId, n: u32) {
        self.access.places.missed_by_memory(first, n);
    }

    /// Counters of all processes since the cache was opened, and the present numbers of slots.
    pub fn metrics(&self) -> TierMetrics {
        self.access.metrics()
    }

    /// Calls `count` with every page in the cache, and whether it is newer than disk, under the directory's
    /// latch. Releases the latch every 512 entries: pages that move meanwhile may be missed or counted twice.
    /// `count` neither waits nor allocates. Takes time in proportion to the directory of the whole cache.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn survey(&self, count: impl FnMut(PageId, bool)) -> Result<(), TierError> {
        self.access.cached.survey(count)
    }

    /// As [`SharedFront::survey`], whether each page was fetched since it entered. Pages that entered last
    /// come last.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn survey_use(&self, meet: impl FnMut(PageId, bool)) -> Result<(), TierError> {
        self.access.cached.survey_use(meet)
    }

    /// Puts the names of the live objects with numbers from `first` on into `names`. Returns the number for
    /// the next call. `None`: there are no more.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn names(
        &self,
        first: ObjectId,
        names: &mut Vec<(ObjectId, Locator)>,
    ) -> Result<Option<ObjectId>, TierError> {
        self.access.objects.names(first, names)
    }
}

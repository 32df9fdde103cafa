//! Objects: pages that die as a whole.

use super::FlashTier;
use crate::TierError;
use entresol_objects::{Locator, ObjectId, Usage};

impl FlashTier {
    /// The object with this name, defined now if there is none. `None`: the table is full; the object's pages
    /// must stay out of the cache. Objects are for caches made with [`crate::TierOptions::objects`].
    ///
    /// # Errors
    /// [`TierError::Config`]: the cache has no table of objects.
    pub fn define(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.parts.floor.front.define(locator)
    }

    /// The live object with this name.
    ///
    /// # Errors
    /// As [`FlashTier::define`].
    pub fn object(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.parts.floor.front.object(locator)
    }

    /// All pages of `object` are dead, for ever: as [`FlashTier::forget`] of all of them, at a cost that
    /// does not depend on their number. Its name is free at once, but give it to another object only after
    /// the next flush or checkpoint: a crash before that brings this one back. Nobody may evict its pages
    /// any more. False: it was no live object.
    ///
    /// # Errors
    /// As [`FlashTier::forget`] and [`FlashTier::define`].
    pub fn retire(&self, object: ObjectId) -> Result<bool, TierError> {
        let _guard = self.guard();
        self.parts.floor.front.retire(object)
    }

    /// Retires all objects whose names `matches` accepts: a whole database, say. Returns their number.
    ///
    /// # Errors
    /// As [`FlashTier::retire`].
    pub fn retire_matching(&self, matches: impl FnMut(&Locator) -> bool) -> Result<u32, TierError> {
        let _guard = self.guard();
        self.parts.floor.front.retire_matching(matches)
    }

    /// The pages of `object` from `number` on are dead, as if forgotten; such pages that are evicted later
    /// live. Four cuts of an object that matter cost nothing that depends on the number of pages, further
    /// ones as much as [`FlashTier::forget`].
    ///
    /// # Errors
    /// As [`FlashTier::retire`].
    pub fn cut(&self, object: ObjectId, number: u32) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.floor.front.cut(object, number)
    }

    /// How full the table of objects is; `None`: there is none.
    pub fn objects(&self) -> Option<Usage> {
        self.parts.floor.front.objects_usage()
    }
}

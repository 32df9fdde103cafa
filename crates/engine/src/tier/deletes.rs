//! Pages that are dead, or about to be.

use super::FlashTier;
use crate::TierError;
use crate::interface::Deletes;
use entresol_core::PageId;
use entresol_objects::{Locator, ObjectId, Usage};

impl Deletes for FlashTier {
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        let _guard = self.guard();
        self.parts.room.forget_range(first, last)
    }

    fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _guard = self.guard();
        self.parts.room.forget_for(first, last, make_dead)
    }

    fn define(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.parts.floor.access.objects.define(locator)
    }

    fn object(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.parts.floor.access.objects.look_up(locator)
    }

    fn retire(&self, object: ObjectId) -> Result<bool, TierError> {
        let _guard = self.guard();
        self.parts.floor.access.objects.retire(object)
    }

    fn retire_matching(&self, matches: impl FnMut(&Locator) -> bool) -> Result<u32, TierError> {
        let _guard = self.guard();
        self.parts.floor.access.objects.retire_matching(matches)
    }

    fn cut(&self, object: ObjectId, number: u32) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.floor.access.objects.cut(object, number)
    }

    fn objects(&self) -> Option<Usage> {
        self.parts.floor.access.objects.usage()
    }
}

//! Pages that their owner says are dead.

use crate::TierError;
use entresol_core::PageId;
use entresol_objects::{Locator, ObjectId, Usage};

/// The verbs by which pages leave a cache for good (`core/src/deletion` has the protocol). From the return of
/// each on no reader finds the pages, and none of their older versions is on its way to disk. After the next
/// flush or checkpoint that stays so after a crash.
///
/// Objects are for caches made with [`TierOptions::objects`](crate::TierOptions::objects); their methods fail
/// with [`TierError::Config`] where there is no table of objects.
pub trait Deletes {
    /// Forgets the pages from `first` to `last`, which are dead: readers get what is on disk from now on.
    /// Returns the number of copies that were in the cache.
    ///
    /// # Errors
    /// What failed: the cache's.
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError>;

    /// Forgets the pages from `first` to `last` for something that makes them dead and is not durable yet: a
    /// write of them to disk past the cache, a record in their owner's log. `make_dead` does it, durably. It
    /// is called when all copies are forgotten in memory, and none is on its way to disk. No record of that
    /// is written to flash, and no slot released, before `make_dead` has returned. A crash before that finds
    /// the copies again, and a crash before the next flush or checkpoint may; later ones do not. Flushes and
    /// checkpoints wait for `make_dead`, those that have begun before, too, so it makes none; and it evicts
    /// no pages, since these may wait for a slot. A reader that populates meanwhile would bring the disk's
    /// version in: where that may be, wrap it in [`PageCache::keep_out`](crate::PageCache::keep_out). Only
    /// with log placement.
    ///
    /// # Errors
    /// Those of `make_dead`, and the cache's. Then the cache has failed, since a forgotten page may be the
    /// newest version there is: the next open finds it.
    fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E>
    where
        Self: Sized;

    /// The object with this name, defined now if there is none. `None`: the table is full; the object's pages
    /// must stay out of the cache.
    ///
    /// # Errors
    /// What failed: the cache's.
    fn define(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError>;

    /// The live object with this name.
    ///
    /// # Errors
    /// As [`Deletes::define`].
    fn object(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError>;

    /// All pages of `object` are dead, for ever: as [`Deletes::forget`] of all of them, at a cost that does
    /// not depend on their number. Its name is free at once, but give it to another object only after the
    /// next flush or checkpoint: a crash before that brings this one back. Its pages must not be evicted any
    /// more. False: it was no live object.
    ///
    /// # Errors
    /// As [`Deletes::forget`] and [`Deletes::define`].
    fn retire(&self, object: ObjectId) -> Result<bool, TierError>;

    /// Retires all objects whose names `matches` accepts: a whole database, say. Returns their number.
    ///
    /// # Errors
    /// As [`Deletes::retire`].
    fn retire_matching(&self, matches: impl FnMut(&Locator) -> bool) -> Result<u32, TierError>
    where
        Self: Sized;

    /// The pages of `object` from `number` on are dead, as if forgotten; such pages that are evicted later
    /// live. Four cuts of an object that matter cost nothing that depends on the number of pages, further
    /// ones as much as [`Deletes::forget`].
    ///
    /// # Errors
    /// As [`Deletes::retire`].
    fn cut(&self, object: ObjectId, number: u32) -> Result<(), TierError>;

    /// How full the table of objects is; `None`: there is none.
    fn objects(&self) -> Option<Usage>;
}

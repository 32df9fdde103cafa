//! Objects: what a database drops or truncates as a whole. A front defines, retires and cuts them in the
//! table, which is in the region: each at a cost that does not depend on how many pages are cached.
//!
//! Invariant: when a request to retire or cut returns, readers miss the dead pages, and no older version of
//! one is on its way to disk. So the caller may use their places on disk again.
//!
//! In slots, which have no positions, dead pages are deleted one by one: a request costs a walk over the
//! directory.

use super::Base;
use super::directory::Directory;
use super::forget::Forgets;
use super::order::PageOrder;
use super::signals::Signals;
use crate::TierError;
use crate::names::Names;
use entresol_core::{PageId, Partition, Position};
use entresol_objects::{CutOutcome, Locator, ObjectId, Objects, Usage};
use entresol_shm::Gone;
use std::sync::Arc;

/// Names that are read under one hold of the latch.
const NAMES_AT_ONCE: u32 = 512;

/// The last page number of an object.
const LAST_PAGE: u32 = u32::MAX;

fn no_table() -> TierError {
    TierError::Config("the cache has no table of objects; create it with room for some".to_owned())
}

/// The table of objects.
pub(crate) struct ObjectTable {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    order: PageOrder,
    /// For a cut that the table has no room for.
    forgets: Arc<Forgets>,
}

impl Names for ObjectTable {
    fn locator(&self, object: ObjectId) -> Option<Locator> {
        // Without the table nothing is known of any object, and nothing that is done now will count.
        self.directory
            .with_objects(|_, objects| objects.and_then(|objects| objects.locator(object).copied()))
            .ok()?
    }
}

impl ObjectTable {
    pub(super) fn new(base: &Base, forgets: &Arc<Forgets>) -> Self {
        Self {
            directory: base.directory.clone(),
            signals: base.signals.clone(),
            order: base.order.clone(),
            forgets: forgets.clone(),
        }
    }

    /// A step on the table of objects.
    fn with_table<R>(
        &self,
        step: impl FnOnce(&mut Partition<'_>, &mut Objects<'_>) -> R,
    ) -> Result<R, TierError> {
        self.directory
            .with_objects(|partition, objects| objects.map(|objects| step(partition, objects)))?
            .ok_or_else(no_table)
    }

    /// The live object with this name.
    pub(crate) fn look_up(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.with_table(|_, objects| objects.lookup(locator))
    }

    /// The object with this name, defined now if there is none. `None`: the table is full, and the object's
    /// pages stay out of the cache.
    pub(crate) fn define(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.with_table(|_, objects| {
            let defined = objects.define(locator).ok()?;
            self.directory.object_changed(objects, defined);
            Some(defined)
        })
    }

    /// See [`crate::SharedFront::names`].
    pub(crate) fn names(
        &self,
        first: ObjectId,
        names: &mut Vec<(ObjectId, Locator)>,
    ) -> Result<Option<ObjectId>, TierError> {
        names.clear();
        names.reserve(NAMES_AT_ONCE as usize);
        self.with_table(|_, objects| {
            let end = objects.defined().min(first.0.saturating_add(NAMES_AT_ONCE));
            let numbers = (first.0..end).map(ObjectId);
            names.extend(numbers.filter_map(|object| Some((object, *objects.locator(object)?))));
            (end < objects.defined()).then_some(ObjectId(end))
        })
    }

    /// How full the table is; `None`: there is none.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.directory.with_objects(|_, objects| objects.map(|objects| objects.usage())).ok()?
    }

    /// All pages of `object` are dead, for ever. False: it was no live object.
    pub(crate) fn retire(&self, object: ObjectId) -> Result<bool, TierError> {
        let retired = self.with_table(|partition, objects| {
            self.order.all_change();
            let retired = objects.retire(object, rear(partition));
            self.directory.object_changed(objects, object);
            retired
        })?;
        let (first, last) = (object.page(0), object.page(LAST_PAGE));
        match self.directory.is_log() {
            true => self.wait_for_dequeues(first, last)?,
            false => self.forgets.forget_range((first, last)).map(drop)?,
        }
        Ok(retired)
    }

    /// Retires all objects whose names `matches` accepts. Returns their number. One pass over the table.
    pub(crate) fn retire_matching(&self, matches: impl FnMut(&Locator) -> bool) -> Result<u32, TierError> {
        let retired = self.with_table(|partition, objects| {
            self.order.all_change();
            let retired = objects.retire_matching(matches, rear(partition));
            self.directory.objects_changed(objects);
            retired
        })?;
        // Also if there were none: an earlier call may have been interrupted while it waited.
        match self.directory.is_log() {
            true => self.wait_for_dequeues(PageId(0), PageId(u64::MAX))?,
            false => self.forgets.forget_retired()?,
        }
        Ok(retired)
    }

    /// The pages of `object` from `number` on are dead. Such pages that enter later live.
    pub(crate) fn cut(&self, object: ObjectId, number: u32) -> Result<(), TierError> {
        let pages = (object.page(number), object.page(LAST_PAGE));
        if !self.directory.is_log() {
            return self.forgets.forget_range(pages).map(drop);
        }
        let outcome = self.with_table(|partition, objects| {
            self.order.all_change();
            let outcome = objects.cut(object, number, rear(partition));
            self.directory.object_changed(objects, object);
            outcome
        })?;
        match outcome {
            CutOutcome::Kept | CutOutcome::Implied => self.wait_for_dequeues(pages.0, pages.1),
            CutOutcome::TooMany => self.forgets.forget_range(pages).map(drop),
        }
    }

    /// Waits until no version of these pages, which are dead, is on its way to disk. Dequeues that begin from
    /// now on take none there, so they are not waited for: there may always be some.
    fn wait_for_dequeues(&self, first: PageId, last: PageId) -> Result<(), TierError> {
        let begun = self.directory.with(|partition| partition.log().map(|log| log.dequeues_begun()))?;
        loop {
            let seen = self.signals.progress.epoch();
            if !self.signals.check_running()?
                || !self.directory.with(|partition| {
                    let log = partition.log().zip(begun);
                    log.is_some_and(|(log, begun)| log.is_in_dequeue(first, last, begun))
                })?
            {
                return Ok(());
            }
            self.signals.background.notify_one();
            self.signals.await_progress(seen)?;
        }
    }

    /// In slots: frees the numbers of objects that were retired, when no page of one can be found on flash
    /// any more, also after a crash. `records_durable` makes durable which slots were emptied so far.
    pub(crate) fn free_numbers(
        &self,
        records_durable: impl FnOnce() -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        let usage = self.usage().unwrap_or_default();
        if usage.retired == 0 {
            return Ok(());
        }
        // Those with a lower rear were retired before. Of one with this rear that is not known.
        let rear = self.directory.with(|partition| rear(partition))?;
        self.forgets.forget_retired()?;
        records_durable()?;
        self.with_table(|_, objects| self.front_passed(objects, Position(rear.0.saturating_sub(1))))
    }

    /// The records of forgotten pages before number `records` are durable, and one that all positions below
    /// `front` are gone.
    pub(crate) fn records_are_durable(&self, records: u64, front: Position) -> Result<(), Gone> {
        self.directory.with_objects(|partition, objects| {
            if let Some(log) = partition.log_mut() {
                log.recorded(records);
                log.front_is_durable(front);
            }
            if let Some(objects) = objects {
                self.front_passed(objects, front);
            }
        })
    }

    /// All positions below `front` are gone, also after a crash.
    fn front_passed(&self, objects: &mut Objects<'_>, front: Position) {
        objects.front_passed(front);
        self.directory.front_passed(objects);
    }
}

fn rear(partition: &Partition<'_>) -> Position {
    partition.window().1
}

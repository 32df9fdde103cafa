//! The table: objects by number and by locator.
//!
//! A live object is in the list of its locator's bucket. A retired one is in the list of retired objects,
//! which ascends in rear. A free one is in the list of free ones, or its number is at least `defined`.

use crate::blocks::Block;
use crate::config::ObjectsConfig;
use crate::entry::{Cut, Entry, Locator, Merged, NIL, State, merge};
use crate::log::{LogHead, Record};
use crate::region::LOG_BUFFERS;
use entresol_core::{PageId, Position};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The number of an object: the high half of the ids of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// The page `number` of the object.
    pub const fn page(self, number: u32) -> PageId {
        PageId::new(self.0, number)
    }
}

/// The table is full: the object's pages bypass the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the table of {objects_max} objects is full, {retired} of them retired and not passed by the front")]
pub struct Full {
    /// Objects that the table can hold.
    pub objects_max: u32,
    /// Retired objects among them.
    pub retired: u32,
}

/// What became of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum CutOutcome {
    /// The pages are dead.
    Kept,
    /// The pages were dead before.
    Implied,
    /// There is no room for the cut. Nothing has changed: the caller forgets the pages one by one.
    TooMany,
}

/// The use of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live objects.
    pub live: u32,
    /// Retired objects whose numbers are not free yet.
    pub retired: u32,
    /// Definitions that were refused because the table was full, since the region was made.
    pub full: u64,
    /// Cuts that were refused, since the region was made.
    pub too_many: u64,
}

/// The scalars of the table.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TableHead {
    /// All positions below are gone for ever.
    pub front: u64,
    /// The first free object below `defined`.
    pub free: u32,
    /// Ends of the list of retired objects.
    pub retired_first: u32,
    pub retired_last: u32,
    /// Numbers from here on were never given to an object.
    pub defined: u32,
    pub live: u32,
    pub retired: u32,
    pub full: u64,
    pub too_many: u64,
}

impl TableHead {
    pub fn format(&mut self) {
        (self.free, self.retired_first, self.retired_last) = (NIL, NIL, NIL);
    }
}

/// A table of objects, attached to its region.
pub struct Objects<'r> {
    pub(crate) config: ObjectsConfig,
    pub(crate) table: &'r mut TableHead,
    pub(crate) log: &'r mut LogHead,
    pub(crate) entries: &'r mut [Entry],
    pub(crate) buckets: &'r mut [u32],
    pub(crate) buffers: &'r mut [Block; LOG_BUFFERS],
}

impl Objects<'_> {
    /// Its configuration.
    pub fn config(&self) -> ObjectsConfig {
        self.config
    }

    /// Its use.
    pub fn usage(&self) -> Usage {
        let TableHead { live, retired, full, too_many, .. } = *self.table;
        Usage { live, retired, full, too_many }
    }

    /// Numbers from here on were never given to an object.
    pub fn defined(&self) -> u32 {
        self.table.defined
    }

    /// The durable front that the table was told last.
    pub fn front(&self) -> Position {
        Position(self.table.front)
    }

    /// The live object of this locator.
    pub fn lookup(&self, locator: &Locator) -> Option<ObjectId> {
        let mut at = self.buckets[self.bucket(locator)];
        while at != NIL {
            let entry = self.entry(at);
            if entry.locator == *locator {
                return Some(ObjectId(at));
            }
            at = entry.next();
        }
        None
    }

    /// The locator of a live object. `None`: the number names no live object. A cache of numbers must ask
    /// this, because a number is given to another object one day.
    pub fn locator(&self, object: ObjectId) -> Option<&Locator> {
        self.live(object).map(|(entry, _)| &entry.locator)
    }

    /// The live object of this locator, defined now if there is none.
    ///
    /// # Errors
    /// [`Full`]: the table has no room for another object.
    pub fn define(&mut self, locator: &Locator) -> Result<ObjectId, Full> {
        if let Some(object) = self.lookup(locator) {
            return Ok(object);
        }
        let number = if self.table.free != NIL {
            let number = self.table.free;
            self.table.free = self.entry(number).next();
            number
        } else if self.table.defined < self.config.objects_max {
            self.table.defined += 1;
            self.table.defined - 1
        } else {
            self.table.full += 1;
            let TableHead { retired, .. } = *self.table;
            return Err(Full { objects_max: self.config.objects_max, retired });
        };
        self.entry_mut(number).define(locator);
        self.link_live(number);
        self.record(&Record::Define { object: number, locator: *locator });
        Ok(ObjectId(number))
    }

    /// All pages of `object` are dead for ever; `rear` is above the positions of all of them. The locator is
    /// free at once; the number is free after the durable front has passed `rear`. False: it was no live
    /// object.
    ///
    /// # Panics
    /// If `rear` is no possible position.
    pub fn retire(&mut self, object: ObjectId, rear: Position) -> bool {
        assert!(rear <= Position::MAX, "an object was retired at {rear:?}");
        if self.live(object).is_none() {
            return false;
        }
        // The list of retired objects ascends in rear. A later rear only delays the reuse of the number.
        let last = self.table.retired_last;
        let rear = if last == NIL { rear } else { rear.max(self.entry(last).retired_rear()) };
        self.unlink_live(object.0);
        self.entry_mut(object.0).retire(rear);
        self.link_retired(object.0);
        self.record(&Record::Retire { object: object.0, rear });
        true
    }

    /// Retires all live objects whose locators `matches` accepts, in one pass over the table. Returns their
    /// number.
    pub fn retire_matching(&mut self, mut matches: impl FnMut(&Locator) -> bool, rear: Position) -> u32 {
        let mut retired = 0;
        for number in 0..self.table.defined {
            let object = ObjectId(number);
            if self.locator(object).is_some_and(&mut matches) {
                retired += u32::from(self.retire(object, rear));
            }
        }
        retired
    }

    /// Pages of `object` from page `number` on that entered below `rear` are dead. Such pages that enter
    /// later live.
    ///
    /// # Panics
    /// If `rear` is no possible position.
    pub fn cut(&mut self, object: ObjectId, number: u32, rear: Position) -> CutOutcome {
        assert!(rear <= Position::MAX, "an object was cut at {rear:?}");
        let Some((entry, count)) = self.live(object) else { return CutOutcome::Implied };
        match merge(&entry.cuts(count), Cut { number, rear }, self.front()) {
            Merged::Implied => CutOutcome::Implied,
            Merged::TooMany => {
                self.table.too_many += 1;
                CutOutcome::TooMany
            }
            Merged::Cuts(cuts) => {
                self.entry_mut(object.0).set_cuts(&cuts);
                self.record(&Record::Cut { object: object.0, number, rear });
                CutOutcome::Kept
            }
        }
    }

    /// The position from which on all pages of `object` live; before it, a cut may have made some dead.
    /// `None`: it is no live object.
    pub fn lives_from(&self, object: ObjectId) -> Option<Position> {
        let (entry, count) = self.live(object)?;
        Some(entry.cuts(count).last().map_or(Position(0), |newest| newest.rear))
    }

    /// Whether the version of `page` that entered at `position` is dead: its object is retired or unknown, a
    /// cut has made it dead, or it is below the durable front.
    pub fn is_dead(&self, page: PageId, position: Position) -> bool {
        let Some((entry, count)) = self.live(ObjectId(page.object())) else { return true };
        position.0 < self.table.front || entry.is_cut(count, page.number(), position)
    }

    /// Tells the table that all positions below `front` are gone, also after a crash. Retired numbers whose
    /// rear it has passed are free. Returns how many.
    pub fn front_passed(&mut self, front: Position) -> u32 {
        self.table.front = self.table.front.max(front.0);
        let mut freed = 0;
        while self.table.retired_first != NIL {
            let number = self.table.retired_first;
            let entry = self.entry(number);
            if entry.retired_rear() > self.front() {
                break;
            }
            self.table.retired_first = entry.next();
            self.table.retired -= 1;
            self.link_free(number);
            freed += 1;
        }
        if self.table.retired_first == NIL {
            self.table.retired_last = NIL;
        }
        freed
    }

    pub(crate) fn entry(&self, number: u32) -> &Entry {
        #[cfg(test)]
        tests::count_step();
        &self.entries[number as usize]
    }

    pub(crate) fn entry_mut(&mut self, number: u32) -> &mut Entry {
        #[cfg(test)]
        tests::count_step();
        &mut self.entries[number as usize]
    }

    /// The entry of a live object and its number of cuts.
    fn live(&self, object: ObjectId) -> Option<(&Entry, usize)> {
        if object.0 >= self.table.defined {
            return None;
        }
        let entry = self.entry(object.0);
        match entry.state() {
            State::Live(cuts) => Some((entry, cuts)),
            State::Free | State::Retired => None,
        }
    }

    pub(crate) fn bucket(&self, locator: &Locator) -> usize {
        let (words, _) = locator.as_chunks::<8>();
        let hash = words.iter().fold(0_u64, |hash, word| {
            (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Puts a live object into the list of its bucket.
    pub(crate) fn link_live(&mut self, number: u32) {
        let bucket = self.bucket(&self.entry(number).locator);
        let first = std::mem::replace(&mut self.buckets[bucket], number);
        self.entry_mut(number).set_next(first);
        self.table.live += 1;
    }

    /// Removes a live object from the list of its bucket.
    fn unlink_live(&mut self, number: u32) {
        let bucket = self.bucket(&self.entry(number).locator);
        let next = self.entry(number).next();
        if self.buckets[bucket] == number {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket];
            while self.entry(at).next() != number {
                at = self.entry(at).next();
            }
            self.entry_mut(at).set_next(next);
        }
        self.table.live -= 1;
    }

    /// Appends a retired object to the list of them.
    pub(crate) fn link_retired(&mut self, number: u32) {
        self.entry_mut(number).set_next(NIL);
        match self.table.retired_last {
            NIL => self.table.retired_first = number,
            last => self.entry_mut(last).set_next(number),
        }
        self.table.retired_last = number;
        self.table.retired += 1;
    }

    /// Puts a free object into the list of them.
    pub(crate) fn link_free(&mut self, number: u32) {
        let free = std::mem::replace(&mut self.table.free, number);
        let entry = self.entry_mut(number);
        entry.set_state(State::Free);
        entry.set_next(free);
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

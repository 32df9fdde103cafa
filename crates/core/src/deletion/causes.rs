//! Causes: what makes deleted pages dead, a write of their newer versions to disk, say. A cause begins with
//! the record of its deletion, ends when its write is done, and is durable after the next sync of the disk.
//!
//! Invariant: a number is durable only when it and all before it have ended, and the disk was synced since.

use crate::{PageId, Position};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Causes that may be under way at a time.
pub(super) const CAUSES_MAX: usize = 64;

/// A place for a cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct UnderWay {
    /// 0: the place is free.
    number: u64,
    /// Of a deletion of pages that are dead already: its pages, and the position below which copies are
    /// stale. Another task may go on with it.
    first: PageId,
    last: PageId,
    below: Position,
}

/// All causes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Causes {
    /// Numbers given out.
    last: u64,
    /// This one and all before it have ended, and the disk was synced since.
    durable: u64,
    under_way: [UnderWay; CAUSES_MAX],
}

impl Causes {
    /// A cause begins; its number. `None`: too many are under way.
    pub(super) fn begin(&mut self) -> Option<u64> {
        let place = self.under_way.iter_mut().find(|place| place.number == 0)?;
        self.last += 1;
        *place = UnderWay { number: self.last, first: PageId(0), last: PageId(0), below: Position(0) };
        Some(self.last)
    }

    /// Another task may go on with the deletion of this cause: its pages are dead.
    pub(super) fn may_be_resumed(&mut self, number: u64, (first, last): (PageId, PageId), below: Position) {
        if let Some(place) = self.under_way.iter_mut().find(|place| place.number == number) {
            *place = UnderWay { number, first, last, below };
        }
    }

    /// The deletion of this cause, if another task may go on with it, and it has not ended.
    pub(super) fn resumable(&self, number: u64) -> Option<((PageId, PageId), Position)> {
        let is_it = |place: &&UnderWay| number != 0 && place.number == number && place.first < place.last;
        let place = self.under_way.iter().find(is_it)?;
        Some(((place.first, place.last), place.below))
    }

    /// Whether it is under way for pages that are dead already.
    pub(super) fn is_of_dead(&self, number: u64) -> bool {
        self.resumable(number).is_some()
    }

    /// It is on disk, though it may not be durable.
    pub(super) fn end(&mut self, number: u64) {
        self.under_way.iter_mut().filter(|place| place.number == number).for_each(|place| place.number = 0);
    }

    /// This one and all before it have ended.
    pub(super) fn ended(&self) -> u64 {
        let numbers = self.under_way.iter().map(|place| place.number).filter(|number| *number != 0);
        numbers.min().map_or(self.last, |first| first - 1)
    }

    /// This one and all before it are durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// The disk was synced since `ended` was read.
    pub(super) fn are_durable(&mut self, ended: u64) {
        self.durable = self.durable.max(ended);
    }

    /// Whether a sync of the disk would make more of them durable.
    pub(super) fn can_be_settled(&self) -> bool {
        self.durable < self.ended()
    }
}

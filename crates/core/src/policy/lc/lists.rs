//! LRU-2 in constant time. Time is counted in references and divided into intervals. There is a list of pages
//! for each interval of their last-but-one reference, in order of arrival, and one list for the pages
//! referenced once. Two pages whose last-but-one references are in the same interval are not distinguished.
//! Intervals reach back four times the cache's size in references; pages with older ones share one list.
//!
//! Invariant: every valid slot is in exactly one list.

use crate::lists::SlotLists;
use crate::slot::NIL;
use crate::violation::{Violation, same};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Intervals of the last-but-one reference.
const INTERVALS: u32 = 1024;
/// List of the pages referenced once.
const ONCE: u32 = 0;
/// List of the pages whose last-but-one reference is older than all intervals.
const ANCIENT: u32 = 1;
/// Number of lists of a partition.
pub(super) const LISTS: u32 = INTERVALS + 2;

/// LRU-2's clock, and which intervals have a list of their own.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Intervals {
    /// The present time: one tick per reference.
    clock: u32,
    /// References in one interval.
    length: u32,
    /// The oldest interval that has a list of its own.
    oldest: u32,
    /// The present interval.
    newest: u32,
    /// The time at which the next interval begins.
    end: u32,
}

/// The list of `interval`, if it has one.
fn list_of(interval: u32) -> u32 {
    2 + interval % INTERVALS
}

/// References in one interval of a cache of `slots` slots.
fn length_for(slots: u32) -> u32 {
    (slots / (INTERVALS / 4)).max(1)
}

impl Intervals {
    /// The first interval of a cache of `slots` slots.
    pub(super) fn begin(&mut self, slots: u32) {
        self.length = length_for(slots);
        self.end = self.length;
    }

    /// Counts a reference. True if it begins an interval.
    #[inline]
    fn tick(&mut self) -> bool {
        self.clock = self.clock.wrapping_add(1);
        self.clock == 0 || self.clock == self.end
    }

    /// Begins an interval, and returns the lists whose pages are ancient from now on. When the clock
    /// restarts, after 2³² references, these are all lists.
    fn begin_next(&mut self) -> Range<u32> {
        if self.clock == 0 {
            self.clock = 1;
            self.newest = 1 / self.length;
            self.oldest = self.newest;
            self.end = self.length * (self.newest + 1);
            return 2..LISTS;
        }
        self.newest += 1;
        self.end = self.end.wrapping_add(self.length);
        if self.newest - self.oldest < INTERVALS {
            return 0..0;
        }
        let list = list_of(self.oldest);
        self.oldest += 1;
        list..list + 1
    }

    /// The list of a page with that last-but-one reference.
    pub(super) fn list_for(&self, penultimate: u32) -> u32 {
        let interval = penultimate / self.length;
        if (self.oldest..=self.newest).contains(&interval) { list_of(interval) } else { ANCIENT }
    }

    /// The lists, from coldest to hottest.
    fn cold_to_hot(&self) -> impl Iterator<Item = u32> + use<> {
        [ONCE, ANCIENT].into_iter().chain((self.oldest..=self.newest).map(list_of))
    }

    /// Checks the clock and the intervals.
    pub(super) fn check(&self, slots: u32) -> Result<(), Violation> {
        same(|| "references in an interval", length_for(slots), self.length)
    }

    /// Counts a reference to a page; its previous reference is given, if it is known. Returns the present
    /// time, 1 or more, and the list of the page.
    #[inline]
    pub(super) fn refer(&mut self, lists: &mut SlotLists<'_>, before: Option<u32>) -> (u32, u32) {
        if self.tick() {
            self.begin_interval(lists);
        }
        (self.clock, before.map_or(ONCE, |before| self.list_for(before)))
    }

    #[cold]
    fn begin_interval(&mut self, lists: &mut SlotLists<'_>) {
        self.begin_next().for_each(|list| lists.splice(list, ANCIENT));
    }

    /// The coldest slot for which `wanted` holds, at or after `from` if `from` is a slot.
    pub(super) fn coldest(
        &self,
        lists: &SlotLists<'_>,
        from: u32,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut cold_to_hot = self.cold_to_hot();
        if from != NIL {
            let mut at = from;
            while let Some(slot) = lists.slot(at) {
                if wanted(slot) {
                    return Some(slot);
                }
                at = lists.next_of(slot);
            }
            cold_to_hot.find(|list| lists.head(*list) == at);
        }
        cold_to_hot.find_map(|list| lists.first_where(list, &wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyState;
    use crate::{Admission, Config, Job, Lookup, Lsn, PageId, Partition, PolicyKind, region_bytes};
    use zerocopy::IntoBytes;

    /// Writes `page` to flash.
    fn enter(partition: &mut Partition<'_>, page: u32) {
        let Admission::Stage { frame, .. } = partition.evict(PageId::new(1, page), Lsn(1), false, true)
        else {
            panic!("page {page} is taken")
        };
        partition.staged(frame);
        while let Some(job) = partition.next_job() {
            let Job::Write { ticket, pages, .. } = job else { panic!("{job:?}") };
            partition.written(ticket, &pages);
        }
    }

    fn intervals<'p>(partition: &'p mut Partition<'_>) -> &'p mut Intervals {
        let PolicyState::Lc(memory) = &mut partition.contents_mut().policy else {
            panic!("the policy is LC")
        };
        memory.intervals
    }

    #[test]
    fn the_clock_may_begin_anew() {
        let sizes = Config::new(PolicyKind::Lc, 512);
        let config = Config { group_pages: 4, staging_groups: 2, history: 100, ..sizes };
        let mut region = vec![0u64; region_bytes(&config) / 8];
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        let interval = intervals(&mut partition).length;
        // As if 2³² − 3000 references had passed.
        let now = u32::MAX - 3000;
        let (newest, end) = (now / interval, (now / interval + 1) * interval);
        *intervals(&mut partition) = Intervals { clock: now, length: interval, oldest: newest, newest, end };
        for round in 0..8000u32 {
            let page = (round * round) % 700;
            if partition.fetch(PageId::new(1, page)) == Lookup::Absent {
                enter(&mut partition, page);
            }
            if round % 100 == 0 {
                partition.check().expect("no invariant is broken");
            }
        }
        let Intervals { clock, newest, .. } = *intervals(&mut partition);
        assert!(clock < 6000, "the clock has begun anew: {clock}");
        assert_eq!(newest, clock / interval);
    }
}

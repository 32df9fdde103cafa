//! LRU-2 in constant time. Time is counted in references and cut into intervals; pages stand in one list for each
//! interval of their last-but-one reference, in order of arrival, and one list holds those referenced once. Two pages
//! whose last-but-one references fall into one interval are not told apart. Intervals reach back four times the cache's
//! size in references; what is older shares one list.
//!
//! Invariant: every valid slot is in exactly one list.

use crate::region::Partition;
use crate::slot::NIL;

/// Intervals of the last-but-one reference.
const INTERVALS: usize = 1024;
/// List of the pages referenced once.
pub(crate) const ONCE: u32 = 0;
/// List of the pages whose last-but-one reference is older than all intervals.
const ANCIENT: u32 = 1;
/// Lists of one partition.
pub(crate) const LISTS: usize = INTERVALS + 2;

impl Partition<'_> {
    pub(super) fn init_intervals(&mut self) {
        self.head.interval_end = self.interval();
    }

    /// References in one interval.
    fn interval(&self) -> u32 {
        (self.head.slots / (INTERVALS as u32 / 4)).max(1)
    }

    /// Counts a reference and returns its time, 1 or more. When the clock begins anew, after 2³² references, everything
    /// known is ancient.
    pub(super) fn tick(&mut self) -> u32 {
        self.head.clock = self.head.clock.wrapping_add(1);
        if self.head.clock == 0 {
            for list in 2..LISTS as u32 {
                self.splice(list, ANCIENT);
            }
            self.head.clock = 1;
            self.head.interval_newest = 1 / self.interval();
            self.head.interval_oldest = self.head.interval_newest;
            self.head.interval_end = self.interval() * (self.head.interval_newest + 1);
        } else if self.head.clock == self.head.interval_end {
            self.head.interval_newest += 1;
            self.head.interval_end = self.head.interval_end.wrapping_add(self.interval());
            if self.head.interval_newest - self.head.interval_oldest == INTERVALS as u32 {
                self.splice(2 + self.head.interval_oldest % INTERVALS as u32, ANCIENT);
                self.head.interval_oldest += 1;
            }
        }
        self.head.clock
    }

    /// The list of a page with that last-but-one reference.
    pub(super) fn list_for(&self, penultimate: u32) -> u32 {
        let interval = penultimate / self.interval();
        let known = self.head.interval_oldest..=self.head.interval_newest;
        if known.contains(&interval) { 2 + interval % INTERVALS as u32 } else { ANCIENT }
    }

    /// The lists from coldest to hottest.
    fn lists_cold_to_hot(&self) -> impl Iterator<Item = u32> + use<> {
        let intervals = self.head.interval_oldest..=self.head.interval_newest;
        [ONCE, ANCIENT].into_iter().chain(intervals.map(|interval| 2 + interval % INTERVALS as u32))
    }

    /// The coldest slot for which `wanted` holds, at or after `from` if that is a slot.
    pub(super) fn coldest(&self, from: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mut lists = self.lists_cold_to_hot();
        if from != NIL {
            let mut at = from;
            while at < self.head.slots {
                if wanted(at) {
                    return Some(at);
                }
                at = self.next_of(at);
            }
            let of_from = at - self.head.slots;
            lists.find(|list| *list == of_from);
        }
        for list in lists {
            let node = self.list_node(list);
            let mut at = self.next_of(node);
            while at != node {
                if wanted(at) {
                    return Some(at);
                }
                at = self.next_of(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, Config, Job, Lookup, Lsn, PageId, PolicyKind, region_bytes};
    use zerocopy::IntoBytes;

    /// Brings `page` to flash.
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

    #[test]
    fn the_clock_may_begin_anew() {
        let sizes = Config::new(PolicyKind::Lc, 512);
        let config = Config { group_pages: 4, staging_groups: 2, history: 100, ..sizes };
        let mut region = vec![0u64; region_bytes(&config) / 8];
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        let interval = partition.interval();
        // As if 2³² − 3000 references had gone by.
        let now = u32::MAX - 3000;
        partition.head.clock = now;
        partition.head.interval_newest = now / interval;
        partition.head.interval_oldest = now / interval;
        partition.head.interval_end = (now / interval + 1) * interval;
        for round in 0..8000u32 {
            let page = (round * round) % 700;
            if partition.fetch(PageId::new(1, page)) == Lookup::Absent {
                enter(&mut partition, page);
            }
            if round % 100 == 0 {
                partition.check().expect("no invariant is broken");
            }
        }
        assert!(partition.head.clock < 6000, "the clock has begun anew: {}", partition.head.clock);
        assert_eq!(partition.head.interval_newest, partition.head.clock / interval);
    }
}

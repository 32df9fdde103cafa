//! A walk that goes on while the partition is used: it meets every page that is there all the time.

use super::*;
use entresol_core::Walk;
use std::collections::BTreeSet;

/// A walk under way.
#[derive(Default)]
pub struct Walking {
    walk: Walk,
    /// The pages that are there since it began; `None`: it has not begun.
    there: Option<BTreeSet<u32>>,
    met: BTreeSet<PageId>,
    /// Walks that have ended, and pages that they had to meet.
    pub ended: u64,
    pub had_to_meet: u64,
}

impl Walking {
    /// The next step is the first of another walk.
    pub(super) fn begin_anew(&mut self) {
        let Walking { ended, had_to_meet, .. } = *self;
        *self = Self { ended, had_to_meet, ..Self::default() };
    }
}

impl World {
    /// Goes on by a few places. `found`: where the pages are that are not in memory.
    pub(super) fn walk_on(&mut self, found: &[(u32, Lookup)]) {
        let is_there = |(_, lookup): &&(u32, Lookup)| *lookup != Lookup::Absent;
        let now: BTreeSet<u32> = found.iter().filter(is_there).map(|(page, _)| *page).collect();
        let Walking { walk, there, met, .. } = &mut self.walking;
        let there = there.get_or_insert_with(|| now.clone());
        there.retain(|page| now.contains(page));
        let places = 1 + (self.steps % 7) as u32;
        if partition!(self).walk(walk, places, |page| _ = met.insert(page)) {
            return;
        }
        let missed: Vec<u32> = there.iter().copied().filter(|page| !met.contains(&id(*page))).collect();
        assert_eq!(missed, [], "step {}: pages that a walk missed", self.steps);
        self.walking.had_to_meet += self.walking.there.as_ref().map_or(0, BTreeSet::len) as u64;
        self.walking.ended += 1;
        self.walking.begin_anew();
    }

    /// Slot placement: a walk need not meet a page that comes back.
    pub(super) fn walk_may_miss(&mut self, page: u32) {
        if let (Placement::Slots, Some(there)) = (self.config.policy.placement(), &mut self.walking.there) {
            there.remove(&page);
        }
    }
}

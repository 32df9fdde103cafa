//! How often the pages of each region are fetched, over a long time. A region is 32 pages in a row.
//!
//! Pages that are neighbours are often popular alike: those of an index, or of a month's partition. A page
//! that returns rarely has no history of its own, and the uses of a scan's pages come and go together, so
//! what happened last says little. The mean of a region over many turns does.
//!
//! A table of counters by the hash of the region: regions may share one. A hand lets them fade, a few at each
//! of its moves, and a total of all fetches fades with them. So the rates are right from the beginning.

use super::hazard::{BUCKETS, CERTAIN};
use crate::PageId;
use crate::hash::bucket_of;
use crate::sections::{Carver, SectionPlan};
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Pages of a region: 2 to the power of this, an extent's as in `tac`.
const REGION_SHIFT: u32 = 5;
/// Counters for each slot. A disk has 32 times the pages of a cache of 3 %, so as many regions as slots.
const PER_SLOT: u32 = 2;
/// The count of one fetch, so that what fades away is more than nothing.
const ONE: u16 = 8;
/// Each counter loses one part in so many in as many misses as there are counters. So half is forgotten after
/// some 90 turns: the popularity of regions changes slowly, and what fades faster is noise.
const FADES: u16 = 64;
/// Counters that fade for each miss.
const PER_MISS: u32 = 1;
/// Levels of warmth: an octave of the rate each, from a use in 64 turns on. Level 0 is less.
pub(super) const LEVELS: u32 = 12;
/// The rate that is halfway to level 1, in the unit of rates.
const LEAST: u64 = 128;

/// Scalars.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Cooling {
    /// Misses, fading as the counters do.
    seen: u32,
    /// The counter that fades next.
    next: u32,
    slots: u32,
}

impl Cooling {
    pub fn of_slots(slots: u32) -> Self {
        Self { seen: 0, next: 0, slots }
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self, counters: usize) -> Result<(), Violation> {
        same(|| "the counter that fades next exists", true, self.next == 0 || (self.next as usize) < counters)
    }
}

/// In the ring.
pub(super) const WARMTH: SectionPlan =
    SectionPlan::many::<u16>("warmth", |sizes| sizes.slots.saturating_mul(PER_SLOT).max(PER_SLOT));
/// In slots there is none: a page's own history, and the choice of a victim, are enough there.
pub(super) const NO_WARMTH: SectionPlan = SectionPlan::many::<u16>("warmth", |_| 0);

/// See the module's header. Without counters every page is of level 0.
pub(super) struct Warmth<'r>(&'r mut [u16]);

impl<'r> Warmth<'r> {
    #[inline(always)]
    pub fn attach(plan: &SectionPlan, carver: &mut Carver<'r, '_>) -> Option<Self> {
        carver.take(plan).map(Self)
    }

    pub fn counters(&self) -> usize {
        self.0.len()
    }

    fn counter_of(&self, page: PageId) -> usize {
        bucket_of(page.0 >> REGION_SHIFT, self.0.len())
    }

    /// A page is fetched.
    #[inline(always)]
    pub fn warm(&mut self, page: PageId) {
        if !self.0.is_empty() {
            let counter = self.counter_of(page);
            self.0[counter] = self.0[counter].saturating_add(ONE);
        }
    }

    /// So many misses have passed.
    pub fn cool(&mut self, cooling: &mut Cooling, misses: u32) {
        if self.0.is_empty() {
            return;
        }
        cooling.seen = cooling.seen.saturating_add(misses);
        for _ in 0..misses * PER_MISS {
            let counter = &mut self.0[cooling.next as usize];
            *counter -= (u32::from(*counter) + u32::from(FADES) / 2).div_euclid(FADES.into()) as u16;
            cooling.next += 1;
            if cooling.next as usize == self.0.len() {
                cooling.next = 0;
                cooling.seen -= cooling.seen / u32::from(FADES);
            }
        }
    }

    /// Uses of a page of this one's region in as many misses as there are slots: in units of 2^-14. A quarter
    /// of that time is the least over which it is a mean.
    fn rate(&self, cooling: &Cooling, page: PageId) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let count = u64::from(self.0[self.counter_of(page)]);
        let seen = cooling.seen.max(cooling.slots / 4).max(1);
        let units = u64::from(cooling.slots) << (14 - REGION_SHIFT);
        count * units / (u64::from(ONE) * u64::from(seen))
    }

    /// How warm the page's region is.
    pub fn level(&self, cooling: &Cooling, page: PageId) -> u32 {
        let octaves = (self.rate(cooling, page) / LEAST).checked_ilog2().unwrap_or(0);
        octaves.min(LEVELS - 1)
    }

    /// The uses that the region promises for a page of it until the ring has turned: of the rate `r`, it is
    /// `r / (1 + r)`, as of a page's own rate. `None`, in the first turn: a region that was not met may only
    /// not have had its turn yet.
    pub fn promised(&self, cooling: &Cooling, page: PageId) -> Option<u32> {
        if cooling.seen < cooling.slots {
            return None;
        }
        let rate = self.rate(cooling, page);
        Some((rate * u64::from(CERTAIN) / (rate + (1 << 14))) as u32)
    }
}

/// The class, a bucket of times between uses, that a region of this level suggests: each level halves the
/// time, and there are two buckets an octave.
pub(super) const fn bucket_of_level(level: u32) -> u32 {
    let bucket = 24u32.saturating_sub(2 * level);
    if bucket < BUCKETS as u32 { bucket } else { BUCKETS as u32 - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageId;

    const SLOTS: u32 = 1024;

    /// After so many turns, in which the pages of region 1 are fetched in turn, one at each 32nd miss.
    fn after(turns: u32) -> (Vec<u16>, Cooling) {
        let (mut counters, mut cooling) = (vec![0; 2 * SLOTS as usize], Cooling::of_slots(SLOTS));
        let mut warmth = Warmth(&mut counters);
        for miss in 1..=turns * SLOTS {
            if miss % 32 == 0 {
                warmth.warm(PageId::new(0, 32 + miss / 32 % 32));
            }
            if miss % 64 == 0 {
                warmth.cool(&mut cooling, 64);
                cooling.check(warmth.counters()).unwrap();
            }
        }
        (counters, cooling)
    }

    #[test]
    fn a_page_that_was_never_used_has_the_rate_of_its_region() {
        for turns in [2, 20, 200] {
            let (mut counters, cooling) = after(turns);
            let warmth = Warmth(&mut counters);
            // One use a turn promises a half.
            let promised = warmth.promised(&cooling, PageId::new(0, 60)).unwrap();
            assert!(promised.abs_diff(CERTAIN / 2) < CERTAIN / 16, "{turns} turns: {promised}");
            let levels = [60, 3200].map(|page| warmth.level(&cooling, PageId::new(0, page)));
            assert!(levels[0] >= 6 && levels[1] == 0, "{turns} turns: {levels:?}");
        }
    }

    #[test]
    fn a_region_says_nothing_in_the_first_turn() {
        let (mut counters, mut cooling) = (vec![0; 2 * SLOTS as usize], Cooling::of_slots(SLOTS));
        let mut warmth = Warmth(&mut counters);
        for misses in [0, SLOTS - 64, 64] {
            warmth.cool(&mut cooling, misses);
            let is_first = cooling.seen < SLOTS;
            assert_eq!(warmth.promised(&cooling, PageId::new(0, 60)), (!is_first).then_some(0));
        }
    }

    #[test]
    fn without_counters_all_pages_are_cold() {
        let (warmth, cooling) = (Warmth(&mut []), Cooling::of_slots(SLOTS));
        let page = PageId::new(0, 60);
        assert_eq!((warmth.level(&cooling, page), warmth.promised(&cooling, page)), (0, None));
    }
}

//! Lazy Cleaning (Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011; as FaCE §2.3 and §5.3
//! describe and measure it): on exit, clean and dirty, write-back, LRU-2, and a background cleaner.
//!
//! ```text
//! victim:  among the pages referenced once, the least recently used; else the page whose last reference but one is oldest
//! cleaner: while more than dirty_permille_max of the slots are dirty: copy a cold dirty page to disk
//! ```
//!
//! A reference is a DRAM miss: the fetch of a page from flash, or the arrival of a page new to flash. Writing
//! out a newer version is not one, since it belongs to the fetch before (O'Neil's correlated references), nor
//! is a fetch from staging. The last reference of a page that left flash is remembered for `history` pages
//! ([`history`]): without it LRU-2 falls below FIFO.
//!
//! FaCE does not say above which dirty share the cleaner works; its table 3b, where LC saves more disk writes
//! than GSC throughout, is only possible with a high one: on a captured PostgreSQL trace LC falls behind GSC
//! at 500 per mille and comes out as in the table at 900, the default.
//!
//! Fetches are noted in a batch ([`crate::hits`]).
//!
//! Deviations: intervals instead of exact times ([`lists`]); the cleaner goes from cold to hot and then
//! begins again, instead of searching from the coldest page each time, so a page that became cold and dirty
//! behind it waits for its next round.

mod history;
mod lists;

use super::shared::check_hits;
use super::{Decision, Directory, Facts, Lists, Memory, Offer, Placement, Policy, STARTS_EMPTY};
use crate::mode::Mode;
use crate::pages::Pages;
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::slot::{DIRTY, NIL};
use crate::violation::Violation;
use history::History;
use lists::Intervals;

/// LRU-2 with a lazy cleaner.
pub(crate) struct Lc;

/// What is noted of a slot: the time of the last reference to its page.
type LastReference = u32;

const INTERVALS: SectionPlan = SectionPlan::one::<Intervals>("intervals");

/// The intervals of LRU-2, and the pages that it remembers.
pub(crate) struct Lru2<'r> {
    intervals: &'r mut Intervals,
    history: History<'r>,
}

impl<'r> Memory<'r> for Lru2<'r> {
    const SECTIONS: &'static [SectionPlan] = &[INTERVALS, history::NEXT, history::DEPARTED, history::BUCKETS];

    #[inline(always)]
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self> {
        Some(Self { intervals: carver.take_one()?, history: History::attach(carver)? })
    }

    fn format(&mut self, sizes: &Sizes) {
        self.intervals.begin(sizes.slots);
        self.history.format(sizes);
    }
}

impl Policy for Lc {
    const FACTS: Facts = Facts {
        name: "lc",
        placement: Placement::Slots,
        by_group: false,
        second_chances: false,
        populates: false,
        exclusive: false,
        refuses: &[(Mode::ReadOnly, STARTS_EMPTY)],
        directory: Directory::None,
        keeps_temperatures: false,
        lists: Lists::Fixed(lists::LISTS),
        cleans_above_permille: Some(900),
        remembers: true,
    };
    type Note = LastReference;
    type Memory<'r> = Lru2<'r>;

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        Decision::enter_if(offer.fdirty || pages.directory.find(offer.page).is_none())
    }

    fn on_hit(pages: &mut Pages<'_>, memory: &mut Lru2<'_>, entry: u32) {
        // What is still in staging has no place in the lists yet.
        if entry < pages.directory.slots && pages.hits.defer(entry) {
            memory.catch_up(pages);
        }
    }

    fn on_enter(pages: &mut Pages<'_>, memory: &mut Lru2<'_>, slot: u32) {
        memory.catch_up(pages);
        let before = memory.history.recall(pages.directory.entry(slot).page());
        let (now, list) = memory.intervals.refer(&mut pages.lists, before);
        pages.lists.set_note::<LastReference>(slot, now);
        pages.lists.push_back(list, slot);
    }

    fn on_leave(pages: &mut Pages<'_>, memory: &mut Lru2<'_>, slot: u32) {
        memory.catch_up(pages);
        pages.lists.take_out(slot);
        memory.history.remember(pages.directory.entry(slot).page(), pages.lists.note::<LastReference>(slot));
    }

    fn victim(pages: &mut Pages<'_>, memory: &mut Lru2<'_>) -> Option<u32> {
        memory.catch_up(pages);
        memory.intervals.coldest(&pages.lists, NIL, |slot| pages.directory.is_idle(slot))
    }

    fn clean(pages: &mut Pages<'_>, memory: &mut Lru2<'_>) -> Option<u32> {
        if !pages.too_many_dirty() {
            return None;
        }
        memory.catch_up(pages);
        let dirty = |slot| pages.directory.entry(slot).has(DIRTY) && pages.directory.is_idle(slot);
        let cursor = *pages.lists.cursor;
        let mut found = memory.intervals.coldest(&pages.lists, cursor, dirty);
        if found.is_none() && cursor != NIL {
            found = memory.intervals.coldest(&pages.lists, NIL, dirty);
        }
        *pages.lists.cursor = found.unwrap_or(NIL);
        found
    }

    fn check(pages: &Pages<'_>, memory: &Lru2<'_>) -> Result<(), Violation> {
        check_hits(pages)?;
        memory.intervals.check(pages.directory.slots)?;
        memory.history.check()
    }
}

impl Lru2<'_> {
    /// Gives the pages of the batch their places in the lists, in the order in which they were fetched.
    fn catch_up(&mut self, pages: &mut Pages<'_>) {
        let Some(batch) = pages.hits.take() else { return };
        let Pages { lists, .. } = pages;
        lists.touch(batch.slots(), |slot| self.intervals.list_for(lists.note::<LastReference>(slot)));
        for slot in batch.slots().iter().copied() {
            let before = lists.note::<LastReference>(slot);
            let (now, list) = self.intervals.refer(lists, Some(before));
            lists.set_note::<LastReference>(slot, now);
            lists.move_to_back(list, slot);
        }
    }
}

//! Lazy Cleaning (Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011; as FaCE §2.3 and §5.3
//! describe and measure it): on exit, clean and dirty, write-back, LRU-2, and a background cleaner.
//!
//! ```text
//! victim:  among the pages referenced once, the least recently used; else the page whose last reference but one is oldest
//! cleaner: while more than dirty_permille_max of the slots are dirty: copy a cold dirty page to disk
//! ```
//!
//! A reference is a DRAM miss: the fetch of a page from flash, or the arrival of a page new to flash. The
//! write of a newer version is not a reference, since it belongs to the fetch before it (O'Neil's correlated
//! references). A fetch from staging is not one either. The last reference of an evicted page is remembered
//! for `history` pages ([`history`]): without it LRU-2 is worse than FIFO.
//!
//! FaCE does not give the dirty share above which the cleaner works. In its table 3b LC saves more disk
//! writes than GSC throughout, which is only possible with a high share. On a captured PostgreSQL trace LC
//! saves fewer than GSC at 500 per mille, and agrees with the table at 900, the default.
//!
//! Fetches are noted in a batch ([`crate::hits`]).
//!
//! Deviations: LC uses intervals instead of exact times ([`lists`]). Its cleaner runs from cold to hot and
//! then starts again, instead of searching from the coldest page each time. So a page that becomes cold and
//! dirty after the cleaner has passed it waits for the next round.

mod history;
mod lists;

use super::shared::check_hits;
use super::{Decision, Lists, Memory, Offer, Policy, SlotFacts, SlotPolicy};
use crate::pages::Pages;
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::slot::{DIRTY, NIL};
use crate::violation::Violation;
use history::History;
use lists::Intervals;

/// LRU-2 with a lazy cleaner.
pub(crate) struct Lc;

/// The note on a slot: the time of the last reference to its page.
type LastReference = u32;

const INTERVALS: SectionPlan = SectionPlan::one::<Intervals>("intervals");

/// The intervals of LRU-2, and its remembered pages.
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
    const NAME: &str = "lc";
    type Memory<'r> = Lru2<'r>;

    fn admit(pages: &mut Pages<'_>, _: &mut Lru2<'_>, offer: &Offer) -> Decision {
        Decision::enter_if(offer.fdirty || pages.directory.find(offer.page).is_none())
    }

    fn on_hit(pages: &mut Pages<'_>, memory: &mut Lru2<'_>, entry: u32) {
        // Pages in staging have no place in the lists yet.
        if entry < pages.directory.slots && pages.hits.defer(entry) {
            memory.catch_up(pages);
        }
    }

    fn on_leave(pages: &mut Pages<'_>, memory: &mut Lru2<'_>, slot: u32) {
        memory.catch_up(pages);
        pages.lists.take_out(slot);
        memory.history.remember(pages.directory.entry(slot).page(), pages.lists.note::<LastReference>(slot));
    }

    fn check(pages: &Pages<'_>, memory: &Lru2<'_>) -> Result<(), Violation> {
        check_hits(pages)?;
        memory.intervals.check(pages.directory.slots)?;
        memory.history.check()
    }
}

impl SlotPolicy for Lc {
    const FACTS: SlotFacts = SlotFacts {
        lists: Lists::Fixed(lists::LISTS),
        cleans_above_permille: Some(900),
        remembers: true,
        ..SlotFacts::BASE
    };
    type Note = LastReference;

    fn on_enter(pages: &mut Pages<'_>, memory: &mut Lru2<'_>, slot: u32) {
        memory.catch_up(pages);
        let before = memory.history.recall(pages.directory.entry(slot).page());
        let (now, list) = memory.intervals.refer(&mut pages.lists, before);
        pages.lists.set_note::<LastReference>(slot, now);
        pages.lists.push_back(list, slot);
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
}

impl Lru2<'_> {
    /// Moves the pages of the batch to their places in the lists, in the order in which they were fetched.
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

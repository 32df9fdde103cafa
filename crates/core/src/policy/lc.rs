//! Lazy Cleaning (Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011; as FaCE §2.3 and §5.3 describe and
//! measure it): on exit, clean and dirty, write-back, LRU-2, and a background cleaner.
//!
//! ```text
//! victim:  among the pages referenced once, the least recently used; else the page whose last reference but one is oldest
//! cleaner: while more than dirty_permille_max of the slots are dirty: copy a cold dirty page to disk
//! ```
//!
//! A reference is a DRAM miss: the fetch of a page from flash, or the arrival of a page new to flash. Writing out a newer
//! version is not one, since it belongs to the fetch before (O'Neil's correlated references), nor is a fetch from
//! staging. The last reference of a page that left flash is remembered for `history` pages ([`history`]): without it
//! LRU-2 falls below FIFO.
//!
//! FaCE does not say above which dirty share the cleaner works; its table 3b, where LC saves more disk writes than GSC
//! throughout, is only possible with a high one: on a captured PostgreSQL trace LC falls behind GSC at 500 per mille and comes
//! out as in the table at 900, the default.
//!
//! Fetches are noted in a batch ([`crate::hits`]).
//!
//! Deviations: intervals instead of exact times ([`lists`]); the cleaner goes from cold to hot and then begins again,
//! instead of searching from the coldest page each time, so a page that became cold and dirty behind it waits for its
//! next round.

mod history;
mod lists;

use super::{Directory, Facts, Keeps, Lists, Memory, Offer, Placement, Policy, STARTS_EMPTY, Verdict};
use crate::check::Violation;
use crate::config::Config;
use crate::mode::Mode;
use crate::region::Partition;
use crate::sections::{Carver, SectionPlan};
use crate::slot::{BUSY, DIRTY, NIL};
use history::History;
use lists::Intervals;

/// LRU-2 with a lazy cleaner.
pub(crate) struct Lc;

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

    fn format(&mut self, config: &Config) {
        self.intervals.begin(config.slots);
        self.history.format(config);
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
    /// The last reference.
    type Note = u32;
    type Memory<'r> = Lru2<'r>;

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        Verdict::enter_if(offer.fdirty || partition.find(offer.page).is_none())
    }

    fn on_hit(partition: &mut Partition<'_>, entry: u32) {
        // What is still in staging has no place in the lists yet.
        if entry < partition.head.slots && partition.defer_hit(entry) {
            partition.catch_up();
        }
    }

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        partition.catch_up();
        let page = partition.slots[slot as usize].page();
        let before = Lc::of_mut(&mut partition.kept).history.recall(page);
        let (now, list) = partition.refer(before);
        partition.set_note::<Lc>(slot, now);
        partition.push_back(list, slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.catch_up();
        partition.take_out(slot);
        let (page, last) = (partition.slots[slot as usize].page(), partition.note::<Lc>(slot));
        Lc::of_mut(&mut partition.kept).history.remember(page, last);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        partition.catch_up();
        partition.coldest(NIL, |slot| !partition.slots[slot as usize].has(BUSY))
    }

    fn clean(partition: &mut Partition<'_>) -> Option<u32> {
        if !partition.too_many_dirty() {
            return None;
        }
        partition.catch_up();
        let dirty = |slot: u32| {
            let entry = &partition.slots[slot as usize];
            entry.has(DIRTY) && !entry.has(BUSY)
        };
        let cursor = partition.head.clean_cursor;
        let mut found = partition.coldest(cursor, dirty);
        if found.is_none() && cursor != NIL {
            found = partition.coldest(NIL, dirty);
        }
        partition.head.clean_cursor = found.unwrap_or(NIL);
        found
    }

    fn check(partition: &Partition<'_>) -> Result<(), Violation> {
        partition.check_hits()?;
        let Lru2 { intervals, history } = Lc::of(&partition.kept);
        intervals.check(partition.head.slots)?;
        history.check()
    }
}

impl Partition<'_> {
    /// Gives the pages of the batch their places in the lists, in the order in which they were fetched.
    fn catch_up(&mut self) {
        let list_of = |partition: &Self, slot| partition.list_for(partition.note::<Lc>(slot));
        self.catch_up_with(list_of, |partition, slot| {
            let before = partition.note::<Lc>(slot);
            let (now, list) = partition.refer(Some(before));
            partition.set_note::<Lc>(slot, now);
            partition.move_to_back(list, slot);
        });
    }
}

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
//! Deviations: intervals instead of exact times ([`lists`]); the cleaner goes from cold to hot and then begins again,
//! instead of searching from the coldest page each time, so a page that became cold and dirty behind it waits for its
//! next round.

pub(crate) mod history;
pub(crate) mod lists;

use super::{Offer, Policy, Verdict};
use crate::config::Placement;
use crate::region::Partition;
use crate::slot::{BUSY, DIRTY, NIL};
use lists::ONCE;

/// LRU-2 with a lazy cleaner.
pub(crate) struct Lc;

impl Policy for Lc {
    const PLACEMENT: Placement = Placement::Slots;

    fn init(partition: &mut Partition<'_>) {
        partition.init_intervals();
    }

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        Verdict::enter_if(offer.fdirty || partition.find(offer.page).is_none())
    }

    fn on_hit(partition: &mut Partition<'_>, entry: u32) {
        if entry >= partition.head.slots {
            return; // still in staging: it has no place in the lists yet
        }
        let now = partition.tick();
        let penultimate = partition.note(entry);
        partition.set_note(entry, now);
        partition.take_out(entry);
        let list = partition.list_for(penultimate);
        partition.push_back(list, entry);
    }

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        let now = partition.tick();
        let page = partition.slots[slot as usize].page();
        let list = match partition.recall(page) {
            Some(penultimate) => partition.list_for(penultimate),
            None => ONCE,
        };
        partition.set_note(slot, now);
        partition.push_back(list, slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.take_out(slot);
        let (page, last) = (partition.slots[slot as usize].page(), partition.note(slot));
        partition.remember(page, last);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        partition.coldest(NIL, |slot| !partition.slots[slot as usize].has(BUSY))
    }

    fn clean(partition: &mut Partition<'_>) -> Option<u32> {
        if !partition.too_many_dirty() {
            return None;
        }
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
}

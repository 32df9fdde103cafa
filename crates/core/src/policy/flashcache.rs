//! flashcache, the baseline of SCE (§2: "flashcache version 3.1.1"): set-associative, populated on every miss.
//!
//! ```text
//! set of p:                     given by its run of consecutive pages, as long as a set (512 pages)
//! on a read from disk:          p enters its set
//! on a write of p:              write-back:    p enters its set, dirty
//!                               write-through: p is written to disk, and enters its set
//!                               write-around:  p is written to disk; its copy is invalidated
//! victim for p:                 the page of p's set that entered first (FIFO, its default); a dirty one is destaged
//! cleaner:                      while more than a fifth of the pages are dirty: destage the dirty page that entered first,
//!                               set after set
//! ```
//!
//! Writes are a buffer pool's evictions of changed pages. The modes are the driver's: in write-through it hands pages down
//! clean, in write-around it takes copies back with [`crate::Partition::bypass`].
//!
//! Deviations: the paper gives no more than "populate on every miss", the modes and 24 bytes a block; sets, FIFO and the
//! dirty share are flashcache's documented defaults. The dirty share is counted over the whole cache, not for each set.
//! The last set is larger if the slots are no multiple of a set. Its metadata blocks, written for each dirty page in
//! write-back, are not kept, since the database's log covers what a crash loses.

use super::{Directory, Facts, Lists, Offer, Placement, Policy, STARTS_EMPTY, Verdict};
use crate::PageId;
use crate::mode::Mode;
use crate::region::Partition;
use crate::slot::{DIRTY, NIL};

/// Set-associative FIFO.
pub(crate) struct Flashcache;

impl Policy for Flashcache {
    const FACTS: Facts = Facts {
        name: "flashcache",
        placement: Placement::Slots,
        by_group: false,
        second_chances: false,
        populates: true,
        exclusive: false,
        refuses: &[(Mode::ReadOnly, STARTS_EMPTY)],
        directory: Directory::None,
        keeps_temperatures: false,
        lists: Lists::OfSets,
        cleans_above_permille: Some(200),
        remembers: false,
    };
    type Note = ();
    type Memory<'r> = ();

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        partition.on_entry_and_changed(offer)
    }

    fn arrive(_partition: &mut Partition<'_>, _page: PageId) -> bool {
        true
    }

    fn on_hit(_partition: &mut Partition<'_>, _entry: u32) {}

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        partition.push_back(partition.set_of_slot(slot), slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.take_out(slot);
    }

    fn free_ahead(_partition: &Partition<'_>) -> u32 {
        0
    }

    fn victim_for(partition: &mut Partition<'_>, page: PageId) -> Option<u32> {
        partition.first_idle(partition.set_of_page(page))
    }

    fn clean(partition: &mut Partition<'_>) -> Option<u32> {
        if !partition.too_many_dirty() {
            return None;
        }
        let sets = partition.sets();
        let cursor = partition.head.clean_cursor;
        let first = if cursor == NIL { 0 } else { partition.set_of_slot(cursor) };
        let dirty = |partition: &Partition<'_>, slot| {
            partition.slots[slot as usize].has(DIRTY) && partition.is_idle(slot)
        };
        let found = (first..sets).chain(0..first).find_map(|set| partition.first_where(set, dirty));
        partition.head.clean_cursor = found.unwrap_or(NIL);
        found
    }
}

//! flashcache, the baseline of SCE (§2: "flashcache version 3.1.1"): set-associative, populated on every
//! miss.
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
//! Writes are a buffer pool's evictions of changed pages. The driver implements the modes: in write-through
//! it evicts pages clean, in write-around it invalidates copies with [`crate::Slots::bypass`].
//!
//! Deviations: the paper gives only "populate on every miss", the modes and 24 bytes a block. Sets, FIFO and
//! the dirty share are flashcache's documented defaults. The dirty share is counted over the whole cache, not
//! for each set. The last set is larger if the slots are no multiple of a set. Of flashcache's metadata
//! blocks, written for each dirty page in write-back, slots that survive a crash have the like, one for each
//! batch. Without them the database's log redoes the changes that a crash loses.

use super::{Decision, Lists, Offer, Policy, SlotFacts, SlotPolicy, shared};
use crate::PageId;
use crate::pages::Pages;
use crate::slot::{DIRTY, NIL};

/// Set-associative FIFO.
pub(crate) struct Flashcache;

impl Policy for Flashcache {
    const NAME: &str = "flashcache";
    type Memory<'r> = ();

    fn admit(pages: &mut Pages<'_>, _: &mut (), offer: &Offer) -> Decision {
        shared::on_entry_and_changed(pages, offer)
    }

    fn on_hit(_pages: &mut Pages<'_>, _: &mut (), _entry: u32) {}

    fn on_leave(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        pages.lists.take_out(slot);
    }
}

impl SlotPolicy for Flashcache {
    const FACTS: SlotFacts = SlotFacts {
        populates: true,
        lists: Lists::OfSets,
        cleans_above_permille: Some(200),
        ..SlotFacts::BASE
    };
    type Note = ();

    fn on_enter(pages: &mut Pages<'_>, _: &mut (), slot: u32) {
        pages.lists.push_back(pages.sets.of_slot(slot), slot);
    }

    fn free_ahead(_pages: &Pages<'_>) -> u32 {
        0
    }

    fn victim_for(pages: &mut Pages<'_>, _: &mut (), page: PageId) -> Option<u32> {
        pages.first_idle(pages.sets.of_page(page))
    }

    fn clean(pages: &mut Pages<'_>, _: &mut ()) -> Option<u32> {
        if !pages.too_many_dirty() {
            return None;
        }
        let sets = pages.sets.count();
        let cursor = *pages.lists.cursor;
        let first = if cursor == NIL { 0 } else { pages.sets.of_slot(cursor) };
        let dirty = |slot| pages.directory.entry(slot).has(DIRTY) && pages.directory.is_idle(slot);
        let found = (first..sets).chain(0..first).find_map(|set| pages.lists.first_where(set, dirty));
        *pages.lists.cursor = found.unwrap_or(NIL);
        found
    }
}

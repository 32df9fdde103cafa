//! SIEVE (Zhang et al.: SIEVE is Simpler than LRU: an Efficient Turn-Key Eviction Algorithm for Web Caches,
//! NSDI 2024, algorithm 1), in place, populated on every miss, for comparison: CLOCK whose hand moves, and
//! not the pages.
//!
//! ```text
//! on a read from disk:          p enters at the head, not visited
//! on eviction of p from DRAM:   if p has changed: p enters (or goes over its older version, and is visited)
//! on fetch of p from flash:     p is visited
//! victim:                       from the hand towards the head, and then from the tail on: the first page not visited;
//!                               pages that the hand passes are not visited any more. The hand stays there
//! ```
//!
//! So the hand soon meets new pages that are not used, and pages that were used stay where they are.
//!
//! Deviations: the hand passes busy pages as they are. Up to 32 victims are emptied ahead of demand, see
//! [`super::lru`]; population and modes are as there.

use super::{Decision, ONLY_LIST, Offer, OneList, SlotFacts, shared};
use crate::pages::Pages;

/// CLOCK without moves. The hand is the lists' cursor: it moves to the next page when its page is evicted.
pub(crate) struct Sieve;

impl OneList for Sieve {
    const NAME: &str = "sieve";
    const FACTS: SlotFacts = SlotFacts { populates: true, ..SlotFacts::BASE };
    const HITS_ONLY_REFER: bool = true;

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_changed(pages, offer)
    }

    fn used(pages: &mut Pages<'_>, slot: u32) {
        pages.directory.index.refer(slot);
    }

    fn victim(pages: &mut Pages<'_>) -> Option<u32> {
        let Pages { directory, lists, .. } = pages;
        // The tail of the paper is the front of the list, after its head.
        let mut at = lists.slot(*lists.cursor).unwrap_or(lists.head(ONLY_LIST));
        let mut turns = 0;
        // Each idle page has been passed, and lost its flag, before the third turn ends.
        while turns < 3 {
            match lists.slot(at) {
                None => turns += 1,
                Some(slot) if !directory.is_idle(slot) => {}
                Some(slot) if !directory.index.is_referenced(slot) => {
                    *lists.cursor = slot;
                    return Some(slot);
                }
                Some(slot) => directory.index.take_reference(slot),
            }
            at = lists.next_of(at);
        }
        None
    }
}

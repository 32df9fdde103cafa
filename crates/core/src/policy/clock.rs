//! CLOCK as a flash policy, for comparison: FIFO with second chances in place.
//!
//! ```text
//! on a read from disk:          p enters behind the hand, not referenced
//! on eviction of p from DRAM:   if p has changed: p enters behind the hand, or goes over its older version: p.referenced := true
//! on fetch of p from flash:     p.referenced := true
//! victim:                       the page at the hand; if p.referenced: p.referenced := false, and the hand moves on
//! ```
//!
//! The circle is a list whose front is the hand: a page that the hand passes moves to the back. Busy pages
//! are skipped and keep their flag and place. Population, modes and deviations are as with [`super::lru`].

use super::{Decision, ONLY_LIST, Offer, OneList, SlotFacts, shared};
use crate::pages::Pages;

/// Second-chance FIFO, in place.
pub(crate) struct Clock;

impl OneList for Clock {
    const NAME: &str = "clock";
    const FACTS: SlotFacts = SlotFacts { populates: true, ..SlotFacts::BASE };
    const HITS_ONLY_REFER: bool = true;

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_changed(pages, offer)
    }

    fn used(pages: &mut Pages<'_>, slot: u32) {
        pages.directory.index.refer(slot);
    }

    fn victim(pages: &mut Pages<'_>) -> Option<u32> {
        let node = pages.lists.head(ONLY_LIST);
        let mut at = pages.lists.next_of(node);
        // The loop ends: a page that was passed is met again without its flag.
        while at != node {
            if !pages.directory.is_idle(at) {
                at = pages.lists.next_of(at);
                continue;
            }
            if !pages.directory.index.is_referenced(at) {
                return Some(at);
            }
            pages.directory.index.take_reference(at);
            let next = pages.lists.next_of(at);
            pages.lists.move_to_back(ONLY_LIST, at);
            if next != node {
                at = next;
            }
        }
        None
    }
}

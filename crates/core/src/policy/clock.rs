//! CLOCK as a flash policy, for comparison: FIFO with second chances in place.
//!
//! ```text
//! on a read from disk:          p enters behind the hand, not referenced
//! on eviction of p from DRAM:   if p has changed: p enters behind the hand, or goes over its older version: p.referenced := true
//! on fetch of p from flash:     p.referenced := true
//! victim:                       the page at the hand; if p.referenced: p.referenced := false, and the hand moves on
//! ```
//!
//! The circle is a list whose front is the hand: a page that the hand passes moves to the back. Pages that something is
//! being done with are passed over and keep flag and place. Population, modes and deviations as with [`super::lru`].

use super::{Directory, Facts, Lists, ONLY_LIST, Offer, OneList, Placement, STARTS_EMPTY, Verdict};
use crate::mode::Mode;
use crate::region::Partition;
use crate::slot::REFERENCED;

/// Second-chance FIFO, in place.
pub(crate) struct Clock;

impl OneList for Clock {
    const FACTS: Facts = Facts {
        name: "clock",
        placement: Placement::Slots,
        by_group: false,
        second_chances: false,
        populates: true,
        exclusive: false,
        refuses: &[(Mode::ReadOnly, STARTS_EMPTY)],
        directory: Directory::None,
        keeps_temperatures: false,
        lists: Lists::Fixed(1),
        cleans_above_permille: None,
        remembers: false,
    };

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        partition.on_entry_and_changed(offer)
    }

    fn used(partition: &mut Partition<'_>, slot: u32) {
        partition.slots[slot as usize].raise(REFERENCED);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        let node = partition.list_node(ONLY_LIST);
        let mut at = partition.next_of(node);
        // Ends: a page that is passed comes again without its flag.
        while at != node {
            if !partition.is_idle(at) {
                at = partition.next_of(at);
                continue;
            }
            if !partition.slots[at as usize].has(REFERENCED) {
                return Some(at);
            }
            partition.slots[at as usize].lower(REFERENCED);
            let next = partition.next_of(at);
            partition.move_to_back(ONLY_LIST, at);
            if next != node {
                at = next;
            }
        }
        None
    }
}

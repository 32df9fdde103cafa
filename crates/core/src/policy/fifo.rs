//! FIFO as a flash policy, for comparison: mvFIFO's order without its log, i.e. in place and one version a page.
//!
//! ```text
//! on a read from disk:          p enters at the rear
//! on eviction of p from DRAM:   if p has changed: p enters at the rear, or goes over its older version and keeps its place
//! victim:                       the front; dirty ones are destaged
//! ```
//!
//! Population, modes and deviations as with [`super::lru`].

use super::{ONLY_LIST, Offer, Policy, Verdict};
use crate::PageId;
use crate::config::Placement;
use crate::region::Partition;

/// First in, first out.
pub(crate) struct Fifo;

impl Policy for Fifo {
    const PLACEMENT: Placement = Placement::Slots;

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        partition.on_entry_and_changed(offer)
    }

    fn arrive(_partition: &mut Partition<'_>, _page: PageId) -> bool {
        true
    }

    fn on_hit(_partition: &mut Partition<'_>, _entry: u32) {}

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        partition.push_back(ONLY_LIST, slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.take_out(slot);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        partition.first_idle(ONLY_LIST)
    }
}

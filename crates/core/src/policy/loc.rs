//! LOC, the local algorithm (Ou, Härder: Trading Memory for Performance and Energy, §3.1, algorithm 1): the flash is an LRU
//! cache that knows nothing of the pool above.
//!
//! ```text
//! read p:   if p is at cache position c:  read it there; move c to the MRU position
//!           else:                         v := the LRU position; if v is dirty: flush its page to disk
//!                                         read p from disk, store it at v; move v to the MRU position
//! write p:  if p is at cache position c:  store p at c, dirty
//!           else:                         write p to disk
//! ```
//!
//! Deviations: the text does not say whether a write that hits moves its position; "maintained in an LRU fashion" is taken to
//! mean that it does. Storing p is not waited for: it goes through staging, and when staging is full it is left out (the page
//! is clean). Victims are emptied ahead of demand, see [`super::lru`].

use super::{ONLY_LIST, Offer, Policy, Verdict};
use crate::PageId;
use crate::config::Placement;
use crate::region::Partition;

/// Local LRU.
pub(crate) struct Loc;

impl Policy for Loc {
    const PLACEMENT: Placement = Placement::Slots;

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        match (partition.find(offer.page), offer.fdirty) {
            (Some(_), true) => Verdict::Enter,
            (Some(_), false) => Verdict::There,
            (None, _) => Verdict::Bypass,
        }
    }

    fn arrive(_partition: &mut Partition<'_>, _page: PageId) -> bool {
        true
    }

    fn on_hit(partition: &mut Partition<'_>, entry: u32) {
        if entry < partition.head.slots {
            partition.move_to_back(ONLY_LIST, entry);
        }
    }

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        partition.push_back(ONLY_LIST, slot);
    }

    fn on_overwrite(partition: &mut Partition<'_>, slot: u32) {
        partition.move_to_back(ONLY_LIST, slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.take_out(slot);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        partition.first_idle(ONLY_LIST)
    }
}

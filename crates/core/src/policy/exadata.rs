//! The cache of Oracle Exadata as FaCE describes it (§2.3, table 2): on entry, clean pages only, write-through, LRU.
//!
//! ```text
//! on a read from disk:          p enters at the MRU end
//! on eviction of p from DRAM:   if p is dirty: write p to disk, and over its copy on flash if there is one
//! on fetch of p from flash:     p moves to the MRU end
//! victim:                       the LRU end, which is clean: dropped
//! ```
//!
//! A page that is handed down dirty was not written to disk first: it stays out, and its copy on flash is forgotten.
//!
//! Deviations: "hot data selection is done statically by the types of data such that tables and indexes have higher
//! priority than log and backup data": the log never comes here, backups do not exist, so no page is put before another.
//! The paper does not say whether writing over a copy counts as a use; here it does. The directory does not survive, as the
//! paper says of none but TAC and FaCE. Victims are emptied ahead of demand, see [`super::lru`].

use super::{ONLY_LIST, Offer, Policy, Verdict};
use crate::PageId;
use crate::config::Placement;
use crate::region::Partition;

/// On entry, clean, LRU.
pub(crate) struct Exadata;

impl Policy for Exadata {
    const PLACEMENT: Placement = Placement::Slots;

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        partition.on_entry_and_clean(offer)
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

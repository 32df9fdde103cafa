//! The cache of Oracle Exadata as FaCE describes it (§2.3, table 2): on entry, clean pages only,
//! write-through, LRU.
//!
//! ```text
//! on a read from disk:          p enters at the MRU end
//! on eviction of p from DRAM:   if p is dirty: write p to disk, and over its copy on flash if there is one
//! on fetch of p from flash:     p moves to the MRU end
//! victim:                       the LRU end, which is clean: dropped
//! ```
//!
//! A page that is evicted dirty was not written to disk first: it does not enter, and its copy on flash is
//! forgotten.
//!
//! Deviations: "hot data selection is done statically by the types of data such that tables and indexes have
//! higher priority than log and backup data". The cache never sees the log, and there are no backups, so all
//! pages have the same priority. The paper does not say whether an overwrite of a copy counts as a use; here
//! it does. The directory does not survive: the paper mentions surviving directories only of TAC and FaCE.
//! Victims are emptied ahead of demand, see [`super::lru`].

use super::{Decision, Offer, OneList, SlotFacts, shared};
use crate::pages::Pages;

/// On entry, clean, LRU.
pub(crate) struct Exadata;

impl OneList for Exadata {
    const NAME: &str = "exadata";
    const FACTS: SlotFacts = SlotFacts { populates: true, clean_only: true, ..SlotFacts::BASE };

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_clean(pages, offer)
    }
}

//! LRU as a flash policy, for comparison: a buffer pool's policy below another buffer pool, which has
//! absorbed most of the recency.
//!
//! ```text
//! on a read from disk:          p enters at the MRU end
//! on eviction of p from DRAM:   if p has changed: p enters (or goes over its older version), dirty, at the MRU end
//! on fetch of p from flash:     p moves to the MRU end
//! victim:                       the LRU end; dirty ones are destaged
//! ```
//!
//! Population is on entry, and write-back on exit: a page that DRAM evicts unchanged is not written to flash
//! again. A changed page that did not enter earlier (staging was full) may enter at its eviction.
//! Write-through and write-around are modes of the driver.
//!
//! Deviation from a textbook LRU: up to 32 victims are emptied ahead of demand, since dirty ones must reach
//! the disk before their slot is used again. So a cache of n slots holds at least n − 32 pages. A page joins
//! the list when its write to flash is complete, so pages written by several workers may swap places with
//! their neighbours.

use super::{Decision, Offer, OneList, SlotFacts, shared};
use crate::pages::Pages;

/// Least recently used.
pub(crate) struct Lru;

impl OneList for Lru {
    const NAME: &str = "lru";
    const FACTS: SlotFacts = SlotFacts { populates: true, ..SlotFacts::BASE };

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_changed(pages, offer)
    }
}

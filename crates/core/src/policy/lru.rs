//! LRU as a flash policy, for comparison: what a buffer pool's policy does below another one, where recency
//! is mostly gone.
//!
//! ```text
//! on a read from disk:          p enters at the MRU end
//! on eviction of p from DRAM:   if p has changed: p enters (or goes over its older version), dirty, at the MRU end
//! on fetch of p from flash:     p moves to the MRU end
//! victim:                       the LRU end; dirty ones are destaged
//! ```
//!
//! On-entry population and write-back on exit: a page that DRAM drops unchanged is not written to flash
//! again, and one that was changed but never entered (dropped in a rush) gets its chance then. Write-through
//! and write-around are the driver's modes.
//!
//! Deviation from a textbook LRU: up to 32 victims are emptied ahead of demand (dirty ones must reach the
//! disk before their slot is used again), so a cache of n slots holds n − 32 pages at the least. A page joins
//! the list when its write to flash is complete, so pages written by several workers may change places with
//! their neighbours.

use super::{Decision, Directory, Facts, Lists, Offer, OneList, Placement, STARTS_EMPTY, shared};
use crate::mode::Mode;
use crate::pages::Pages;

/// Least recently used.
pub(crate) struct Lru;

impl OneList for Lru {
    const FACTS: Facts = Facts {
        name: "lru",
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

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_changed(pages, offer)
    }
}

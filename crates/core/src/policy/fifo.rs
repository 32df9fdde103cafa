//! FIFO as a flash policy, for comparison: mvFIFO's order without its log, in place and with one version of a
//! page.
//!
//! ```text
//! on a read from disk:          p enters at the rear
//! on eviction of p from DRAM:   if p has changed: p enters at the rear, or goes over its older version and keeps its place
//! victim:                       the front; dirty ones are destaged
//! ```
//!
//! Population, modes and deviations are as with [`super::lru`].

use super::{Decision, Offer, OneList, SlotFacts, shared};
use crate::pages::Pages;

/// First in, first out.
pub(crate) struct Fifo;

impl OneList for Fifo {
    const NAME: &str = "fifo";
    const FACTS: SlotFacts = SlotFacts { populates: true, ..SlotFacts::BASE };

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_changed(pages, offer)
    }

    fn used(_pages: &mut Pages<'_>, _slot: u32) {}
}

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

use super::{Decision, Directory, Facts, Lists, Offer, OneList, Placement, STARTS_EMPTY, shared};
use crate::mode::Mode;
use crate::pages::Pages;

/// First in, first out.
pub(crate) struct Fifo;

impl OneList for Fifo {
    const FACTS: Facts = Facts {
        name: "fifo",
        placement: Placement::Slots,
        by_group: false,
        second_chances: false,
        spare_groups: 0,
        pulls: false,
        keeps_out: false,
        populates: true,
        learns_from_misses: false,
        weighs_costs: false,
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

    fn used(_pages: &mut Pages<'_>, _slot: u32) {}
}

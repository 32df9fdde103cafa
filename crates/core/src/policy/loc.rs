//! LOC, the local algorithm (Ou, Härder: Trading Memory for Performance and Energy, §3.1, algorithm 1): the
//! flash is an LRU cache that knows nothing of the pool above.
//!
//! ```text
//! read p:   if p is at cache position c:  read it there; move c to the MRU position
//!           else:                         v := the LRU position; if v is dirty: flush its page to disk
//!                                         read p from disk, store it at v; move v to the MRU position
//! write p:  if p is at cache position c:  store p at c, dirty
//!           else:                         write p to disk
//! ```
//!
//! Deviations: the text does not say whether a write that hits moves its position; we read "maintained in an
//! LRU fashion" so that it does. A reader does not wait until p is stored: p is copied to staging, or not
//! stored when staging is full (p is clean). Victims are emptied ahead of demand, see [`super::lru`].

use super::{Decision, Directory, Facts, Lists, Offer, OneList, Placement};
use crate::pages::Pages;

/// Local LRU.
pub(crate) struct Loc;

impl OneList for Loc {
    const FACTS: Facts = Facts {
        name: "loc",
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
        refuses: &[],
        directory: Directory::AtShutdown,
        keeps_temperatures: false,
        lists: Lists::Fixed(1),
        cleans_above_permille: None,
        remembers: false,
    };

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        match (pages.directory.find(offer.page), offer.fdirty) {
            (Some(_), true) => Decision::Enter,
            (Some(_), false) => Decision::There,
            (None, _) => Decision::Bypass,
        }
    }
}

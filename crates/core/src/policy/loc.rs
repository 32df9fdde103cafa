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

use super::{Decision, Offer, OneList, SlotFacts, Survives};
use crate::pages::Pages;

/// Local LRU.
pub(crate) struct Loc;

impl OneList for Loc {
    const NAME: &str = "loc";
    const FACTS: SlotFacts = SlotFacts { populates: true, survives: Survives::Shutdowns, ..SlotFacts::BASE };

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        match (pages.directory.find(offer.page), offer.fdirty) {
            (Some(_), true) => Decision::Enter,
            (Some(_), false) => Decision::There,
            (None, _) => Decision::Bypass,
        }
    }
}

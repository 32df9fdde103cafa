//! GLB, the global algorithm (Ou, Härder: Trading Memory for Performance and Energy, §3.2; Zhou et al.,
//! 2001): a page is in DRAM or on flash, and both together are one LRU list, whose LRU end is on flash.
//!
//! ```text
//! read p:            if p is on flash: move it to DRAM; else read it from disk to DRAM
//! write or evict q:  v := the LRU position; if v is dirty: flush its page to disk
//!                    store q at v, dirty if q is dirty; move v to the MRU position
//! ```
//!
//! The text says once that the evicted page becomes the LRU page of the flash, and once that its position
//! becomes MRU. One logical list needs the latter. A driver reports each page that it has read with
//! [`crate::Slots::taken`].
//!
//! Deviations: a page that is being written or destaged when it is fetched stays on flash too, and so does
//! one that the driver must not take. (In the engine that is a dirty page during a checkpoint: otherwise both
//! the checkpoint's pass over DRAM and its sweep of the flash might miss it.) A page that stays moves to the
//! MRU position, and when DRAM evicts it unchanged, it need not be written. Victims are emptied ahead of
//! demand, see [`super::lru`].

use super::{Decision, Offer, OneList, SlotFacts, Survives};
use crate::pages::Pages;

/// Global LRU.
pub(crate) struct Glb;

impl OneList for Glb {
    const NAME: &str = "glb";
    const FACTS: SlotFacts = SlotFacts { exclusive: true, survives: Survives::Shutdowns, ..SlotFacts::BASE };

    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision {
        let there = pages.directory.find(offer.page);
        if let Some(slot) = there.filter(|entry| !offer.fdirty && *entry < pages.directory.slots) {
            Self::used(pages, slot);
        }
        Decision::enter_if(offer.fdirty || there.is_none())
    }
}

//! FaCE: Multi-Version FIFO, alone, with Group Replacement, and with Group Second Chance (Kang, Lee, Moon:
//! Flash-Based Extended Cache for Higher Throughput and Faster Recovery, VLDB 2012, §3.3).
//!
//! ```text
//! on eviction of p from DRAM:   if p.fdirty or p is not in flash: enqueue p; it becomes the valid version
//! on eviction of p from flash:  GSC: if p.valid and p.referenced: enqueue p again
//!                               else if p.valid and p.dirty: write p to disk
//!                               else: discard p
//! on fetch of p from flash:     p.referenced := true
//! ```
//!
//! Deviations: the previous version stays valid until the new one is durable on flash. (The paper invalidates
//! it at once, which loses the page if a crash comes between.) A page whose newer version is in staging is
//! not destaged; its slot is kept until that version is durable. Page-by-page mvFIFO also dequeues the slots
//! of a group at a time, but with one I/O for each page, as in the paper.

use super::{Decision, LogFacts, LogPolicy, Offer, Policy, SecondChances};
use crate::job::Fate;
use crate::pages::Pages;

/// mvFIFO: one I/O a page.
pub(crate) struct Face;
/// mvFIFO with one I/O a group.
pub(crate) struct FaceGr;
/// Groups, and second chances.
pub(crate) struct FaceGsc;

/// FaCE algorithm 1: conditional and unconditional enqueue.
fn enqueue(pages: &Pages<'_>, offer: &Offer) -> Decision {
    Decision::enter_if(offer.fdirty || pages.directory.find(offer.page).is_none())
}

#[inline(always)]
fn refer(pages: &Pages<'_>, entry: u32) {
    pages.directory.index.refer(entry);
}

impl Policy for Face {
    const NAME: &str = "face";
    const HITS_ONLY_REFER: bool = true;
    type Memory<'r> = ();

    fn admit(pages: &mut Pages<'_>, _: &mut (), offer: &Offer) -> Decision {
        enqueue(pages, offer)
    }

    #[inline(always)]
    fn on_hit(pages: &mut Pages<'_>, _: &mut (), entry: u32) {
        refer(pages, entry);
    }
}

impl LogPolicy for Face {
    const FACTS: LogFacts = LogFacts { by_group: false, ..LogFacts::BASE };
}

impl Policy for FaceGr {
    const NAME: &str = "face-gr";
    const HITS_ONLY_REFER: bool = true;
    type Memory<'r> = ();

    fn admit(pages: &mut Pages<'_>, _: &mut (), offer: &Offer) -> Decision {
        enqueue(pages, offer)
    }

    #[inline(always)]
    fn on_hit(pages: &mut Pages<'_>, _: &mut (), entry: u32) {
        refer(pages, entry);
    }
}

impl LogPolicy for FaceGr {
    const FACTS: LogFacts = LogFacts::BASE;
}

impl Policy for FaceGsc {
    const NAME: &str = "face-gsc";
    const HITS_ONLY_REFER: bool = true;
    type Memory<'r> = ();

    fn admit(pages: &mut Pages<'_>, _: &mut (), offer: &Offer) -> Decision {
        enqueue(pages, offer)
    }

    #[inline(always)]
    fn on_hit(pages: &mut Pages<'_>, _: &mut (), entry: u32) {
        refer(pages, entry);
    }
}

impl LogPolicy for FaceGsc {
    const FACTS: LogFacts =
        LogFacts { second_chances: Some(SecondChances { spare_groups: 0, pulls: true }), ..LogFacts::BASE };

    fn fate(pages: &Pages<'_>, _: &(), slot: u32) -> Fate {
        if pages.directory.index.is_referenced(slot) {
            Fate::SecondChance
        } else {
            pages.fate_without_chance(slot)
        }
    }
}

//! What a policy is asked, and when. Mechanism (`placement`, `staging`) asks; a policy reads the directory,
//! keeps its notes, and answers. It is given [`Pages`] and its own memory, and nothing else of the partition.

use super::{Facts, Memory};
use crate::PageId;
use crate::job::Fate;
use crate::pages::Pages;
use crate::sections::Plain;
use crate::slot::DIRTY;
use crate::violation::Violation;

/// A page that DRAM evicts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub page: PageId,
    /// Newer than disk.
    pub dirty: bool,
    /// Newer than the flash copy.
    pub fdirty: bool,
}

/// What becomes of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It enters.
    Enter,
    /// An identical copy is there.
    There,
    /// It does not enter; a copy that is there is stale.
    Bypass,
}

impl Decision {
    /// It enters, or an identical copy is there.
    pub(crate) const fn enter_if(enters: bool) -> Self {
        if enters { Decision::Enter } else { Decision::There }
    }
}

/// What a policy decides. Entries are indices into the directory: a slot, or a staging frame behind the
/// slots.
pub(crate) trait Policy {
    /// What is fixed about it.
    const FACTS: Facts;
    /// What it notes of each slot, in words of 4 bytes beside the links of its lists; `()`: nothing.
    type Note: Plain;
    /// What it keeps for the partition; `()`: nothing.
    type Memory<'r>: Memory<'r>;

    /// Whether a page that leaves DRAM enters the flash.
    fn admit(pages: &mut Pages<'_>, offer: &Offer) -> Decision;
    /// A page that is not on flash has come from disk: whether it enters. `room`: a slot is free for it,
    /// those for staged pages apart.
    fn arrive(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId, _room: bool) -> bool {
        false
    }
    /// `entry` was fetched.
    fn on_hit(pages: &mut Pages<'_>, memory: &mut Self::Memory<'_>, entry: u32);
    /// A page that was not on flash now lies in `slot` (slot placement).
    fn on_enter(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// A newer version of its page was written over `slot` (slot placement).
    fn on_overwrite(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// The page in `slot` is about to be forgotten (slot placement).
    fn on_leave(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// How many slots are to be free ahead of demand (slot placement).
    fn free_ahead(pages: &Pages<'_>) -> u32 {
        FREE_AHEAD_MAX.min(pages.directory.slots / 8)
    }
    /// The slot to empty next (slot placement); log placement empties the front of the ring.
    fn victim(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>) -> Option<u32> {
        None
    }
    /// The slot to empty for `page`, when none is free where it may lie: for policies that empty on demand
    /// instead of ahead of it (slot placement).
    fn victim_for(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId) -> Option<u32> {
        None
    }
    /// What becomes of the page in `slot`, the newest of its page, when the slot is emptied.
    fn fate(pages: &Pages<'_>, slot: u32) -> Fate {
        if pages.directory.entry(slot).has(DIRTY) { Fate::Destage } else { Fate::Drop }
    }
    /// The next dirty slot to copy to disk in the background, if it is time for that.
    fn clean(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>) -> Option<u32> {
        None
    }
    /// The invariants of what it keeps. Nothing in the region is taken on trust, see
    /// [`crate::Partition::check`].
    fn check(_pages: &Pages<'_>, _memory: &Self::Memory<'_>) -> Result<(), Violation> {
        Ok(())
    }
}

/// Most slots that are kept free ahead of demand.
const FREE_AHEAD_MAX: u32 = 32;

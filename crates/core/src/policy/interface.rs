//! The interface of a policy. The mechanism (`placement`, `staging`) asks; the policy reads the directory,
//! keeps its notes, and answers. A policy has access to [`Pages`] and its own memory only.

use super::{Facts, Memory};
use crate::PageId;
use crate::costs::{Costs, Load};
use crate::job::Fate;
use crate::pages::Pages;
use crate::sections::Plain;
use crate::slot::DIRTY;
use crate::violation::Violation;
use std::ops::Range;

/// A page that DRAM evicts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub page: PageId,
    /// Newer than disk.
    pub dirty: bool,
    /// Newer than the flash copy.
    pub fdirty: bool,
}

/// The answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It enters.
    Enter,
    /// An identical copy is on flash or in staging.
    There,
    /// It does not enter. Slot placement: an existing copy is stale. Log placement: there is none, since a
    /// log takes no copy back. A changed page enters all the same while a crash could find an older version
    /// of it ([`crate::placement::ring`], `bypass`).
    Bypass,
}

impl Decision {
    /// `Enter` if `enters`, otherwise `There`.
    pub(crate) const fn enter_if(enters: bool) -> Self {
        if enters { Decision::Enter } else { Decision::There }
    }
}

/// The decisions of a policy. Entries are indices into the directory: a slot or, after all slots, a staging
/// frame.
pub(crate) trait Policy {
    /// Its fixed properties.
    const FACTS: Facts;
    /// Its note on each slot, in words of 4 bytes after the links of its lists. `()`: none.
    type Note: Plain;
    /// Its memory for the partition. `()`: none.
    type Memory<'r>: Memory<'r>;

    /// Whether a page that is evicted from DRAM enters the flash. If there is no room, it is asked again, so
    /// a repeated question changes nothing.
    fn admit(pages: &mut Pages<'_>, memory: &mut Self::Memory<'_>, offer: &Offer) -> Decision;
    /// A page that is evicted from DRAM does not enter.
    fn on_bypass(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _offer: &Offer) {}
    /// A page that is evicted from DRAM, or has come from disk, was staged as `entry`, the newest of its
    /// page.
    fn on_stage(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _entry: u32) {}
    /// The page of entry `from` is now in entry `to`, too: a staged page is written to its slot, or a page in
    /// a slot is staged for its second chance.
    fn on_carry(_memory: &mut Self::Memory<'_>, _from: u32, _to: u32) {}
    /// Whether a page that is not on flash enters when it has been read from disk. `room`: a slot is free for
    /// it, in addition to those for staged pages.
    fn arrive(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId, _room: bool) -> bool {
        false
    }
    /// A page was fetched that is neither staged nor on flash ([`Facts::learns_from_misses`]).
    #[inline(always)]
    fn on_miss(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId) {}
    /// What the devices cost, from now on. Until then that is unknown.
    fn set_costs(_memory: &mut Self::Memory<'_>, _costs: &Costs) {}
    /// How long the devices have been at work up to now.
    fn observe(_memory: &mut Self::Memory<'_>, _load: Load) {}
    /// `entry` was fetched.
    fn on_hit(pages: &mut Pages<'_>, memory: &mut Self::Memory<'_>, entry: u32);
    /// A page that was not on flash was written to `slot` (slot placement).
    fn on_enter(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// A newer version of its page was written over `slot` (slot placement).
    fn on_overwrite(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// The page in `slot` is about to be forgotten. Log placement: `slot` is about to be released, with the
    /// newest version on flash of its page.
    fn on_leave(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// The number of slots to keep free ahead of demand (slot placement).
    fn free_ahead(pages: &Pages<'_>) -> u32 {
        FREE_AHEAD_MAX.min(pages.directory.slots / 8)
    }
    /// The slot to empty next (slot placement). Log placement empties the front of the ring.
    fn victim(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>) -> Option<u32> {
        None
    }
    /// The slot to empty for `page` when no slot that may hold it is free (slot placement). For policies that
    /// empty slots on demand instead of ahead of it.
    fn victim_for(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId) -> Option<u32> {
        None
    }
    /// Whether pages that leave are to be on disk before second chances get positions (log placement). Until
    /// a group is released, each page with a second chance takes two slots. So that is to take as short as
    /// possible where disk is slow; where flash is slow, both are to be written at once.
    fn leaves_first(_memory: &Self::Memory<'_>) -> bool {
        false
    }
    /// The group in `slots` is about to be dequeued (log placement).
    fn on_dequeue(_pages: &Pages<'_>, _memory: &mut Self::Memory<'_>, _slots: Range<u32>) {}
    /// The fate of the page in `slot`, the newest version on flash, when the slot is emptied.
    fn fate(pages: &Pages<'_>, _memory: &Self::Memory<'_>, slot: u32) -> Fate {
        if pages.directory.entry(slot).has(DIRTY) { Fate::Destage } else { Fate::Drop }
    }
    /// The value of the page in `slot`, if its fate is a second chance. Where too many pages of a group have
    /// one, those of least value lose it, and among equals those nearest to the front.
    fn worth(_pages: &Pages<'_>, _memory: &Self::Memory<'_>, _slot: u32) -> u32 {
        0
    }
    /// Most second chances in a group of so many pages: a dequeue must free a slot (FaCE §3.3).
    fn chances_max(group_pages: u32) -> u32 {
        group_pages - 1
    }
    /// The next dirty slot to copy to disk in the background, if a cleaning is due.
    fn clean(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>) -> Option<u32> {
        None
    }
    /// The invariants of the policy's memory. The check trusts nothing in the region, see
    /// [`crate::Partition::check`].
    fn check(_pages: &Pages<'_>, _memory: &Self::Memory<'_>) -> Result<(), Violation> {
        Ok(())
    }
}

/// Most slots that are kept free ahead of demand.
const FREE_AHEAD_MAX: u32 = 32;

//! The interface of a policy. The mechanism (`placement`, `staging`) asks; the policy reads the directory,
//! keeps its notes, and answers. A policy has access to [`Pages`] and its own memory only.

use super::{LogFacts, Memory, SlotFacts};
use crate::PageId;
use crate::costs::{Costs, Load};
use crate::job::Fate;
use crate::pages::Pages;
use crate::sections::Plain;
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

/// The decisions of a policy that both placements ask for. Each policy is a [`LogPolicy`] or a
/// [`SlotPolicy`], too. Entries are indices into the directory: a slot or, after all slots, a staging frame.
pub(crate) trait Policy {
    /// The name on the command line.
    const NAME: &'static str;
    /// Pages that were not found are evidence ([`Facts::learns_from_misses`](crate::Facts)).
    const LEARNS_FROM_MISSES: bool = false;
    /// What enters depends on what the devices cost ([`Facts::weighs_costs`](crate::Facts)).
    const WEIGHS_COSTS: bool = false;
    /// A hit sets the reference bit of its entry, and changes nothing else: so a hit needs no latch
    /// ([`Facts::hits_only_refer`](crate::Facts)).
    const HITS_ONLY_REFER: bool = false;
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
    /// A page was fetched that is neither staged nor on flash, if the policy
    /// [learns from misses](Self::LEARNS_FROM_MISSES).
    #[inline(always)]
    fn on_miss(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId) {}
    /// What the devices cost, from now on. Until then that is unknown.
    fn set_costs(_memory: &mut Self::Memory<'_>, _costs: &Costs) {}
    /// How long the devices have been at work up to now.
    fn observe(_memory: &mut Self::Memory<'_>, _load: Load) {}
    /// `entry` was fetched.
    fn on_hit(pages: &mut Pages<'_>, memory: &mut Self::Memory<'_>, entry: u32);
    /// The page in `slot` is about to be forgotten. Log placement: `slot` is about to be released, with the
    /// newest version on flash of its page.
    fn on_leave(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// The invariants of the policy's memory. The check trusts nothing in the region, see
    /// [`crate::Partition::check`].
    fn check(_pages: &Pages<'_>, _memory: &Self::Memory<'_>) -> Result<(), Violation> {
        Ok(())
    }
}

/// The decisions of a policy with log placement, which empties the front of the ring.
pub(crate) trait LogPolicy: Policy {
    /// The fixed properties that belong to its placement.
    const FACTS: LogFacts;

    /// The group in `slots` is about to be dequeued.
    fn on_dequeue(_pages: &Pages<'_>, _memory: &mut Self::Memory<'_>, _slots: Range<u32>) {}
    /// The fate of the page in `slot`, the newest version on flash, when its group is dequeued.
    fn fate(pages: &Pages<'_>, _memory: &Self::Memory<'_>, slot: u32) -> Fate {
        pages.fate_without_chance(slot)
    }
    /// Whether pages that leave are to be on disk before second chances get positions. Until a group is
    /// released, each page with a second chance takes two slots. So that is to take as short as possible
    /// where disk is slow; where flash is slow, both are to be written at once.
    fn leaves_first(_memory: &Self::Memory<'_>) -> bool {
        false
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
}

/// The decisions of a policy with slot placement.
pub(crate) trait SlotPolicy: Policy {
    /// The fixed properties that belong to its placement.
    const FACTS: SlotFacts;
    /// Its note on each slot, in words of 4 bytes after the links of its lists. `()`: none.
    type Note: Plain;

    /// Whether a page that is not on flash enters when it has been read from disk. `room`: a slot is free for
    /// it, in addition to those for staged pages.
    fn arrive(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId, _room: bool) -> bool {
        Self::FACTS.populates
    }
    /// A page that was not on flash was written to `slot`.
    fn on_enter(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// A newer version of its page was written over `slot`.
    fn on_overwrite(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _slot: u32) {}
    /// The number of slots to keep free ahead of demand.
    fn free_ahead(pages: &Pages<'_>) -> u32 {
        pages.free_ahead_max.min(pages.directory.slots / 8)
    }
    /// The slot to empty next.
    fn victim(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>) -> Option<u32> {
        None
    }
    /// The slot to empty for `page` when no slot that may hold it is free. For policies that empty slots on
    /// demand instead of ahead of it.
    fn victim_for(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>, _page: PageId) -> Option<u32> {
        None
    }
    /// The next dirty slot to copy to disk in the background, if a cleaning is due.
    fn clean(_pages: &mut Pages<'_>, _memory: &mut Self::Memory<'_>) -> Option<u32> {
        None
    }
}

//! The fixed properties of a policy. Those of its placement are a constant of [`LogFacts`] or [`SlotFacts`]
//! in its file, which states what is special, over a base. So no fact stands where it has no meaning, and
//! what follows from others ([`Facts::refusal`], [`Facts::directory`]) is not stated.

use crate::mode::Mode;
use crate::sizes::Sizes;

/// How pages are placed on flash (docs/DESIGN.md §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A ring, written only at its rear; the directory survives a crash.
    Log,
    /// In place, at any slot of the cache or of the page's set.
    Slots,
}

/// The part of a directory that survives on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// All of it, in segments and group summaries (FaCE §4).
    Log,
    /// All of it, in one entry for each slot, which is written when the slot changes (SBP §3, 4).
    Slots,
    /// Its state at a shutdown, until the cache is opened again (3LA §3.3).
    AtShutdown,
    /// All of it, in segments and summaries of batches ([`Config::keeps_slots`](crate::Config)).
    Batches,
    /// Its state at a shutdown, until the cache is opened again, in segments that the shutdown writes.
    SegmentsAtShutdown,
    /// Nothing.
    None,
}

/// The lists in which a policy keeps its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// None: victims are drawn.
    None,
    /// This many. If there is one, its order is the order of eviction.
    Fixed(u32),
    /// Two for each set: its pages, and its free slots. A page is placed only in the set that its number
    /// gives.
    OfSets,
}

impl Lists {
    /// The number of lists in a partition of these sizes.
    pub(crate) const fn count(self, sizes: &Sizes) -> u32 {
        match self {
            Lists::None => 0,
            Lists::Fixed(lists) => lists,
            Lists::OfSets => 2 * sizes.sets().count(),
        }
    }
}

/// All fixed properties of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name on the command line.
    pub name: &'static str,
    /// Pages that were not found are evidence: the driver reports them with [`crate::Partition::missed`].
    pub learns_from_misses: bool,
    /// What enters depends on what the devices cost: the driver tells it with
    /// [`crate::Partition::set_costs`].
    pub weighs_costs: bool,
    /// A hit sets a bit that says so, and changes nothing else.
    pub hits_only_refer: bool,
    /// Its placement, and what belongs to that.
    pub placement: PlacementFacts,
}

/// The properties that belong to a placement.
#[derive(Clone, Copy, Debug)]
pub enum PlacementFacts {
    /// Of a policy with log placement.
    Log(LogFacts),
    /// Of a policy with slot placement.
    Slots(SlotFacts),
}

/// Log placement. All of the directory survives, and the ring is the order of the pages.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts {
    /// Pages are written to and read back from flash a group at a time, in one I/O.
    pub by_group: bool,
    /// Dequeued pages may return to the rear; `None`: never.
    pub second_chances: Option<SecondChances>,
    /// Changed pages that DRAM evicts may be kept out, so that only the disk has them.
    pub keeps_out: bool,
}

/// How second chances are given.
#[derive(Clone, Copy, Debug)]
pub struct SecondChances {
    /// Free groups beyond those held for second chances. With fewer, a group waits for a superblock write
    /// before its slots may be reused. A ring of fewer than sixteen groups does without.
    pub spare_groups: u32,
    /// They leave a group open, and it is filled with the coldest pages of DRAM.
    pub pulls: bool,
}

impl LogFacts {
    /// Groups, each dequeued once.
    pub const BASE: Self = Self { by_group: true, second_chances: None, keeps_out: false };
}

/// Slot placement.
#[derive(Clone, Copy, Debug)]
pub struct SlotFacts {
    /// Pages fetched from disk may enter: the driver reports them with [`crate::Slots::arrived`].
    pub populates: bool,
    /// A fetched page moves to DRAM, so that it is in DRAM or on flash: the driver reports it with
    /// [`crate::Slots::taken`].
    pub exclusive: bool,
    /// Flash is never newer than disk: it refuses write-back.
    pub clean_only: bool,
    /// The part of its directory that survives on flash.
    pub survives: Survives,
    /// Temperatures, a word for each slot, survive on flash in addition to the directory (SBP §4).
    pub keeps_temperatures: bool,
    /// The lists in which it keeps its slots.
    pub lists: Lists,
    /// It has a cleaner, which by default works while more than this many per mille of the slots are dirty.
    pub cleans_above_permille: Option<u32>,
    /// It remembers evicted pages, by default as many as there are slots.
    pub remembers: bool,
}

/// The part of a directory of slots that survives on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// All of it: as [`Directory::Slots`].
    Always,
    /// As [`Directory::AtShutdown`].
    Shutdowns,
    /// Nothing.
    Never,
}

impl SlotFacts {
    /// On exit, dirty pages too, with victims drawn, and an empty flash after each start.
    pub const BASE: Self = Self {
        populates: false,
        exclusive: false,
        clean_only: false,
        survives: Survives::Never,
        keeps_temperatures: false,
        lists: Lists::None,
        cleans_above_permille: None,
        remembers: false,
    };
}

impl Facts {
    /// Why the policy cannot run in `mode`, if it cannot: the end of a sentence that begins with the policy.
    pub const fn refusal(&self, mode: Mode) -> Option<&'static str> {
        match (mode, &self.placement) {
            (Mode::WriteAround | Mode::ReadOnly, PlacementFacts::Log(_)) => Some(
                "has a log, from which a stale copy cannot be taken back; choose write-back or write-through",
            ),
            (Mode::WriteBack, PlacementFacts::Slots(SlotFacts { clean_only: true, .. })) => {
                Some("keeps clean pages only; choose write-through or write-around")
            }
            (Mode::ReadOnly, PlacementFacts::Slots(SlotFacts { survives: Survives::Never, .. })) => {
                Some("starts with an empty flash each time, which would stay empty; choose another mode")
            }
            _ => None,
        }
    }

    /// The part of the directory that survives on flash, unless slots are kept.
    pub const fn directory(&self) -> Directory {
        match &self.placement {
            PlacementFacts::Log(_) => Directory::Log,
            PlacementFacts::Slots(facts) => match facts.survives {
                Survives::Always => Directory::Slots,
                Survives::Shutdowns => Directory::AtShutdown,
                Survives::Never => Directory::None,
            },
        }
    }

    /// Whether hits need no latch ([`crate::Unlatched`]).
    pub const fn hits_need_no_latch(&self) -> bool {
        self.hits_only_refer && self.log().is_some()
    }

    /// What belongs to log placement, if that is the policy's.
    pub const fn log(&self) -> Option<&LogFacts> {
        if let PlacementFacts::Log(facts) = &self.placement { Some(facts) } else { None }
    }

    /// What belongs to slot placement, if that is the policy's.
    pub const fn slots(&self) -> Option<&SlotFacts> {
        if let PlacementFacts::Slots(facts) = &self.placement { Some(facts) } else { None }
    }
}

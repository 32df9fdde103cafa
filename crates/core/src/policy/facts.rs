//! The fixed properties of a policy, as one constant in the policy's file. No field has a default, so the
//! compiler requires all of them. [`Facts::agree`] is asserted at compile time for every row of the table of
//! policies.

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
    /// Nothing.
    None,
}

/// The lists in which a policy keeps its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// None. Log placement: the ring is the order. Slot placement: victims are drawn.
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
    /// Its placement.
    pub placement: Placement,
    /// Pages are written to and read back from flash a group at a time, in one I/O (log placement).
    pub by_group: bool,
    /// Dequeued pages may return to the rear (log placement).
    pub second_chances: bool,
    /// Free groups beyond those held for second chances (log placement). With fewer, a group waits for a
    /// superblock write before its slots may be reused. A ring of fewer than sixteen groups does without.
    pub spare_groups: u32,
    /// Second chances leave a group open, and it is filled with the coldest pages of DRAM (log placement).
    pub pulls: bool,
    /// Changed pages that DRAM evicts may be kept out, so that only the disk has them (log placement).
    pub keeps_out: bool,
    /// Pages fetched from disk may enter: the driver reports them with [`crate::Slots::arrived`].
    pub populates: bool,
    /// Pages that were not found are evidence: the driver reports them with [`crate::Partition::missed`].
    pub learns_from_misses: bool,
    /// What enters depends on what the devices cost: the driver tells it with
    /// [`crate::Partition::set_costs`].
    pub weighs_costs: bool,
    /// A fetched page moves to DRAM, so that it is in DRAM or on flash: the driver reports it with
    /// [`crate::Slots::taken`].
    pub exclusive: bool,
    /// The modes in which it cannot run, and why: the end of a sentence that begins with the policy.
    pub refuses: &'static [(Mode, &'static str)],
    /// The part of its directory that survives on flash.
    pub directory: Directory,
    /// Temperatures, a word for each slot, survive on flash in addition to the directory (SBP §4).
    pub keeps_temperatures: bool,
    /// The lists in which it keeps its slots.
    pub lists: Lists,
    /// It has a cleaner, which by default works while more than this many per mille of the slots are dirty.
    pub cleans_above_permille: Option<u32>,
    /// It remembers evicted pages, by default as many as there are slots.
    pub remembers: bool,
}

/// Why a policy whose flash is never newer than disk refuses write-back.
pub(crate) const CLEAN_ONLY: &str = "keeps clean pages only; choose write-through or write-around";
/// Why a policy with a log refuses modes that remove copies.
pub(crate) const HAS_A_LOG: &str =
    "has a log, from which a stale copy cannot be taken back; choose write-back or write-through";
/// Why a policy whose directory does not survive refuses the read-only mode.
pub(crate) const STARTS_EMPTY: &str =
    "starts with an empty flash each time, which would stay empty; choose another mode";

impl Facts {
    /// Why the policy cannot run in `mode`, if it cannot.
    pub const fn refusal(&self, mode: Mode) -> Option<&'static str> {
        let mut at = 0;
        while at < self.refuses.len() {
            if self.refuses[at].0 as u32 == mode as u32 {
                return Some(self.refuses[at].1);
            }
            at += 1;
        }
        None
    }

    /// Whether the facts are consistent.
    pub(super) const fn agree(&self) -> bool {
        let one_mode_is_left = self.refusal(Mode::WriteThrough).is_none();
        let goes_around = self.refusal(Mode::WriteAround).is_none();
        let reads_only = self.refusal(Mode::ReadOnly).is_none();
        let agree = match self.placement {
            Placement::Log => {
                let of_a_ring = matches!((self.directory, self.lists), (Directory::Log, Lists::None));
                let of_slots = self.populates || self.exclusive || self.keeps_temperatures || self.remembers;
                let fills = !self.pulls || self.second_chances;
                let spares = self.spare_groups == 0 || self.second_chances;
                of_a_ring
                    && !of_slots
                    && fills
                    && spares
                    && !goes_around
                    && !reads_only
                    && self.cleans_above_permille.is_none()
            }
            Placement::Slots => {
                let survives = match self.directory {
                    Directory::Log => return false,
                    Directory::Slots | Directory::AtShutdown => true,
                    Directory::None => false,
                };
                let of_a_ring = self.by_group
                    || self.second_chances
                    || self.spare_groups > 0
                    || self.pulls
                    || self.keeps_out;
                !of_a_ring && goes_around && reads_only == survives
            }
        };
        agree && one_mode_is_left
    }
}

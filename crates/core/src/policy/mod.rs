//! The policies: pure decisions. A policy is one file here, one arm of [`with_policy`], and one row in
//! `docs/POLICIES.md`. It reads the directory, keeps its notes in the region, and never touches bytes or devices.

mod clock;
mod exadata;
mod face;
mod fifo;
mod flashcache;
mod glb;
pub(crate) mod lc;
mod loc;
mod lru;
mod one_list;
pub(crate) mod sce;
pub(crate) mod tac;

use crate::PageId;
use crate::config::{Config, Placement, PolicyKind};
use crate::job::Fate;
use crate::region::Partition;
use crate::slot::{BUSY, DIRTY};

pub(crate) use clock::Clock;
pub(crate) use exadata::Exadata;
pub(crate) use face::{Face, FaceGr, FaceGsc};
pub(crate) use fifo::Fifo;
pub(crate) use flashcache::Flashcache;
pub(crate) use glb::Glb;
pub(crate) use lc::Lc;
pub(crate) use loc::Loc;
pub(crate) use lru::Lru;
pub(crate) use one_list::{ONLY_LIST, OneList};
pub(crate) use tac::Tac;

/// A page that DRAM hands down.
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
pub(crate) enum Verdict {
    /// It enters.
    Enter,
    /// An identical copy is there.
    There,
    /// It does not enter; a copy that is there is stale.
    Bypass,
}

impl Verdict {
    /// It enters, or an identical copy is there.
    pub(crate) const fn enter_if(enters: bool) -> Self {
        if enters { Verdict::Enter } else { Verdict::There }
    }
}

/// What a policy decides. Entries are indices into the directory: a slot, or a staging frame behind the slots.
pub(crate) trait Policy {
    /// Where its pages go.
    const PLACEMENT: Placement;
    /// Dequeued pages may return to the rear (log placement).
    const SECOND_CHANCES: bool = false;

    /// The partition is new (slot placement).
    fn init(_partition: &mut Partition<'_>) {}
    /// Whether a page that leaves DRAM enters the flash.
    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict;
    /// A page that is not on flash has come from disk: whether it enters.
    fn arrive(_partition: &mut Partition<'_>, _page: PageId) -> bool {
        false
    }
    /// `entry` was fetched.
    fn on_hit(partition: &mut Partition<'_>, entry: u32);
    /// A page that was not on flash now lies in `slot` (slot placement).
    fn on_enter(_partition: &mut Partition<'_>, _slot: u32) {}
    /// A newer version of its page was written over `slot` (slot placement).
    fn on_overwrite(_partition: &mut Partition<'_>, _slot: u32) {}
    /// The page in `slot` is about to be forgotten (slot placement).
    fn on_leave(_partition: &mut Partition<'_>, _slot: u32) {}
    /// How many slots are to be free ahead of demand (slot placement).
    fn free_ahead(partition: &Partition<'_>) -> u32 {
        FREE_AHEAD_MAX.min(partition.head.slots / 8)
    }
    /// The slot to empty next (slot placement); log placement empties the front of the ring.
    fn victim(_partition: &mut Partition<'_>) -> Option<u32> {
        None
    }
    /// The slot to empty for `page`, when none is free where it may lie: for policies that empty on demand instead of
    /// ahead of it (slot placement).
    fn victim_for(_partition: &mut Partition<'_>, _page: PageId) -> Option<u32> {
        None
    }
    /// What becomes of the page in `slot`, the newest of its page, when the slot is emptied.
    fn fate(partition: &Partition<'_>, slot: u32) -> Fate {
        if partition.slots[slot as usize].has(DIRTY) { Fate::Destage } else { Fate::Drop }
    }
    /// The next dirty slot to copy to disk in the background, if it is time for that.
    fn clean(_partition: &mut Partition<'_>) -> Option<u32> {
        None
    }
}

/// Most slots that are kept free ahead of demand.
const FREE_AHEAD_MAX: u32 = 32;

/// Lists that the policy of `config` keeps.
pub(crate) fn lists_of(config: &Config) -> u32 {
    match config.policy {
        PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc => 0,
        PolicyKind::Lc => lc::lists::LISTS as u32,
        PolicyKind::Tac => tac::CLASSES,
        // The pages of each set, then the free slots of each.
        PolicyKind::Flashcache => 2 * config.sets(),
        _ => 1,
    }
}

impl Partition<'_> {
    pub(crate) fn is_idle(&self, slot: u32) -> bool {
        !self.slots[slot as usize].has(BUSY)
    }

    /// The victim of LRU and FIFO: the first of `list` that nothing is being done with.
    fn first_idle(&self, list: u32) -> Option<u32> {
        self.first_where(list, Self::is_idle)
    }

    /// More slots are dirty than the configuration allows.
    fn too_many_dirty(&self) -> bool {
        let most = self.head.slots as u64 * self.head.dirty_permille_max as u64 / 1000;
        self.head.dirty as u64 > most
    }

    /// Admission of pages on entry, with write-back: a changed page enters, whether its older version is there or not; an
    /// unchanged one had its chance when it came from disk.
    fn on_entry_and_changed(&self, offer: &Offer) -> Verdict {
        match (offer.fdirty, self.find(offer.page)) {
            (true, _) => Verdict::Enter,
            (false, Some(_)) => Verdict::There,
            (false, None) => Verdict::Bypass,
        }
    }

    /// Admission of pages on entry, clean only: a changed page that disk has goes over its older version, and nowhere
    /// else.
    fn on_entry_and_clean(&self, offer: &Offer) -> Verdict {
        match (self.find(offer.page), offer.fdirty, offer.dirty) {
            (Some(_), true, false) => Verdict::Enter,
            (Some(_), false, _) => Verdict::There,
            _ => Verdict::Bypass,
        }
    }
}

/// Evaluates an expression with `P` standing for the type of the policy `$kind`.
macro_rules! with_policy {
    ($kind:expr, $P:ident => $body:expr) => {
        match $kind {
            $crate::config::PolicyKind::Face => {
                type $P = $crate::policy::Face;
                $body
            }
            $crate::config::PolicyKind::FaceGr => {
                type $P = $crate::policy::FaceGr;
                $body
            }
            $crate::config::PolicyKind::FaceGsc => {
                type $P = $crate::policy::FaceGsc;
                $body
            }
            kind => $crate::policy::with_slot_policy!(kind, $P => $body),
        }
    };
}
pub(crate) use with_policy;

/// As [`with_policy`], for the policies with slot placement.
macro_rules! with_slot_policy {
    ($kind:expr, $P:ident => $body:expr) => {
        match $kind {
            $crate::config::PolicyKind::Lc => {
                type $P = $crate::policy::Lc;
                $body
            }
            $crate::config::PolicyKind::Tac => {
                type $P = $crate::policy::Tac;
                $body
            }
            $crate::config::PolicyKind::Exadata => {
                type $P = $crate::policy::Exadata;
                $body
            }
            $crate::config::PolicyKind::Loc => {
                type $P = $crate::policy::Loc;
                $body
            }
            $crate::config::PolicyKind::Glb => {
                type $P = $crate::policy::Glb;
                $body
            }
            $crate::config::PolicyKind::Flashcache => {
                type $P = $crate::policy::Flashcache;
                $body
            }
            $crate::config::PolicyKind::Lru => {
                type $P = $crate::policy::Lru;
                $body
            }
            $crate::config::PolicyKind::Fifo => {
                type $P = $crate::policy::Fifo;
                $body
            }
            $crate::config::PolicyKind::Clock => {
                type $P = $crate::policy::Clock;
                $body
            }
            $crate::config::PolicyKind::Face
            | $crate::config::PolicyKind::FaceGr
            | $crate::config::PolicyKind::FaceGsc => unreachable!("a policy of log placement has no slots"),
        }
    };
}
pub(crate) use with_slot_policy;

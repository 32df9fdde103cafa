//! The policies: pure decisions. A policy is one file here, one arm of [`with_policy`], and one row in
//! `docs/POLICIES.md`. It reads the directory, keeps its notes in the region, and never touches bytes or devices.

mod face;
pub(crate) mod lc;

use crate::PageId;
use crate::job::Fate;
use crate::region::Partition;

pub(crate) use face::{Face, FaceGr, FaceGsc};
pub(crate) use lc::Lc;

/// A page that DRAM hands down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub page: PageId,
    /// Newer than the flash copy.
    pub fdirty: bool,
}

/// What a policy decides. Entries are indices into the directory: a slot, or a staging frame behind the slots.
pub(crate) trait Policy {
    /// Dequeued pages may return to the rear (log placement).
    const SECOND_CHANCES: bool = false;

    /// Whether a page that leaves DRAM enters the flash; if not, an identical copy is there.
    fn admit(partition: &Partition<'_>, offer: &Offer) -> bool;
    /// `entry` was fetched.
    fn on_hit(partition: &mut Partition<'_>, entry: u32);
    /// A page that was not on flash now lies in `slot` (slot placement).
    fn on_enter(_partition: &mut Partition<'_>, _slot: u32) {}
    /// The page in `slot` is about to be forgotten (slot placement).
    fn on_leave(_partition: &mut Partition<'_>, _slot: u32) {}
    /// The slot to empty next (slot placement); log placement empties the front of the ring.
    fn victim(_partition: &mut Partition<'_>) -> Option<u32> {
        None
    }
    /// What becomes of the page in `slot`, the newest of its page, when the slot is emptied.
    fn fate(partition: &Partition<'_>, slot: u32) -> Fate;
    /// The next dirty slot to copy to disk in the background, if it is time for that.
    fn clean(_partition: &mut Partition<'_>) -> Option<u32> {
        None
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
            $crate::config::PolicyKind::Lc => {
                type $P = $crate::policy::Lc;
                $body
            }
        }
    };
}
pub(crate) use with_policy;

//! Where pages are placed on flash: in a log (FaCE), or in any slot of the cache or of a set (all others).
//! Mechanism only: the policy decides admission, eviction and the fate of a page.
//!
//! `README.md` has the rules: what the latch protects, when a slot may be used again, what is held back for
//! second chances, what a driver may do between two steps.

pub(crate) mod ring;
pub(crate) mod slots;

pub use ring::Log;
pub(crate) use ring::{GROUPS_AHEAD_MIN, Ring, groups_ahead, spare_groups};
pub(crate) use slots::SlotTable;
pub use slots::Slots;

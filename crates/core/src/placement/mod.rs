//! Where pages are placed on flash: in a log (FaCE), or in any slot of the cache or of a set (all others).
//! Mechanism only: the policy decides admission, eviction and the fate of a page.
//!
//! Both placements reuse slots by one rule. A slot is given out again only when two things hold: its destage
//! is durable on disk, and every newer version of its page that excused it from a destage is durable on
//! flash.

pub(crate) mod ring;
pub(crate) mod slots;

pub use ring::Log;
pub(crate) use ring::{FORGOTTEN_MAX, GROUPS_AHEAD_MIN, Ring, groups_ahead, spare_groups};
pub(crate) use slots::SlotTable;
pub use slots::Slots;

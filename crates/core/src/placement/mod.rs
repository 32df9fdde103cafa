//! Where pages go on flash: a log (FaCE) or any slot of the cache or of a set (all others). Mechanism only;
//! what to admit, which page to evict and what becomes of it is asked of the policy.
//!
//! Both follow one rule for reuse: a slot is given out again only when nothing on it is still needed: its
//! destage is durable on disk and every newer version of its page that excused it from a destage is durable
//! on flash.

pub(crate) mod ring;
pub(crate) mod slots;

pub(crate) use ring::{GROUPS_AHEAD_MIN, Ring};
pub(crate) use slots::SlotTable;

//! Which locks the calling task holds. Debug builds keep a list and assert the order of [`super::Rank`];
//! release builds keep nothing and assert nothing.
//!
//! Under shuttle many tasks share an OS thread without the runtime knowing of it, so nothing is kept either.

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod checked;
#[cfg(not(all(debug_assertions, not(feature = "shuttle"))))]
mod unchecked;

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
pub use checked::{Hold, allocation_is_forbidden, allowing_allocation, assert_nothing_held};
#[cfg(all(debug_assertions, not(feature = "shuttle")))]
pub(crate) use checked::{List, Tag, TagHold, assert_may_park, swap};
#[cfg(not(all(debug_assertions, not(feature = "shuttle"))))]
pub use unchecked::{Hold, allocation_is_forbidden, allowing_allocation, assert_nothing_held};
#[cfg(not(all(debug_assertions, not(feature = "shuttle"))))]
pub(crate) use unchecked::{List, Tag, TagHold, assert_may_park, swap};

//! Deletion from a log: pages leave the index at once, and no crash brings an older copy of them back.
//!
//! A copy in the log cannot be removed. So a deletion leaves a *record* on flash, a range of pages and a
//! position: copies of these pages at positions below are stale. `README.md` has the states of a deletion,
//! what a crash finds in each, and which step waits for which event.
//!
//! - [`Deletions`]: the records and causes that are not durable, in the ring's part of the region;
//! - [`Deletion`]: one request, step by step;
//! - [`Settle`]: the sync of the disk by which causes become durable;
//! - [`FlushGoal`]: what a flush or a checkpoint waits for.
//!
mod causes;
mod flush;
mod log;
mod request;
mod settle;
mod table;

pub(crate) use table::Deletions;

pub use flush::{Extent, FlushGoal};
pub use request::{Deletion, Next, Touched};
pub use settle::Settle;

//! Row locks of transactions: strict two-phase, with deadlock detection.
//!
//! * [`table`]: the locks. [`waits`]: the waits-for graph.

mod table;
#[cfg(test)]
mod tests;
mod waits;

pub(crate) use table::{LockName, LockTable, Request};

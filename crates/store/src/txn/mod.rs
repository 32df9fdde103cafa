//! Transactions: strict two-phase row locks, commit in groups, rollback by the inverse row changes.
//!
//! * [`active`]: the active transactions.
//! * [`undo`]: undo information of a row change, in the log and in memory.
//! * [`locks`]: the row locks. [`waits`]: the waits-for graph.
//! * [`transaction`]: the public interface.

pub(crate) mod active;
#[cfg(test)]
mod lock_tests;
pub(crate) mod locks;
pub(crate) mod rollback;
pub(crate) mod transaction;
pub(crate) mod undo;
pub(crate) mod waits;

pub use transaction::Txn;

//! Transactions: strict two-phase row locks, commit in groups, rollback by the inverse row changes.
//!
//! * [`active`]: the transactions that have logged something.
//! * [`undo`]: how to undo a row's change, in the log and in memory.
//! * [`locks`]: the row locks. [`waits`]: who waits for whom.
//! * [`transaction`]: the public face.

pub(crate) mod active;
#[cfg(test)]
mod lock_tests;
pub(crate) mod locks;
pub(crate) mod rollback;
pub(crate) mod transaction;
pub(crate) mod undo;
pub(crate) mod waits;

pub use transaction::Txn;

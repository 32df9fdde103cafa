//! Transactions: strict two-phase row locks, commit in groups, rollback by the inverse row changes.
//!
//! * [`active`]: the active transactions.
//! * [`undo`]: undo information of a row change, in the log and in memory.
//! * [`transaction`]: the public interface.

pub(crate) mod active;
pub(crate) mod rollback;
pub(crate) mod transaction;
pub(crate) mod undo;

pub use transaction::Txn;

//! Transactions: strict two-phase row locks, commit in groups, rollback by the inverse row changes.
//!
//! * [`rollback`]: undo of changes. [`buffers`]: buffers of transactions.
//! * [`shared`]: what all transactions share.
//! * [`transaction`]: the public interface.

mod buffers;
pub(crate) mod rollback;
pub(crate) mod shared;
pub(crate) mod transaction;

pub use transaction::Txn;

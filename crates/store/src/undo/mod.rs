//! What rollbacks need: the active transactions, the undo entries of their changes, and how much of the log
//! and the disk their rollbacks may take.
//!
//! * [`active`]: the active transactions.
//! * [`entry`]: undo information of a row change, in the log and in memory.
//! * [`need`]: the maximum need of a rollback.
//! * [`bounds`]: which changes and checkpoints the needs of all active transactions admit.

mod active;
mod bounds;
mod entry;
mod need;

pub(crate) use active::{ActiveTable, ActiveTxn, TxnState};
pub(crate) use bounds::LogBounds;
pub(crate) use entry::{Undo, UndoLog};
pub(crate) use need::{IMAGES_OF_SPLIT, Reshaping, UndoNeed, padding_share};

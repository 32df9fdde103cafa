//! What can go wrong beside the store.

use entresol_store::StoreError;

/// Why the workload, its loader or its checks stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TpccError {
    /// The store said no. [`TpccError::is_deadlock`] tells the one answer after which to run the transaction
    /// again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store holds no TPC-C database.
    #[error("the store has no table {table:?}: load a database first")]
    NotLoaded {
        /// The table looked for.
        table: &'static str,
    },
    /// The catalog row describes a database of another format.
    #[error(
        "the TPC-C catalog is of format {found}, this version reads format {expected}: load the database again"
    )]
    Format {
        /// Format that this version reads and writes.
        expected: u32,
        /// Format found.
        found: u32,
    },
    /// A scale that cannot be loaded.
    #[error("scale: {what} is {found}, expected {expected}")]
    Scale {
        /// Which number.
        what: &'static str,
        /// The bounds.
        expected: &'static str,
        /// What was asked for.
        found: u32,
    },
    /// A row that must exist does not.
    #[error("table {table:?} has no row {key}; the database is damaged or was loaded only in part")]
    MissingRow {
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
    },
    /// A new row exists already.
    #[error("table {table:?} already has a row {key}; is another run using the same database?")]
    DuplicateRow {
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
    },
    /// A key or row of the wrong size.
    #[error(
        "table {table:?} holds a {what} of {found} bytes where {expected} are expected; the database is damaged"
    )]
    DamagedRow {
        /// The table.
        table: &'static str,
        /// "key" or "row".
        what: &'static str,
        /// Bytes expected.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
}

impl TpccError {
    /// Whether the transaction was the victim of a deadlock and is to be run again.
    pub fn is_deadlock(&self) -> bool {
        matches!(self, TpccError::Store(StoreError::Deadlock))
    }
}

//! Errors of the workload.

use entresol_store::StoreError;

/// The reason why the workload, its loader or its checks stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TpccError {
    /// An error of the store. [`TpccError::is_deadlock`] recognises the only error after which the
    /// transaction is to be repeated.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store holds no TPC-C database.
    #[error("the store has no table {table:?}: load a database first")]
    NotLoaded {
        /// The missing table.
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
        /// The name of the number.
        what: &'static str,
        /// The allowed range.
        expected: &'static str,
        /// The requested value.
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
    /// Whether the transaction was a deadlock victim and is to be repeated.
    pub fn is_deadlock(&self) -> bool {
        matches!(self, TpccError::Store(StoreError::Deadlock))
    }
}

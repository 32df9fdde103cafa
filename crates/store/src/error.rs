//! Errors of the store: place, expected and found values, and the remedy.

use crate::PageNumber;
use entresol_core::Lsn;
use entresol_device::DeviceError;
use entresol_engine::TierError;

/// An error of the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The transaction was chosen as the victim of a deadlock. Abort it and run it again.
    #[error("deadlock: the transaction must be aborted and run again")]
    Deadlock,
    /// An insert found a row with its key.
    #[error("key already exists")]
    DuplicateKey,
    /// The row does not fit the page size.
    #[error(
        "a row of {key} key bytes and {value} value bytes is too large: with this page size a key may have {max_key} and a row {max_row} bytes; use larger pages or split the row"
    )]
    RowTooLarge {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
        /// Maximum bytes of a key.
        max_key: usize,
        /// Maximum bytes of key and value together.
        max_row: usize,
    },
    /// A table of that name exists.
    #[error("table {0:?} already exists")]
    TableExists(String),
    /// `bulk_load` was given a table that has rows, or rows that are not in ascending order.
    #[error("bulk load into table {table}: {reason}")]
    BulkLoad {
        /// Number of the table.
        table: u32,
        /// The reason.
        reason: String,
    },
    /// The active transactions hold more of the log than allowed, or their rollbacks could need more than the
    /// log has. Run the transaction again after a pause: when other transactions end, there is room.
    #[error("the log is full: of {capacity} bytes {used} are needed since LSN {oldest}, of the oldest active transaction, and {undo} must be left for rolling back; abort this transaction, make transactions shorter or the log device larger", oldest = oldest.0)]
    LogFull {
        /// Bytes in use.
        used: u64,
        /// Maximum number of bytes that rollbacks of the active transactions may append.
        undo: u64,
        /// Capacity in bytes.
        capacity: u64,
        /// Oldest needed LSN.
        oldest: Lsn,
    },
    /// The disk has no room for the pages that the transaction, table or load would add. Nothing was changed.
    #[error(
        "the disk is full: of {capacity} pages {free} are free, and {reserved} of these must be left for rolling back; abort this transaction, then delete rows in small transactions or enlarge the disk"
    )]
    DiskFull {
        /// Free pages.
        free: u64,
        /// Pages that must stay free for rollbacks and deletions.
        reserved: u64,
        /// Capacity of the disk in pages.
        capacity: u64,
    },
    /// The layer below failed.
    #[error("page layer: {0}")]
    Layer(#[from] TierError),
    /// The log device failed. The store refuses further changes; restart it.
    #[error("log device: {0}; restart the store once the log device works")]
    Log(#[from] DeviceError),
    /// A page or log record does not have the required content.
    #[error("{place}: expected {expected}, found {found}; the database is damaged: restore it from a backup")]
    Corrupt {
        /// The place.
        place: String,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
    /// A page of a tree has the wrong kind.
    #[error(
        "page {page}: expected {expected}, found page kind {found}; the database is damaged: restore it from a backup"
    )]
    WrongKind {
        /// The page.
        page: PageNumber,
        /// The expected kind.
        expected: &'static str,
        /// The kind found.
        found: u16,
    },
    /// A setting is out of range, or does not fit the database. The text gives the allowed values.
    #[error("{0}")]
    Config(String),
    /// Any other error, in words.
    #[error("{0}")]
    Other(String),
}

//! Errors of the store: what, where, expected and found, and what to do.

use crate::PageNumber;
use entresol_core::Lsn;
use entresol_device::DeviceError;
use entresol_engine::TierError;

/// What a store could not do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The transaction was chosen as the victim of a deadlock; abort it and run it again.
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
        /// Most bytes of a key.
        max_key: usize,
        /// Most bytes of key and value together.
        max_row: usize,
    },
    /// A table of that name exists.
    #[error("table {0:?} already exists")]
    TableExists(String),
    /// `bulk_load` was given a table that has rows, or rows that do not ascend.
    #[error("bulk load into table {table}: {reason}")]
    BulkLoad {
        /// Number of the table.
        table: u32,
        /// What is wrong.
        reason: String,
    },
    /// The active transactions hold more log than the log device has room for, or would need more to be
    /// rolled back. Run the transaction again after a pause: when others end, there is room.
    #[error("the log is full: of {capacity} bytes {used} are needed since LSN {oldest}, of the oldest active transaction, and {undo} must be left for rolling back; abort this transaction, make transactions shorter or the log device larger", oldest = oldest.0)]
    LogFull {
        /// Bytes in use.
        used: u64,
        /// Most bytes that rolling back the active transactions may append.
        undo: u64,
        /// Bytes there are.
        capacity: u64,
        /// Oldest LSN that is still needed.
        oldest: Lsn,
    },
    /// The disk has no room for what the transaction, table or load would add. Nothing of it was done.
    #[error(
        "the disk is full: of {capacity} pages {free} are free, and {reserved} of these must be left for rolling back; abort this transaction, then delete rows in small transactions or enlarge the disk"
    )]
    DiskFull {
        /// Pages that are free.
        free: u64,
        /// Pages that must stay free for rolling back, and for deletions.
        reserved: u64,
        /// Pages that fit on the disk.
        capacity: u64,
    },
    /// The layer below failed.
    #[error("page layer: {0}")]
    Layer(#[from] TierError),
    /// The log device failed. The store refuses further changes; restart it.
    #[error("log device: {0}; restart the store once the log device works")]
    Log(#[from] DeviceError),
    /// A page or log record is not what it must be.
    #[error("{place}: expected {expected}, found {found}; the database is damaged: restore it from a backup")]
    Corrupt {
        /// Where.
        place: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A page of a tree is of another kind.
    #[error(
        "page {page}: expected {expected}, found page kind {found}; the database is damaged: restore it from a backup"
    )]
    WrongKind {
        /// Which page.
        page: PageNumber,
        /// What should be there.
        expected: &'static str,
        /// The kind that lies there.
        found: u16,
    },
    /// A setting is out of range, or does not fit the database; with what is allowed.
    #[error("{0}")]
    Config(String),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

//! How a transaction reads rows: lock mode, and order of a scan.

/// The lock mode of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Reads the newest version, committed or not (no lock).
    None,
    /// Shared with other readers, until the transaction ends.
    Shared,
    /// Exclusive until the transaction ends: for rows that will be changed.
    Exclusive,
}

/// Order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

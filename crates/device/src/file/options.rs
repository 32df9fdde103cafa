//! Options for opening a file or block device.

/// Options of [`crate::FileDevice::open`] and [`crate::UringDevice::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Capacity in bytes. A smaller regular file is grown and its space reserved. `None`: the present size.
    pub capacity_bytes: Option<u64>,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Bypass the page cache (O_DIRECT) if the file system supports it.
    pub is_direct_wanted: bool,
    /// Only to be read, without the exclusive lock: another process writes, and says what may be read.
    pub is_shared: bool,
    /// The device serves requests after a failed sync, too: its user knows which writes may be lost.
    pub outlives_syncs: bool,
}

impl FileOptions {
    /// An existing file or block device of its present size, with direct I/O.
    pub fn existing() -> Self {
        Self {
            capacity_bytes: None,
            create: false,
            is_direct_wanted: true,
            is_shared: false,
            outlives_syncs: false,
        }
    }

    /// A file of this capacity, created or grown if need be, with direct I/O.
    pub fn create(capacity_bytes: u64) -> Self {
        Self { capacity_bytes: Some(capacity_bytes), create: true, ..Self::existing() }
    }

    /// An existing file or block device that another process has open, to be read only.
    pub fn shared() -> Self {
        Self { is_shared: true, ..Self::existing() }
    }
}

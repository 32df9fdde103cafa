//! Errors of devices, with the operation, its place, and the expected and found values.

use thiserror::Error;

/// A request that a device did not carry out.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeviceError {
    /// The operating system or the medium reported an error.
    #[error("{device}: {operation} of {length} bytes at offset {offset} failed: {reason}")]
    Io {
        /// Name of the device or file.
        device: String,
        /// "read", "write", "sync", "discard", "open" or "drop of the cached copy".
        operation: &'static str,
        /// Byte offset of the request.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// The system's message.
        reason: String,
    },
    /// A write found no room: a thin device or its pool is full, or a file system or a quota.
    #[error("{device}: {operation} of {length} bytes at offset {offset} failed: {reason}")]
    NoSpace {
        /// Name of the device or file.
        device: String,
        /// "write", "sync" or "discard".
        operation: &'static str,
        /// Byte offset of the request.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// The system's message.
        reason: String,
    },
    /// The request extends beyond the end of the device.
    #[error("{device}: {operation} of {length} bytes at offset {offset} is past its end of {capacity} bytes")]
    OutOfRange {
        /// Name of the device or file.
        device: String,
        /// "read", "write" or "discard".
        operation: &'static str,
        /// Byte offset of the request.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// Capacity of the device in bytes.
        capacity: u64,
    },
    /// Offset or length is not a multiple of the sector size.
    #[error("{device}: {operation} of {length} bytes at offset {offset} is not aligned to {sector} bytes")]
    Misaligned {
        /// Name of the device or file.
        device: String,
        /// "read", "write" or "discard".
        operation: &'static str,
        /// Byte offset of the request.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// Sector size in bytes.
        sector: u32,
    },
    /// The device failed before and refuses all further requests.
    #[error("{device} has failed and is switched off: {reason}")]
    Dead {
        /// Name of the device or file.
        device: String,
        /// The first failure.
        reason: String,
    },
}

/// Kinds of errors of devices, for counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A read failed.
    Read,
    /// A write failed, not for want of room.
    Write,
    /// A sync failed, not for want of room.
    Sync,
    /// There was no room.
    NoSpace,
    /// A discard, an open, a request that the device does not take, or one of a device that has failed
    /// before.
    Other,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Sync, Self::NoSpace, Self::Other];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::NoSpace => "no-space",
            Self::Other => "other",
        }
    }
}

impl DeviceError {
    /// The error of a request that the operating system has refused for this reason.
    pub fn of_system(
        device: &str,
        operation: &'static str,
        (offset, length): (u64, u64),
        error: &std::io::Error,
    ) -> Self {
        let (device, reason) = (device.to_owned(), error.to_string());
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { device, operation, offset, length, reason }
            }
            _ => Self::Io { device, operation, offset, length, reason },
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::Io { operation: "read", .. } => ErrorKind::Read,
            Self::Io { operation: "write", .. } => ErrorKind::Write,
            Self::Io { operation: "sync", .. } => ErrorKind::Sync,
            Self::Io { .. } | Self::OutOfRange { .. } | Self::Misaligned { .. } | Self::Dead { .. } => {
                ErrorKind::Other
            }
        }
    }

    /// Whether a read failed. Drives report latent errors, and sectors torn by a power failure, in this way:
    /// this copy is damaged, and another copy must be used. False for the errors of a device that is known to
    /// have failed as a whole.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, DeviceError::Io { operation: "read", .. })
    }
}

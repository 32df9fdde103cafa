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

impl DeviceError {
    /// Whether a read failed. Drives report latent errors, and sectors torn by a power failure, in this way:
    /// this copy is damaged, and another copy must be used. False for the errors of a device that is known to
    /// have failed as a whole.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, DeviceError::Io { operation: "read", .. })
    }
}

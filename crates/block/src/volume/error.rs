//! Why a request was not carried out.

use super::{SECTOR_BYTES, Volume};
use crate::journal::NotOurs;
use crate::words;
use entresol_device::{DeviceError, ErrorKind};
use entresol_engine::TierError;
use thiserror::Error;

/// Why a request was not carried out.
#[derive(Clone, Debug, Error)]
pub enum VolumeError {
    /// The range is not inside the volume, or not made of whole sectors.
    #[error(
        "{length} bytes at {offset}: a volume of {bytes} bytes is read and written in sectors of {SECTOR_BYTES}"
    )]
    Range {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Bytes of the volume.
        bytes: u64,
    },
    /// The cache's error, or the disk's below it.
    #[error("{}", words::of(.0))]
    Tier(#[from] TierError),
    /// The disk's error.
    #[error("disk: {0}")]
    Disk(#[from] DeviceError),
    /// The journal's device's error.
    #[error("journal: {0}")]
    Journal(DeviceError),
    /// The journal is not this volume's.
    #[error("journal: {0}")]
    NotOurs(#[from] NotOurs),
}

impl VolumeError {
    /// Whether the request itself is wrong, not what happened to it.
    pub fn is_of_the_request(&self) -> bool {
        match self {
            Self::Range { .. } => true,
            Self::Tier(_) | Self::Disk(_) | Self::Journal(_) | Self::NotOurs(_) => false,
        }
    }

    /// Whether there is no room on the device for what was written.
    pub fn is_no_space(&self) -> bool {
        let error = match self {
            Self::Tier(TierError::Device { source, .. }) => source,
            Self::Disk(error) | Self::Journal(error) => error,
            Self::Range { .. } | Self::Tier(_) | Self::NotOurs(_) => return false,
        };
        error.kind() == ErrorKind::NoSpace
    }
}

impl Volume {
    /// An error of a request, in a sentence for clients and owners: with bytes of this volume.
    pub fn told(&self, error: &VolumeError) -> String {
        self.devices.named(match error {
            VolumeError::Tier(error) => words::of_bytes(error, self.page_bytes()),
            error => error.to_string(),
        })
    }
}

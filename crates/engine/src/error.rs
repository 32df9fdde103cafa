//! Errors of the tier: what, where, expected and found, and what to do.

use entresol_core::{Lsn, PageId};
use entresol_device::DeviceError;
use thiserror::Error;

/// What a layer could not do.
#[derive(Clone, Debug, Error)]
pub enum TierError {
    /// A device failed.
    #[error("{role}: {source}")]
    Device {
        /// "flash" or "disk".
        role: &'static str,
        /// What the device said.
        source: DeviceError,
    },
    /// The only current copy of a page is damaged.
    #[error(
        "page {page} at {place} is damaged ({fault}) and no other current copy exists; restore the database from a backup, or recover it from the log"
    )]
    Damaged {
        /// Which page.
        page: PageId,
        /// Where, e.g. "flash slot 17" or "disk offset 8192".
        place: String,
        /// What is wrong with it.
        fault: String,
    },
    /// The disk cannot give a page back.
    #[error(
        "page {page} at {place} cannot be read ({source}) and no other current copy of it is known; try again, and if it stays so restore the database from a backup, or recover it from the log"
    )]
    Unreadable {
        /// Which page.
        page: PageId,
        /// Where, e.g. "disk offset 8192".
        place: String,
        /// What the device said.
        source: DeviceError,
    },
    /// The tier failed before and refuses further work.
    #[error(
        "the flash tier has failed and stopped: {reason}; {dirty_pages} pages newer than disk are on it, the oldest change at LSN {oldest}; repair the flash device and restart",
        oldest = oldest_lsn.0
    )]
    Poisoned {
        /// The first failure.
        reason: String,
        /// Pages newer than disk.
        dirty_pages: u64,
        /// Oldest LSN known among them (0 where unknown).
        oldest_lsn: Lsn,
    },
    /// Flash and disk do not belong together, or a format is unknown; with what to do.
    #[error("{0}")]
    Refused(String),
    /// A setting is out of range; with what is allowed.
    #[error("{0}")]
    Config(String),
}

/// An error of the flash device.
pub(crate) fn flash_error(source: DeviceError) -> TierError {
    TierError::Device { role: "flash", source }
}

/// An error of the disk.
pub(crate) fn disk_error(source: DeviceError) -> TierError {
    TierError::Device { role: "disk", source }
}

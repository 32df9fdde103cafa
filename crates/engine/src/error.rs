//! Errors of the tier, with their place, the expected and found values, and the remedy.

use entresol_core::{Lsn, PageId};
use entresol_device::DeviceError;
use entresol_format::missing::PageRange;
use entresol_shm::{Gone, SegmentError};
use thiserror::Error;

/// How the owner takes a cache off its disk, in refusals. An owner without this command has other words,
/// which it puts in the place of these.
pub const HOW_TO_DETACH: &str =
    "`entresol detach FLASH DISK`; of a volume, `entresol volume detach` with its configuration";

/// An error of a layer.
#[derive(Clone, Debug, Error)]
pub enum TierError {
    /// A device failed.
    #[error("{role}: {source}")]
    Device {
        /// "flash" or "disk".
        role: &'static str,
        /// The device's error.
        source: DeviceError,
    },
    /// The only current copy of a page is damaged.
    #[error(
        "page {page} at {place} is damaged ({fault}) and no other current copy exists; restore the database from a backup, or recover it from the log"
    )]
    Damaged {
        /// The page.
        page: PageId,
        /// Its place, e.g. "flash slot 17" or "disk offset 8192".
        place: String,
        /// The fault.
        fault: String,
    },
    /// The disk cannot read a page.
    #[error(
        "page {page} at {place} cannot be read ({source}) and no other current copy of it is known; try again, and if it stays so restore the database from a backup, or recover it from the log"
    )]
    Unreadable {
        /// The page.
        page: PageId,
        /// Its place, e.g. "disk offset 8192".
        place: String,
        /// The device's error.
        source: DeviceError,
    },
    /// The newest version of this page was on flash alone, and cannot be read there any more: it was damaged,
    /// or the flash has failed. The disk has an older version.
    #[error(
        "page {page} is lost: its newest version was on the flash device alone, {why}; write it again as a whole, or restore it from a backup"
    )]
    Lost {
        /// The page.
        page: PageId,
        /// Why it cannot be read.
        why: String,
    },
    /// The disk does not take the newest version of this page, which stays on flash.
    #[error(
        "page {page} is not on the disk yet, which does not take it ({why}); it stays on the flash device"
    )]
    NotTaken {
        /// The page.
        page: PageId,
        /// The last error.
        why: String,
    },
    /// The newest versions of these pages are not on disk, and cannot be brought there. All others are, and
    /// nothing was closed.
    #[error("{0}")]
    Losing(Losing),
    /// The tier failed before and refuses further work.
    #[error(
        "the flash tier has failed and stopped: {reason}; {dirty_pages} pages newer than disk are on it, the oldest change at LSN {oldest}; repair the flash device and restart",
        oldest = oldest_lsn.0
    )]
    Poisoned {
        /// The first failure.
        reason: String,
        /// Number of dirty pages.
        dirty_pages: u64,
        /// Oldest known LSN among them (0 if unknown).
        oldest_lsn: Lsn,
        /// It was the flash that failed, or has a damaged page that only it had.
        of_flash: bool,
    },
    /// The shared memory of the cache was given up: a process died in the middle of a change, or the back
    /// ended.
    #[error("{0}; attach again when the cache has been reopened")]
    Gone(&'static str),
    /// The caller's own check says that it is not to wait on ([`crate::AttachOptions::interrupted`]).
    #[error("interrupted while waiting for the cache; try again")]
    Interrupted,
    /// Flash and disk do not belong together, or a format is unknown. The message has the remedy.
    #[error("{0}")]
    Refused(String),
    /// A setting is out of range. The message has the possible values.
    #[error("{0}")]
    Config(String),
}

/// Pages that would be lost if the disk were released from its cache now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losing {
    /// Their newest versions cannot be read from flash.
    pub lost: Vec<PageRange>,
    /// The disk does not take them. The flash has them.
    pub refused: Vec<PageRange>,
}

impl Losing {
    /// Nothing would be lost.
    pub fn is_nothing(&self) -> bool {
        self.lost.is_empty() && self.refused.is_empty()
    }
}

impl std::fmt::Display for Losing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.lost.is_empty() {
            write!(f, "{}; ", told_of(&self.lost))?;
        }
        if !self.refused.is_empty() {
            let (pages, named) = named_in(&self.refused);
            write!(f, "the disk does not take {pages} pages, which only the flash has: {named}; ")?;
        }
        write!(
            f,
            "every other page is on the disk now, and nothing was closed: repair what fails, or write these pages again as a whole, or \
             give them up (`--accept-loss`), and the disk's older versions count"
        )
    }
}

/// Most ranges of lost pages that are named in a sentence.
const NAMED_MAX: usize = 100;

/// How many pages these are, and their names.
fn named_in(ranges: &[PageRange]) -> (u64, String) {
    let pages: u64 = ranges.iter().map(|(_, pages)| u64::from(*pages)).sum();
    let range = |(first, pages): &PageRange| match pages {
        1 => format!("page {first}"),
        _ => format!("pages {first} to {}", PageId(first.0 + u64::from(*pages) - 1)),
    };
    let mut named: Vec<String> = ranges.iter().take(NAMED_MAX).map(range).collect();
    if ranges.len() > NAMED_MAX {
        named.push(format!("{} more ranges", ranges.len() - NAMED_MAX));
    }
    (pages, named.join(", "))
}

/// Which pages are lost.
pub(crate) fn told_of(lost: &[PageRange]) -> String {
    let (pages, named) = named_in(lost);
    let are_lost = match pages {
        1 => "1 page is lost, whose newest version on flash cannot be read".to_owned(),
        _ => format!("{pages} pages are lost, whose newest versions on flash cannot be read"),
    };
    format!("{are_lost}: {named}")
}

impl From<Gone> for TierError {
    fn from(_: Gone) -> Self {
        TierError::Gone("a process died while it changed the cache's shared memory")
    }
}

impl From<SegmentError> for TierError {
    fn from(refusal: SegmentError) -> Self {
        TierError::Refused(refusal.to_string())
    }
}

/// An error of the flash device.
pub(crate) fn flash_error(source: DeviceError) -> TierError {
    TierError::Device { role: "flash", source }
}

/// An error of the disk.
pub(crate) fn disk_error(source: DeviceError) -> TierError {
    TierError::Device { role: "disk", source }
}

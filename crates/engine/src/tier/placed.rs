//! The state that only log placement has, and the state that only slot placement has.

use super::slot_directory::SlotDirectory;
use crate::TierOptions;
use crate::api::Survivors;
use crate::disk::DurableNotes;
use crate::signal::Signal;
use entresol_core::{Directory, Lsn, PageId, Placement, Position, SlotId};
use entresol_format::superblock::{POSITIONS_OF_AN_OPEN, Superblock};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// By the placement of the policy.
pub(crate) enum Placed {
    Log(LogParts),
    Slots(SlotParts),
}

/// Log placement.
pub(crate) struct LogParts {
    /// The groups that the open has found; `None` in a new cache.
    pub survivors: Option<Survivors>,
    /// Dirty pages written page by page to groups that are not complete, with their groups' numbers.
    pub unpublished: TinyMutex<Vec<(u64, PageId, Lsn)>>,
    /// For the task that writes directory segments: a segment may be complete.
    pub segments: Signal,
}

impl Default for LogParts {
    fn default() -> Self {
        Self {
            survivors: None,
            unpublished: TinyMutex::new(Rank::DurableNotes, Vec::new()),
            segments: Signal::default(),
        }
    }
}

/// Slot placement.
pub(crate) struct SlotParts {
    /// The positions of all pages that are served from flash. The directory keeps one byte of each; pages of
    /// an earlier open, or of another cache, have positions outside.
    pub positions: Range<u64>,
    /// The slot directory on flash, of a policy that keeps it up with every page.
    pub directory: Option<SlotDirectory>,
    /// Copies of the temperatures written, ever.
    pub temperatures_written: AtomicU64,
    /// Pages written to disk, for the buffer pool's log.
    pub notes: DurableNotes,
}

impl Placed {
    /// Of an empty cache.
    pub(crate) fn new(options: &TierOptions, superblock: &Superblock) -> Self {
        if options.policy.placement() == Placement::Log {
            return Placed::Log(LogParts::default());
        }
        let is_kept = options.policy.directory() == Directory::Slots;
        let directory =
            is_kept.then(|| SlotDirectory::empty(&options.layout(), options.slots, superblock.cache));
        Placed::Slots(SlotParts::new(directory, 0, Position(0)))
    }
}

impl SlotParts {
    /// No page that is served from flash entered below `first`.
    pub(crate) fn new(directory: Option<SlotDirectory>, temperatures_written: u64, first: Position) -> Self {
        Self {
            positions: first.0..POSITIONS_OF_AN_OPEN,
            directory,
            temperatures_written: AtomicU64::new(temperatures_written),
            notes: DurableNotes::default(),
        }
    }

    /// Whether the version of `page` that entered at `position` may be served from `slot`.
    pub(crate) fn may_hold(&self, slot: SlotId, page: PageId, position: Position) -> bool {
        let listed =
            || self.directory.as_ref().is_none_or(|directory| directory.admits(slot, page, position));
        self.positions.contains(&position.0) && listed()
    }
}

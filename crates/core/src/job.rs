//! What the machine asks its driver to do. A job is plain data: the driver that takes it does the I/O without
//! holding the partition and reports back with the job's ticket.

use crate::sizes::GROUP_PAGES_MAX;
use crate::{Lsn, PageId, Position, SlotId};
use arrayvec::ArrayVec;

/// A place in staging memory, `0 .. staging pages`. Frames of one group are adjacent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// Where a fetched page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// In staging. Its copy may not be complete yet, and by the time it is read the frame may hold another
    /// page: the stamp tells; if it is not as here, look again.
    Staged {
        /// Where in staging memory.
        frame: FrameId,
        /// Its version, as stamped into the page.
        position: Position,
        /// Newer than the disk copy.
        dirty: bool,
    },
    /// On flash.
    Flash {
        /// Which slot.
        slot: SlotId,
        /// How the version stamped into the page must look.
        generation: Generation,
        /// Newer than the disk copy.
        dirty: bool,
    },
    /// Only on disk.
    Absent,
}

/// What is known in memory of the version that lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Log placement: the exact position.
    Exact(Position),
    /// Slot placement: the counter of the writes to the slot, which stands in place of the position's lowest
    /// eight bits. So what a write has left in a slot differs from what the 255 writes before it have.
    LowByte(u8),
}

impl Generation {
    /// What to stamp into the page that has `position` and is written as this version.
    pub fn of(self, position: Position) -> Position {
        match self {
            Generation::Exact(position) => position,
            Generation::LowByte(byte) => Position(position.0 & !0xff | u64::from(byte)),
        }
    }

    /// Whether the version stamped into a page is the one meant.
    pub fn matches(self, found: Position) -> bool {
        match self {
            Generation::Exact(position) => position == found,
            Generation::LowByte(byte) => byte == found.0 as u8,
        }
    }
}

/// What becomes of a page that DRAM evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Copy it to `frame`, stamped with `position`, then call [`crate::Partition::staged`].
    Stage {
        /// Where to copy it.
        frame: FrameId,
        /// Its version number.
        position: Position,
    },
    /// The same version is on flash already: drop it (FaCE's conditional enqueue).
    AlreadyThere,
    /// Staging is full: do jobs, or wait for those who do, and ask again.
    Full,
    /// It does not enter: write it to disk yourself, if it is dirty.
    Bypass {
        /// There was an older copy, which is forgotten. A driver that keeps the directory on flash must
        /// invalidate it there before the page goes to disk, or the copy might come back after a crash.
        stale: bool,
    },
}

/// What became of the copy of a page that went up to DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It stays: the page is in DRAM and here.
    Copied,
    /// It is gone: the page is in DRAM only.
    Moved {
        /// The page is newer than disk.
        dirty: bool,
    },
}

/// What becomes of a dequeued page (docs/DESIGN.md §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Superseded, or clean and not wanted: forget it.
    Drop,
    /// Write it to disk, then forget it.
    Destage,
    /// Back to the rear: call [`crate::Partition::restage`].
    SecondChance,
}

/// A staging frame to be written to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePage {
    /// The page; `None` where a group was closed before it was full.
    pub page: Option<PageId>,
    /// Its slot on flash.
    pub slot: SlotId,
    /// What staging gave it.
    pub position: Position,
    /// The version to stamp into the page. Log placement: its position.
    pub stamp: Position,
    /// Where it lies in staging.
    pub frame: FrameId,
    /// Newer than disk.
    pub dirty: bool,
    /// LSN of its newest change, as it was evicted; 0 for a page that came from disk.
    pub lsn: Lsn,
}

/// A slot to be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequeuePage {
    /// The page; `None` for a superseded version.
    pub page: Option<PageId>,
    /// The slot.
    pub slot: SlotId,
    /// Newer than disk.
    pub dirty: bool,
    /// What becomes of it.
    pub fate: Fate,
    /// What the version stamped into the page must look like when it is read back.
    pub generation: Generation,
}

impl DequeuePage {
    /// The copy to be made, if its fate is to be destaged.
    pub fn to_clean(&self) -> Option<CleanPage> {
        let Self { slot, generation, .. } = *self;
        let destaged = self.page.filter(|_| self.fate == Fate::Destage);
        destaged.map(|page| CleanPage { page, slot, generation })
    }
}

/// A dirty page to be copied from its slot to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanPage {
    /// The page.
    pub page: PageId,
    /// Its slot.
    pub slot: SlotId,
    /// What the version stamped into the page must look like when it is read.
    pub generation: Generation,
}

/// Names a job when it is reported done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(crate) u32);

impl Ticket {
    /// The ticket as a number, to be kept in shared memory: so that a process can finish the job of one that
    /// died.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The ticket with that [`Ticket::number`].
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Pages of a write, never more than a group.
pub type WritePages = ArrayVec<WritePage, GROUP_PAGES_MAX>;
/// Slots of a dequeue, never more than a group.
pub type DequeuePages = ArrayVec<DequeuePage, GROUP_PAGES_MAX>;

/// A write job without its pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub ticket: Ticket,
    pub one_io: bool,
    pub completes_group: bool,
}

/// Any other job without its pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackgroundJob {
    Dequeue { ticket: Ticket, one_io: bool },
    Clean(CleanPage),
    PullVictims(u32),
}

// A job is 7 KiB. Its pages are filled in before it is known whether there is one, and copied once, into it.

impl Write {
    /// The job with these pages.
    #[inline(always)]
    pub(crate) fn of(self, pages: WritePages) -> Job {
        let Self { ticket, one_io, completes_group } = self;
        Job::Write { ticket, pages, one_io, completes_group }
    }
}

impl BackgroundJob {
    /// The job; `pages` are those of a dequeue.
    #[inline(always)]
    pub(crate) fn of(self, pages: DequeuePages) -> Job {
        match self {
            BackgroundJob::Dequeue { ticket, one_io } => Job::Dequeue { ticket, pages, one_io },
            BackgroundJob::Clean(page) => Job::Clean(page),
            BackgroundJob::PullVictims(count) => Job::PullVictims(count),
        }
    }
}

/// Work for the driver.
#[expect(
    clippy::large_enum_variant,
    reason = "a job is made in place; boxed pages would be an allocation for each"
)]
#[derive(Clone, Debug)]
pub enum Job {
    /// Write these staged pages to their slots, then call [`crate::Partition::written`]. With log placement a
    /// write that completes a group is reported only when all of the group is durable; its pages are served
    /// from flash from then on. With `one_io`, slots and frames are adjacent: one sequential write.
    Write {
        /// For the report.
        ticket: Ticket,
        /// What to write where.
        pages: WritePages,
        /// One I/O for the lot (GR, GSC), else one each.
        one_io: bool,
        /// The group is complete with this write: write its summary too.
        completes_group: bool,
    },
    /// Read those pages of these slots that have a fate other than `Drop`; destage and restage them as their
    /// fates say; when the destages are durable on disk call [`crate::Partition::dequeued`].
    Dequeue {
        /// For the report.
        ticket: Ticket,
        /// The slots, in order. With slot placement it is one, to be destaged.
        pages: DequeuePages,
        /// One read for the lot (GR, GSC), else one each.
        one_io: bool,
    },
    /// Copy this page from flash to disk, then call [`crate::Partition::cleaned`].
    Clean(CleanPage),
    /// Ask the buffer pool for this many of its coldest pages (GSC).
    PullVictims(u32),
}

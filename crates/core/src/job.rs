//! What the machine asks its driver to do. A job is plain data: the driver that takes it does the I/O without
//! holding the partition and reports back with the job's ticket.

use crate::sizes::GROUP_PAGES_MAX;
use crate::{Lsn, PageId, Position, SlotId};
use arrayvec::ArrayVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A place in staging memory, `0 .. staging pages`. Frames of one group are adjacent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// Where a fetched page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// In staging. The copy may be incomplete, and the frame may hold another page by the time it is read.
    /// The stamp in the frame shows this: if it differs from `position`, look up the page again.
    Staged {
        /// Where in staging memory.
        frame: FrameId,
        /// The position stamped into the page.
        position: Position,
        /// Newer than the disk copy.
        dirty: bool,
    },
    /// On flash.
    Flash {
        /// Which slot.
        slot: SlotId,
        /// The version that the page's stamp must match.
        generation: Generation,
        /// Newer than the disk copy.
        dirty: bool,
    },
    /// Only on disk.
    Absent,
}

/// What memory knows of the version in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Log placement: the exact position.
    Exact(Position),
    /// Slot placement: the counter of the writes to the slot. It replaces the lowest eight bits of the
    /// position in the stamp, so a write's stamp differs from those of the 255 writes to the slot before it.
    LowByte(u8),
}

impl Generation {
    /// The stamp of the page that has `position` and is written as this version.
    pub fn of(self, position: Position) -> Position {
        match self {
            Generation::Exact(position) => position,
            Generation::LowByte(byte) => Position(position.0 & !0xff | u64::from(byte)),
        }
    }

    /// Whether a stamp found in a page is that of this version.
    pub fn matches(self, found: Position) -> bool {
        match self {
            Generation::Exact(position) => position == found,
            Generation::LowByte(byte) => byte == found.0 as u8,
        }
    }
}

/// The answer to the eviction of a page from DRAM.
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
    /// Staging is full: do jobs, or wait for the workers, and ask again.
    Full,
    /// The page does not enter. If it is dirty, the caller writes it to disk.
    Bypass {
        /// An older copy existed and is forgotten. A driver that keeps the directory on flash must invalidate
        /// the copy there before it writes the page to disk. Otherwise the copy might be served after a
        /// crash.
        stale: bool,
    },
}

/// A range of forgotten pages, to be recorded on flash: their copies at positions below one are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Forgotten {
    /// The first page.
    pub first: PageId,
    /// The last page.
    pub last: PageId,
    /// Copies at this position and after it are not stale.
    pub below: Position,
    /// The driver's number of what made the pages dead. It must be durable before the record is.
    pub after: u64,
}

/// The answer to a request to forget pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Nothing was done: too many records wait to be written, or (slot placement) a copy is being written,
    /// copied in or destaged. Ask again when that is over.
    Full,
    /// Readers do not find the pages any more.
    Done {
        /// Pages (single copies, where slots are named) that were in the cache.
        found: u32,
        /// Dirty ones among them.
        dirty: u32,
        /// An older version of one of the pages may be on its way to disk: it may be written there until the
        /// dequeues that are open now have ended.
        in_dequeue: bool,
    },
}

/// What happened to the flash copy of a page that was fetched to DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The copy stays: the page is in DRAM and on flash.
    Copied,
    /// The copy is forgotten: the page is in DRAM only.
    Moved {
        /// The page is newer than disk.
        dirty: bool,
    },
}

/// What becomes of a dequeued page (docs/DESIGN.md §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Superseded, or clean and unneeded: forget it.
    Drop,
    /// Write it to disk, then forget it.
    Destage,
    /// Return it to the rear: call [`crate::Log::restage`].
    SecondChance,
}

/// A staging frame to be written to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePage {
    /// The page; `None` for padding in a group closed before it was full.
    pub page: Option<PageId>,
    /// Its slot on flash.
    pub slot: SlotId,
    /// Its position.
    pub position: Position,
    /// The stamp to write into the page. Log placement: its position.
    pub stamp: Position,
    /// Its frame in staging.
    pub frame: FrameId,
    /// Newer than disk.
    pub dirty: bool,
    /// LSN of its newest change at the eviction; 0 for a page fetched from disk.
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
    /// What to do with the page.
    pub fate: Fate,
    /// The version that the page's stamp must match when it is read back.
    pub generation: Generation,
}

impl DequeuePage {
    /// The page to copy to disk, if its fate is to be destaged.
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
    /// The version that the page's stamp must match when it is read.
    pub generation: Generation,
}

/// The answer to [`crate::Partition::clean`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// The page has no dirty copy in a slot. A version of it may be staged.
    Clean,
    /// A copy is on its way to disk, or too many others are: ask again when a job is complete.
    Busy,
    /// This copy is to be written to disk. Report it with [`crate::Partition::cleaned`], or give it up with
    /// [`crate::Partition::clean_failed`].
    Copy(CleanPage),
}

/// Identifies a job in its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(crate) u32);

impl Ticket {
    /// The ticket as a number that can be kept in shared memory. With it a process can finish the job of a
    /// process that died.
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
/// Records of forgotten pages that may wait.
pub(crate) const DELETIONS_MAX: u32 = 64;
/// Records of forgotten pages, as many as may wait.
pub type ForgottenPages = ArrayVec<Forgotten, { DELETIONS_MAX as usize }>;
/// Most pages that are forgotten in one step.
pub const FORGET_PAGES_MAX: u64 = 64;

/// A write job ([`Job::Write`]) without its pages.
#[derive(Clone, Copy, Debug)]
pub struct WriteJob {
    /// Identifies the job in its report.
    pub ticket: Ticket,
    /// One I/O for all pages.
    pub one_io: bool,
    /// This write completes the group.
    pub completes_group: bool,
}

/// A write that makes part of a group durable, before the group is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// First position of the group.
    pub first: Position,
    /// The frame of that position.
    pub frame: FrameId,
    /// Places of the group that are written when this job is done. Its summary names the pages before this
    /// place.
    pub upto: u32,
    /// Places that were durable before.
    pub flushed: u32,
}

/// Any other job without the pages of a dequeue.
#[derive(Clone, Copy, Debug)]
pub enum BackgroundJob {
    /// [`Job::Dequeue`].
    Dequeue {
        /// Identifies the job in its report.
        ticket: Ticket,
        /// One read for all pages.
        one_io: bool,
    },
    /// [`Job::Clean`].
    Clean(CleanPage),
    /// [`Job::PullVictims`].
    PullVictims(u32),
}

// A job with its pages is up to 7 KiB. The engine's workers look for jobs far more often than there is one:
// they keep memory for the pages, and take jobs without them.

impl WriteJob {
    /// The job with these pages.
    #[inline(always)]
    pub(crate) fn of(self, pages: WritePages) -> Job {
        let Self { ticket, one_io, completes_group } = self;
        Job::Write { ticket, pages, one_io, completes_group }
    }
}

impl BackgroundJob {
    /// The job with these pages, which are those of a dequeue.
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
    /// Write these staged pages to their slots, then call [`crate::Partition::written`]. With log placement,
    /// report a write that completes a group only when the whole group is durable: from then on its pages are
    /// served from flash. With `one_io`, slots and frames are adjacent: one sequential write.
    ///
    /// If [`crate::Log::flush_of`] says so, the write flushes a part of the group: write a summary of
    /// the group so far, too, and report when all of that is durable. Then there may be no page, where all
    /// are written already.
    Write {
        /// Identifies the job in its report.
        ticket: Ticket,
        /// The pages, with their slots and frames.
        pages: WritePages,
        /// One I/O for all pages (GR, GSC), otherwise one for each.
        one_io: bool,
        /// This write completes the group: write the group's summary too.
        completes_group: bool,
    },
    /// 1. Read the pages of these slots that have a fate other than `Drop`. 2. Destage and restage them as
    ///    their fates say. 3. When the destages are durable on disk, call [`crate::Partition::dequeued`].
    Dequeue {
        /// Identifies the job in its report.
        ticket: Ticket,
        /// The slots, in order. With slot placement there is one, to be destaged.
        pages: DequeuePages,
        /// One read for all pages (GR, GSC), otherwise one for each.
        one_io: bool,
    },
    /// Copy this page from flash to disk, then call [`crate::Partition::cleaned`].
    Clean(CleanPage),
    /// Ask the buffer pool for this many of its coldest pages (GSC).
    PullVictims(u32),
}

/// One occupied slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The page in it.
    pub page: PageId,
    /// It is the newest durable version.
    pub valid: bool,
    /// It was newer than disk when it entered and has not been cleaned.
    pub dirty: bool,
    /// Its checksum; 0 if none are kept.
    pub proof: u32,
}

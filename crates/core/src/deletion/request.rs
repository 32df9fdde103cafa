//! One deletion, step by step. Each step is made under the partition's latch, and does no I/O.

use crate::job::{FORGET_PAGES_MAX, Forget, Lookup};
use crate::partition::Partition;
use crate::placement::Log;
use crate::{PageId, Position};

/// Entries of the directory that are looked at in one step.
const ENTRIES_AT_ONCE: u32 = 512;

/// Why pages are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Why {
    /// They are dead.
    Dead,
    /// They are dead when their newer versions are on disk durably. Only a log.
    Replaced,
    /// They are as on disk. A page that is dirty by then stays.
    Clean,
}

/// What the next step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Pages from this one on, at most [`FORGET_PAGES_MAX`], in one step with their record.
    Part(u64),
    /// The record, with a cause, of a range or of pages that die later.
    Record,
    /// Copies below this position, in the entries from this one on.
    Entries(Position, u32),
    /// Copies below this position, of the pages from this one on.
    Pages(Position, u64),
    /// Older versions may be on their way to disk, from dequeues of groups before this position.
    OnItsWay(Position),
    /// All is done.
    Done,
}

/// A request to delete pages, as far as it has come. `Deletion::step` is called until it is done; between two
/// steps the latch is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deletion {
    first: u64,
    last: u64,
    why: Why,
    stage: Stage,
    /// Its cause; 0: none has begun.
    cause: u64,
    found: u64,
    /// Entries of the directory that are looked at in one step.
    entries_at_once: u32,
}

/// What the driver does after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next step.
    Step {
        /// Slots and frames may have become free: waiting tasks are told.
        room: bool,
    },
    /// Waits until a job is complete.
    Await {
        /// There is no room for another record: records are to be written ([`Log::write_records`]).
        records: bool,
    },
    /// No reader finds the pages, and no older version of them is on its way to disk. What makes them dead is
    /// done now, if it is not done yet; then the [cause](Deletion::cause) ends.
    Done {
        /// Copies that were found.
        found: u64,
    },
}

/// Pages that the next step deletes: a read of one that began before brings back no older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// None.
    None,
    /// From the first to the last.
    Pages(PageId, PageId),
    /// More than one wants to name.
    Many,
}

impl Deletion {
    /// Of pages that are dead.
    pub fn of_dead(first: PageId, last: PageId, partition: &Partition<'_>) -> Self {
        let is_long = first <= last && last.0 - first.0 >= partition.entries().into();
        let stage = match is_long && partition.log().is_some() {
            true => Stage::Record,
            false => Stage::Part(first.0),
        };
        Self::new(first, last, Why::Dead, stage)
    }

    /// Of pages whose newer versions will be written to disk when this is done. Only from a log.
    pub fn of_replaced(first: PageId, last: PageId) -> Self {
        Self::new(first, last, Why::Replaced, Stage::Record)
    }

    /// Of one page, unless it is newer than disk.
    pub fn of_clean(page: PageId) -> Self {
        Self::new(page, page, Why::Clean, Stage::Part(page.0))
    }

    /// Goes on with the deletion of dead pages whose cause has this number: its task has ended. `None`: it
    /// was over.
    pub fn resume(log: &Log<'_>, cause: u64) -> Option<Self> {
        let ((first, last), below) = log.ring.head.deletions.causes.resumable(cause)?;
        let stage = Self::steps((first.0, last.0), below, log.contents.pages.directory.entries());
        Some(Self { cause, ..Self::new(first, last, Why::Dead, stage) })
    }

    /// With so many entries of the directory in one step: for a test, in which other tasks work between any
    /// two.
    pub fn with_steps_of(self, entries_at_once: u32) -> Self {
        Self { entries_at_once, ..self }
    }

    fn new(first: PageId, last: PageId, why: Why, stage: Stage) -> Self {
        let (first, last, entries_at_once) = (first.0, last.0, ENTRIES_AT_ONCE);
        Self { first, last, why, stage, cause: 0, found: 0, entries_at_once }
    }

    /// Its cause, which its driver ends ([`Log::cause_ends`]).
    pub fn cause(&self) -> Option<u64> {
        (self.cause != 0).then_some(self.cause)
    }

    /// Copies that were found so far.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Whether its next step begins a cause.
    pub fn needs_cause(&self) -> bool {
        self.stage == Stage::Record
    }

    /// Whether another task can go on with it, if its own ends.
    pub fn is_resumable(&self) -> bool {
        self.cause != 0 && self.why == Why::Dead
    }

    /// What the next step deletes.
    pub fn touches(&self) -> Touched {
        match self.stage {
            Stage::Part(from) if from <= self.last => {
                Touched::Pages(PageId(from), PageId(self.part_end(from)))
            }
            Stage::Record if self.last < self.first => Touched::None,
            Stage::Record if self.is_short() => Touched::Pages(PageId(self.first), PageId(self.last)),
            Stage::Record => Touched::Many,
            _ => Touched::None,
        }
    }

    /// The next step.
    pub fn step(&mut self, partition: &mut Partition<'_>) -> Next {
        match self.stage {
            Stage::Part(from) if from > self.last || self.last < self.first => self.ends(),
            Stage::Part(from) => self.delete_part(partition, from),
            Stage::Done => self.ends(),
            stage => match partition.log_mut() {
                Some(log) => self.step_of_log(log, stage),
                None => self.ends(),
            },
        }
    }

    fn step_of_log(&mut self, log: &mut Log<'_>, stage: Stage) -> Next {
        let pages = (PageId(self.first), PageId(self.last));
        // Pages that are dead already keep no slot from being released.
        let after = if self.why == Why::Dead { 0 } else { self.cause };
        match stage {
            Stage::Record => self.begin(log, pages),
            Stage::Entries(below, from) => {
                let entries = log.contents.pages.directory.entries();
                let end = entries.min(from.saturating_add(self.entries_at_once));
                let got = log.forget_entries(pages, below, after, from..end);
                let next = if end < entries { Stage::Entries(below, end) } else { self.on_its_way(log) };
                self.deleted(got, next)
            }
            Stage::Pages(below, from) => {
                let end = self.part_end(from);
                let got = log.forget_below((PageId(from), PageId(end)), below, after);
                let next = if end < self.last { Stage::Pages(below, end + 1) } else { self.on_its_way(log) };
                self.deleted(got, next)
            }
            Stage::OnItsWay(begun) if log.is_in_dequeue(pages.0, pages.1, begun) => {
                Next::Await { records: false }
            }
            _ => self.ends(),
        }
    }

    /// Reserves the record and begins the cause in one step. Otherwise:
    ///
    /// 1. cause A begins;
    /// 2. the records of later causes fill the table, and wait for A;
    /// 3. A waits for room for its record.
    fn begin(&mut self, log: &mut Log<'_>, pages: (PageId, PageId)) -> Next {
        if log.ring.head.deletions.are_full() {
            return Next::Await { records: true };
        }
        let Some(cause) = log.ring.head.deletions.causes.begin() else {
            return Next::Await { records: false };
        };
        self.cause = cause;
        if self.last < self.first {
            return self.ends();
        }
        if self.is_short() {
            let got = log.ring.forget_pages(&mut log.contents, pages, cause);
            let next = self.on_its_way(log);
            return self.deleted(got, next);
        }
        let below = log.forget_begin(pages.0, pages.1, cause).expect("there is room for a record");
        if self.why == Why::Dead {
            log.ring.head.deletions.causes.may_be_resumed(cause, pages, below);
        }
        let entries = log.contents.pages.directory.entries();
        self.stage = Self::steps((self.first, self.last), below, entries);
        Next::Step { room: false }
    }

    /// How the copies below `below` are looked for: in all entries of the directory, or page by page.
    fn steps((first, last): (u64, u64), below: Position, entries: u32) -> Stage {
        match last - first >= entries.into() {
            true => Stage::Entries(below, 0),
            false => Stage::Pages(below, first),
        }
    }

    fn delete_part(&mut self, partition: &mut Partition<'_>, from: u64) -> Next {
        let (first, last) = (PageId(from), PageId(self.part_end(from)));
        if self.why == Why::Clean && !is_clean(partition, first) {
            self.stage = Stage::Done;
            return self.ends();
        }
        let got = partition.forget(first, last, 0);
        if got == Forget::Full {
            return Next::Await { records: partition.log().is_some() };
        }
        let next = match partition.log() {
            _ if last.0 < self.last => Stage::Part(last.0 + 1),
            Some(log) => self.on_its_way(log),
            None => Stage::Done,
        };
        self.deleted(got, next)
    }

    fn deleted(&mut self, got: Forget, next: Stage) -> Next {
        let Forget::Done { found, .. } = got else { unreachable!("there is room for a record") };
        self.found += u64::from(found);
        self.stage = next;
        if next == Stage::Done { self.ends() } else { Next::Step { room: found > 0 } }
    }

    /// Dequeues that begin from now on take no version of these pages to disk, so they are not waited for:
    /// there may always be some.
    fn on_its_way(&self, log: &Log<'_>) -> Stage {
        let begun = log.dequeues_begun();
        match log.is_in_dequeue(PageId(self.first), PageId(self.last), begun) {
            true => Stage::OnItsWay(begun),
            false => Stage::Done,
        }
    }

    fn ends(&mut self) -> Next {
        self.stage = Stage::Done;
        Next::Done { found: self.found }
    }

    fn is_short(&self) -> bool {
        self.last - self.first < FORGET_PAGES_MAX
    }

    fn part_end(&self, from: u64) -> u64 {
        self.last.min(from.saturating_add(FORGET_PAGES_MAX - 1))
    }
}

/// Whether `page` is in the cache, as on disk.
fn is_clean(partition: &Partition<'_>, page: PageId) -> bool {
    match partition.peek(page) {
        Lookup::Staged { dirty, .. } | Lookup::Flash { dirty, .. } => !dirty,
        Lookup::Absent => false,
    }
}

impl Log<'_> {
    /// There is no room for another record: those that may be written are. What the others need is the
    /// background's to make durable. `by_group`: records count when their group is complete, as it has one
    /// summary.
    pub fn write_records(&mut self, by_group: bool) {
        let Self { contents, ring } = self;
        let deletions = &ring.head.deletions;
        let durable = deletions.causes.durable();
        if deletions.oldest_awaits().is_none_or(|after| after > durable) {
            return;
        }
        ring.flush(contents);
        if by_group {
            ring.close_group(contents);
        }
    }
}

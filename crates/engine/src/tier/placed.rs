//! The state that only log placement has, and the state that only slot placement has.

use super::slot_directory::SlotDirectory;
use crate::TierOptions;
use crate::api::Survivors;
use crate::signal::Signal;
use entresol_core::{Directory, Forgotten, Lsn, PageId, Placement, Position, mutant};
use entresol_device::BusyClock;
use entresol_format::superblock::Superblock;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// By the placement of the policy.
pub(crate) enum Placed {
    Log(Box<LogParts>),
    Slots(SlotParts),
}

/// Log placement.
pub(crate) struct LogParts {
    /// The groups that the open has found; `None` in a new cache.
    pub survivors: Option<Survivors>,
    /// Dirty pages written page by page to groups that are not complete, with their positions.
    pub unpublished: TinyMutex<Vec<(Position, PageId, Lsn)>>,
    /// Writes of groups to flash, and reads of those that are dequeued.
    pub work: BusyClock,
    /// For the task that writes directory segments: a segment may be complete.
    pub segments: Signal,
    /// For the task that confirms flushes: one has ended.
    pub flushes: Signal,
    /// Records of forgotten pages that summaries name, with their groups, for the next directory segments.
    records: TinyMutex<Vec<(u64, Forgotten)>>,
    /// A group whose summary had no room for all records.
    pub full_summary: AtomicU64,
    /// A durable summary says that groups below this position were durable.
    pub told_durable: AtomicU64,
}

impl LogParts {
    /// Adds the records that earlier summaries of `group` name before those in `records`, which its next one
    /// is to name, too; at most `room` in all. Returns how many of the new ones have no room.
    pub(crate) fn name_records(&self, group: u64, records: &mut Vec<Forgotten>, room: usize) -> u64 {
        let mut kept = self.records.lock();
        let named = |kept: &[(u64, Forgotten)]| kept.iter().filter(|(of, _)| *of == group).count();
        let left = room - named(&kept);
        let over = records.len().saturating_sub(left);
        records.truncate(left);
        kept.extend(records.iter().map(|record| (group, *record)));
        let named = |(of, _): &&(u64, Forgotten)| *of == group && !mutant!("record-not-repeated");
        let all: Vec<Forgotten> = kept.iter().filter(named).map(|(_, record)| *record).collect();
        if !all.is_empty() {
            *records = all;
        }
        if over > 0 {
            self.full_summary.store(group, SeqCst);
        }
        over as u64
    }

    /// After a restart that found `survivors`; `records` are those that the summaries of groups name which no
    /// directory segment covers.
    pub(crate) fn restored(survivors: Option<Survivors>, records: Vec<(u64, Forgotten)>) -> Self {
        let records = TinyMutex::new(Rank::ForgottenRecords, records);
        Self { survivors, records, ..Self::default() }
    }

    /// The records that summaries of groups before `end` name; they are kept no longer.
    pub(crate) fn take_records(&self, end: u64) -> Vec<Forgotten> {
        let mut kept = self.records.lock();
        let taken = kept.iter().filter(|(group, _)| *group < end).map(|(_, record)| *record);
        let mut taken: Vec<Forgotten> = taken.collect();
        kept.retain(|(group, _)| *group >= end);
        // Several summaries may name a record.
        taken.sort_unstable_by_key(|record| (record.first, record.last, record.below));
        taken.dedup();
        taken
    }
}

impl Default for LogParts {
    fn default() -> Self {
        Self {
            survivors: None,
            unpublished: TinyMutex::new(Rank::DurableNotes, Vec::new()),
            work: BusyClock::default(),
            segments: Signal::default(),
            flushes: Signal::default(),
            records: TinyMutex::new(Rank::ForgottenRecords, Vec::new()),
            full_summary: AtomicU64::new(u64::MAX),
            told_durable: AtomicU64::new(0),
        }
    }
}

/// Slot placement.
pub(crate) struct SlotParts {
    /// No page that is served from flash has a position below.
    pub first: Position,
    /// The slot directory on flash, of a policy that keeps it up with every page.
    pub directory: Option<SlotDirectory>,
    /// Copies of the temperatures written, ever.
    pub temperatures_written: AtomicU64,
}

impl Placed {
    /// Of an empty cache.
    pub(crate) fn new(options: &TierOptions, superblock: &Superblock) -> Self {
        if options.policy.placement() == Placement::Log {
            return Placed::Log(Box::default());
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
        Self { first, directory, temperatures_written: AtomicU64::new(temperatures_written) }
    }
}

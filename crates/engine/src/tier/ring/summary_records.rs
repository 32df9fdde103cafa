//! Records of forgotten pages that summaries name, until a directory segment covers them.

use entresol_core::Forgotten;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// See the module's header.
pub(crate) struct SummaryRecords {
    /// The records, with their groups.
    records: TinyMutex<Vec<(u64, Forgotten)>>,
    /// A group whose summary had no room for all records.
    full_summary: AtomicU64,
}

impl SummaryRecords {
    /// After a restart, with the records that it has found.
    pub(crate) fn new(found: Vec<(u64, Forgotten)>) -> Self {
        let records = TinyMutex::new(Rank::ForgottenRecords, found);
        Self { records, full_summary: AtomicU64::new(u64::MAX) }
    }

    /// Adds the records that earlier summaries of `group` name before those in `records`, which its next one
    /// is to name, too; at most `room` in all. Returns how many of the new ones have no room.
    pub(crate) fn name_records(&self, group: u64, records: &mut Vec<Forgotten>, room: usize) -> u64 {
        let mut kept = self.records.lock();
        let named = |kept: &[(u64, Forgotten)]| kept.iter().filter(|(of, _)| *of == group).count();
        let left = room - named(&kept);
        let over = records.len().saturating_sub(left);
        records.truncate(left);
        kept.extend(records.iter().map(|record| (group, *record)));
        let named = |(of, _): &&(u64, Forgotten)| *of == group;
        let all: Vec<Forgotten> = kept.iter().filter(named).map(|(_, record)| *record).collect();
        if !all.is_empty() {
            *records = all;
        }
        if over > 0 {
            self.full_summary.store(group, SeqCst);
        }
        over as u64
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

    /// Whether the summary of `group` had no room for all records.
    pub(crate) fn is_full(&self, group: u64) -> bool {
        self.full_summary.load(SeqCst) == group
    }
}

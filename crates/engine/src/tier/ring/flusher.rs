//! A flush: everything that was evicted and forgotten before is durable when it returns, without a database's
//! log.
//!
//! The pages of the open group are written as a part of it, with a summary of the group so far, and one sync
//! of flash makes both durable. The group stays open, so a flush costs no slots. Flushes at the same time
//! share writes and syncs. Pages that callers wrote to disk are synced there.

use super::summary_records::SummaryRecords;
use crate::TierError;
use crate::disk::DiskPages;
use crate::front::Front;
use crate::tier::floor::Floor;
use crate::tier::floor::causes::Causes;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::staged::{StagedPages, records_due};
use entresol_core::Partition;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flusher {
    front: Arc<Front>,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    staged: Arc<StagedPages>,
    causes: Arc<Causes>,
    objects: Arc<ObjectLog>,
    failures: Arc<Failures>,
    records: Arc<SummaryRecords>,
}

impl Flusher {
    pub(crate) fn new(floor: &Floor, records: &Arc<SummaryRecords>) -> Self {
        Self {
            front: floor.front.clone(),
            flash: floor.flash.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            staged: floor.staged.clone(),
            causes: floor.causes.clone(),
            objects: floor.objects.clone(),
            failures: floor.failures.clone(),
            records: records.clone(),
        }
    }

    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.front.check_running()? {
            return self.disk.sync();
        }
        if self.flash.layout.summary_copies() == 1 {
            // With one summary, a flush could tear the one before it.
            self.staged.drain()?;
            // The flash may have failed meanwhile.
            if !self.front.check_running()? {
                return self.disk.sync();
            }
            self.flush_objects()?;
            return self.disk_writes.sync_callers();
        }
        self.disk_writes.sync_callers()?;
        self.flush_flash()?;
        self.flush_objects()
    }

    /// All that was defined, retired and cut is durable.
    fn flush_objects(&self) -> Result<(), TierError> {
        match self.objects.make_durable() {
            Ok(()) => Ok(()),
            Err(error) => {
                self.failures.fail(error);
                // If nothing is lost by it, the disk alone serves.
                self.front.check_running()?;
                self.disk.sync()
            }
        }
    }

    /// Log placement: everything that was handed down before is durable on flash, and all records of
    /// forgotten pages that need not wait.
    pub(crate) fn flush_flash(&self) -> Result<(), TierError> {
        let (rear, made_before) = self.front.with(|partition| {
            let (_, rear) = partition.window();
            (rear, partition.log().map_or(0, |log| log.records_made()))
        })?;
        let mut records = None;
        loop {
            let seen = self.front.progress.epoch();
            if !self.front.check_running()? {
                return self.disk.sync();
            }
            let may_record = self.causes.settle_oldest_record()?;
            // The background tasks, which do this otherwise, may be waiting for room themselves.
            self.causes.settle_dead_if_possible()?;
            let over = self.front.with(|partition| {
                let is_durable = partition.flushed() >= rear;
                if is_durable {
                    let due = *records.get_or_insert_with(|| records_due(partition, made_before));
                    if partition.log().is_none_or(|log| log.records_durable() >= due) {
                        return true;
                    }
                }
                if may_record || !is_durable {
                    self.make_room_for_records(partition);
                    partition.flush();
                }
                false
            })?;
            if over {
                return Ok(());
            }
            self.front.writes.notify_one();
            self.front.background.notify_one();
            self.front.await_progress(seen)?;
        }
    }

    /// If the summary of the open group has no room for more records, the group is closed.
    fn make_room_for_records(&self, partition: &mut Partition<'_>) {
        let (_, rear) = partition.window();
        let waits = partition.log().is_some_and(|log| log.records_waiting() > 0);
        if waits && self.records.is_full(self.front.group_number(rear)) {
            partition.close_group();
        }
    }
}

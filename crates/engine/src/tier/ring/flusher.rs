//! A flush: everything that was evicted and forgotten before is durable when it returns, without a database's
//! log.
//!
//! The pages of the open group are written as a part of it, with a summary of the group so far, and one sync
//! of flash makes both durable. The group stays open, so a flush costs no slots. Flushes at the same time
//! share writes and syncs. Pages that callers wrote to disk are synced there.

use super::summary_records::SummaryRecords;
use super::writer::Writer;
use crate::TierError;
use crate::access::{Directory, Signals};
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::flush::StagedFlush;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::staged::StagedPages;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flusher {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    staged: Arc<StagedPages>,
    objects: Arc<ObjectLog>,
    failures: Arc<Failures>,
    records: Arc<SummaryRecords>,
    flush: StagedFlush<Writer>,
}

impl Flusher {
    pub(crate) fn new(floor: &Floor, records: &Arc<SummaryRecords>, writer: &Arc<Writer>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            signals: floor.access.signals.clone(),
            flash: floor.flash.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            staged: floor.staged.clone(),
            objects: floor.objects.clone(),
            failures: floor.failures.clone(),
            records: records.clone(),
            flush: StagedFlush::new(floor, writer),
        }
    }

    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.signals.check_running()? {
            return self.disk.sync();
        }
        if self.flash.layout.summary_copies() == 1 {
            // With one summary, a flush could tear the one before it.
            self.staged.drain()?;
            // The flash may have failed meanwhile.
            if !self.signals.check_running()? {
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
                self.signals.check_running()?;
                self.disk.sync()
            }
        }
    }

    /// Log placement: everything that was handed down before is durable on flash, and all records of
    /// forgotten pages that need not wait.
    pub(crate) fn flush_flash(&self) -> Result<(), TierError> {
        // If the summary of the open group has no room for more records, the group is closed.
        self.flush.flush(|rear| self.records.is_full(self.directory.group_number(rear)))
    }
}

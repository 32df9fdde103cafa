//! A flush: everything that was evicted and forgotten before is durable when it returns, without a database's
//! log.
//!
//! The pages of the open group are written as a part of it, with a summary of the group so far, and one sync
//! of flash makes both durable. The group stays open, so a flush costs no slots. Flushes at the same time
//! share writes and syncs. Pages that callers wrote to disk are synced there.
//!
//! The caller carries out the write itself, if no other task does: it would only wait for another one.

use super::summary_records::SummaryRecords;
use super::writer::Writer;
use crate::TierError;
use crate::access::{Directory, Signals};
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::failures::{Failures, PanicGuard};
use crate::tier::floor::flash::Flash;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::staged::StagedPages;
use crate::tier::floor::writers::{Turn, WriterLoop};
use entresol_core::{Extent, FlushGoal, Position, WritePages};
use entresol_runtime::sync::{Rank, TinyMutex};
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
    writer: Arc<Writer>,
    writers: WriterLoop,
    /// Memory for a caller's write.
    scratch: TinyMutex<Option<AlignedBuffer>>,
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
            writer: writer.clone(),
            writers: WriterLoop::new(floor),
            scratch: TinyMutex::new(Rank::FlushBuffer, None),
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
        let mut goal = self.directory.with(|partition| FlushGoal::begin(partition, Extent::Flushed))?;
        // If the summary of the open group has no room for more records, the group is closed.
        let is_full = |rear: Position| self.records.is_full(self.directory.group_number(rear));
        match self.staged.reach(&mut goal, is_full, || self.writes_one())? {
            true => Ok(()),
            false => self.disk.sync(),
        }
    }

    /// Carries out a write that is due. False: there is none.
    fn writes_one(&self) -> bool {
        let _guard = PanicGuard(&self.failures);
        let scratch = self.scratch.lock().take();
        let (mut scratch, mut pages) = (scratch.unwrap_or_else(|| AlignedBuffer::new(0)), WritePages::new());
        let turn = self.writers.one(&*self.writer, &mut pages, &mut scratch, || ());
        *self.scratch.lock() = Some(scratch);
        turn != Turn::Nothing
    }
}

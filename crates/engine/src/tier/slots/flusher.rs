//! A flush of slots. Where they survive a crash, staged pages are written in a batch, and one sync makes it
//! durable with its summary. Else dirty pages are copied to disk, as at a checkpoint.

use super::writer::Writer;
use crate::TierError;
use crate::TierOptions;
use crate::access::Signals;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::Checkpointer;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::flush::StagedFlush;
use entresol_core::Mode;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flusher {
    options: Arc<TierOptions>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    checkpointer: Arc<Checkpointer>,
    flush: StagedFlush<Writer>,
}

impl Flusher {
    pub(crate) fn new(floor: &Floor, checkpointer: &Arc<Checkpointer>, writer: &Arc<Writer>) -> Self {
        Self {
            options: floor.access.options.clone(),
            signals: floor.access.signals.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            checkpointer: checkpointer.clone(),
            flush: StagedFlush::new(floor, writer),
        }
    }

    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.signals.check_running()? {
            return self.disk.sync();
        }
        if self.options.keeps_batches() {
            self.disk_writes.sync_callers()?;
            return self.flush_flash();
        }
        let dirty_possible = self.options.mode == Mode::WriteBack;
        if dirty_possible { self.checkpointer.checkpoint() } else { self.disk_writes.sync_callers() }
    }

    /// Everything that was handed down before is durable on flash, and that slots are empty which were
    /// emptied. Where slots survive a crash.
    pub(crate) fn flush_flash(&self) -> Result<(), TierError> {
        self.flush.flush(|_| false)
    }
}

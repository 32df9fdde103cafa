//! A flush of slots: their directory does not survive, so dirty pages are copied to disk, as at a checkpoint.

use crate::TierError;
use crate::TierOptions;
use crate::access::Signals;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::Checkpointer;
use crate::tier::floor::disk_writes::DiskWrites;
use entresol_core::Mode;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flusher {
    options: Arc<TierOptions>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    checkpointer: Arc<Checkpointer>,
}

impl Flusher {
    pub(crate) fn new(floor: &Floor, checkpointer: &Arc<Checkpointer>) -> Self {
        Self {
            options: floor.access.options.clone(),
            signals: floor.access.signals.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            checkpointer: checkpointer.clone(),
        }
    }

    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.signals.check_running()? {
            return self.disk.sync();
        }
        let dirty_possible = self.options.mode == Mode::WriteBack;
        if dirty_possible { self.checkpointer.checkpoint() } else { self.disk_writes.sync_callers() }
    }
}

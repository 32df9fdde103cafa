//! A flush of slots: their directory does not survive, so dirty pages are copied to disk, as at a checkpoint.

use crate::TierError;
use crate::access::Access;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::Checkpointer;
use crate::tier::floor::disk_writes::DiskWrites;
use entresol_core::Mode;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flusher {
    access: Arc<Access>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    checkpointer: Arc<Checkpointer>,
}

impl Flusher {
    pub(crate) fn new(floor: &Floor, checkpointer: &Arc<Checkpointer>) -> Self {
        let (access, disk) = (floor.access.clone(), floor.disk.clone());
        Self { access, disk, disk_writes: floor.disk_writes.clone(), checkpointer: checkpointer.clone() }
    }

    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.access.signals.check_running()? {
            return self.disk.sync();
        }
        let dirty_possible = self.access.options.mode == Mode::WriteBack;
        if dirty_possible { self.checkpointer.checkpoint() } else { self.disk_writes.sync_callers() }
    }
}

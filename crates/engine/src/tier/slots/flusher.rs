//! A flush of slots: their directory does not survive, so dirty pages are copied to disk, as at a checkpoint.

use crate::TierError;
use crate::disk::DiskPages;
use crate::front::Front;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::Checkpointer;
use crate::tier::floor::disk_writes::DiskWrites;
use entresol_core::Mode;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Flusher {
    front: Arc<Front>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    checkpointer: Arc<Checkpointer>,
}

impl Flusher {
    pub(crate) fn new(floor: &Floor, checkpointer: &Arc<Checkpointer>) -> Self {
        let (front, disk) = (floor.front.clone(), floor.disk.clone());
        Self { front, disk, disk_writes: floor.disk_writes.clone(), checkpointer: checkpointer.clone() }
    }

    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.front.check_running()? {
            return self.disk.sync();
        }
        let dirty_possible = self.front.options.mode == Mode::WriteBack;
        if dirty_possible { self.checkpointer.checkpoint() } else { self.disk_writes.sync_callers() }
    }
}

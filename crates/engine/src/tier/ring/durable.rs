//! What a checkpoint of a ring makes durable (FaCE §2.3, §4.1): every group's write leaves its summary
//! durable, so the directory is durable with it; then a superblock is written. Dirty pages stay on flash.

use super::unsure::Unsure;
use crate::TierError;
use crate::TierOptions;
use crate::access::BoardRef;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::MakeDurable;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::renewals::Renewals;
use crate::tier::floor::superblocks::Superblocks;
use entresol_core::Position;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct DurableRing {
    options: Arc<TierOptions>,
    board: BoardRef,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    objects: Arc<ObjectLog>,
    renewals: Arc<Renewals>,
    superblocks: Arc<Superblocks>,
    unsure: Arc<Unsure>,
    /// Fronts in other processes write to disk, too.
    is_shared: bool,
}

impl DurableRing {
    pub(crate) fn new(floor: &Floor, unsure: &Arc<Unsure>) -> Self {
        Self {
            options: floor.access.options.clone(),
            board: floor.access.board.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            objects: floor.objects.clone(),
            renewals: floor.renewals.clone(),
            superblocks: floor.superblocks.clone(),
            unsure: unsure.clone(),
            is_shared: floor.served.is_some(),
        }
    }
}

impl MakeDurable for DurableRing {
    fn make_durable(&self, rear: Position) -> Result<(), TierError> {
        self.objects.make_durable()?;
        // Before the owner's marks change, and before what is on disk counts as durable there.
        self.renewals.renew()?;
        if !self.options.disk_may_lack() {
            self.disk_writes.sync_callers()?;
            self.superblocks.write(|_| ())?;
            return self.superblocks.double_marks();
        }
        let sure = match self.board.marks() {
            // Writes to disk are the owner's, and durable when its checkpoint is complete.
            Some(marks) if self.is_shared => self.superblocks.complete_below(marks, rear),
            _ => self.unsure.sure_below(rear),
        };
        self.disk.sync()?;
        self.superblocks.write(|superblock| {
            superblock.unsure_from = superblock.unsure_from.max(sure);
        })?;
        self.superblocks.double_marks()
    }
}

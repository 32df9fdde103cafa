//! What flash has and the disk may lack, in write-through without a log above: positions from the oldest
//! write under way on, and all since the last checkpoint (`Superblock::unsure_from`).

use crate::TierOptions;
use crate::access::Directory;
use crate::tier::floor::Floor;
use crate::tier::floor::superblocks::Superblocks;
use crate::tier::floor::turns::Turns;
use entresol_core::Position;
use entresol_shm::Gone;
use std::sync::Arc;

/// Checkpoints are made when this part of the slots is unsure, in sixteenths: half of what is promised, since
/// pages enter while one is made.
const UNSURE_PART: u64 = 32;

/// See the module's header.
pub(crate) struct Unsure {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    superblocks: Arc<Superblocks>,
    turns: Option<Arc<Turns>>,
}

impl Unsure {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            superblocks: floor.superblocks.clone(),
            turns: floor.turns.clone(),
        }
    }

    /// All that is below may be taken as being on disk, once the disk is synced: to be asked before.
    pub(crate) fn sure_below(&self, rear: Position) -> Position {
        let oldest = self.turns.as_ref().and_then(|turns| turns.oldest());
        rear.min(oldest.unwrap_or(rear))
    }

    /// Whether so much is unsure that a checkpoint is due, and one would help: it cannot while the oldest
    /// write is under way, and would only be repeated.
    pub(crate) fn is_long(&self) -> Result<bool, Gone> {
        let is_kept = self.turns.is_some();
        if !is_kept || !self.options.disk_may_lack() {
            return Ok(false);
        }
        let (rear, sure) = (self.directory.with(|partition| partition.window().1)?, self.superblocks.sure());
        let is_long = rear.0.saturating_sub(sure.0) > u64::from(self.directory.config.slots) / UNSURE_PART;
        Ok(is_long && self.sure_below(rear) > sure)
    }
}

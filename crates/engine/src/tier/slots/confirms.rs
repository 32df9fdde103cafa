//! What confirms a flush of slots that survive a crash: the summary of one more batch, without pages, which
//! repeats the newest one, and says that all before it are durable.

use crate::TierError;
use crate::access::{Directory, Signals};
use crate::tier::floor::Floor;
use crate::tier::floor::confirmer::Confirms;
use entresol_shm::Gone;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct ConfirmsSlots {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
}

impl ConfirmsSlots {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self { directory: floor.access.directory.clone(), signals: floor.access.signals.clone() }
    }
}

impl Confirms for ConfirmsSlots {
    /// A number above that of the newest batch which is not confirmed.
    type What = u64;

    fn unconfirmed(&self) -> Result<Option<u64>, Gone> {
        self.directory.with(|partition| partition.slots()?.unconfirmed())
    }

    fn confirm(&self, _: u64) -> Result<(), TierError> {
        self.directory.with(|partition| partition.slots_mut().and_then(|slots| slots.repeat()))?;
        self.signals.writes.notify_one();
        Ok(())
    }
}

//! What confirms a flush of a ring. Of an open group a summary does ([`entresol_core::Log::confirm`]), of a
//! full one a superblock.

use crate::TierError;
use crate::access::{Directory, Signals};
use crate::tier::floor::Floor;
use crate::tier::floor::confirmer::Confirms;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::superblocks::Superblocks;
use entresol_core::Position;
use entresol_shm::Gone;
use std::sync::Arc;

/// What is durable, and no durable block on flash says so yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unconfirmed {
    /// Parts of the open group, up to this position.
    Parts(Position),
    /// Full groups, up to this position.
    Groups(Position),
}

/// See the module's header.
pub(crate) struct ConfirmsRing {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    superblocks: Arc<Superblocks>,
    failures: Arc<Failures>,
}

impl ConfirmsRing {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            signals: floor.access.signals.clone(),
            superblocks: floor.superblocks.clone(),
            failures: floor.failures.clone(),
        }
    }
}

impl Confirms for ConfirmsRing {
    type What = Unconfirmed;

    fn unconfirmed(&self) -> Result<Option<Unconfirmed>, Gone> {
        let (parts, published) = self
            .directory
            .with(|partition| (partition.log().and_then(|log| log.unconfirmed()), partition.published()))?;

        let groups = (published > self.superblocks.told_durable()).then_some(Unconfirmed::Groups(published));
        Ok(parts.map(Unconfirmed::Parts).or(groups))
    }

    fn confirm(&self, unconfirmed: Unconfirmed) -> Result<(), TierError> {
        match unconfirmed {
            Unconfirmed::Parts(flushed) => {
                self.directory.in_log(|log| log.confirm(flushed))?;
                self.signals.writes.notify_one();
            }
            Unconfirmed::Groups(_) => {
                let Some(_under_way) = self.failures.begin_job() else { return Ok(()) };
                self.superblocks.write(|_| ())?;
            }
        }
        Ok(())
    }
}

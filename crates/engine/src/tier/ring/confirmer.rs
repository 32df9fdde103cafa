//! Confirms the newest flush of an idle cache within a second: from then on damage of it is known to be
//! damage, and not taken for a flush that power has cut off. Of an open group a summary confirms it
//! ([`entresol_core::Log::confirm`]), of a full one a superblock.

use crate::TierError;
use crate::access::{Directory, RunState, Signals};
use crate::tier::floor::Floor;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::superblocks::Superblocks;
use entresol_core::Position;
use entresol_runtime::sleep;
use entresol_shm::Gone;
use std::sync::Arc;
use std::time::Duration;

/// A flush is confirmed when there was none after it for so long.
const IDLE: Duration = Duration::from_millis(500);
/// The task looks so often whether the tier stops.
const SLICES: u32 = 20;

/// What is durable, and no durable block on flash says so yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unconfirmed {
    /// Parts of the open group, up to this position.
    Parts(Position),
    /// Full groups, up to this position.
    Groups(Position),
}

/// See the module's header.
pub(crate) struct Confirmer {
    directory: Arc<Directory>,
    state: Arc<RunState>,
    signals: Arc<Signals>,
    superblocks: Arc<Superblocks>,
    failures: Arc<Failures>,
}

impl Confirmer {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            state: floor.access.state.clone(),
            signals: floor.access.signals.clone(),
            superblocks: floor.superblocks.clone(),
            failures: floor.failures.clone(),
        }
    }

    /// Confirms flushes until the tier stops. Sleeps until there is one.
    pub(crate) fn task(&self) {
        loop {
            let seen = self.failures.flushes.epoch();
            if self.state.is_stopped() {
                return;
            }
            let Ok(unconfirmed) = self.unconfirmed() else { return };
            let Some(unconfirmed) = unconfirmed else {
                self.failures.flushes.wait(seen);
                continue;
            };
            for _ in 0..SLICES {
                sleep(IDLE / SLICES);
                if self.state.is_stopped() {
                    return;
                }
            }
            match self.confirm(unconfirmed) {
                // The next flush tells this task again.
                Ok(true) => self.failures.flushes.wait(seen),
                Ok(false) => {}
                Err(error) => return self.failures.fail(error),
            }
        }
    }

    fn unconfirmed(&self) -> Result<Option<Unconfirmed>, Gone> {
        let (parts, published) = self
            .directory
            .with(|partition| (partition.log().and_then(|log| log.unconfirmed()), partition.published()))?;

        let groups = (published > self.superblocks.told_durable()).then_some(Unconfirmed::Groups(published));
        Ok(parts.map(Unconfirmed::Parts).or(groups))
    }

    /// Confirms what was `unconfirmed` some time ago. False: there was a flush meanwhile.
    fn confirm(&self, unconfirmed: Unconfirmed) -> Result<bool, TierError> {
        if self.unconfirmed()? != Some(unconfirmed) {
            return Ok(false);
        }
        match unconfirmed {
            Unconfirmed::Parts(flushed) => {
                self.directory.in_log(|log| log.confirm(flushed))?;
                self.signals.writes.notify_one();
            }
            Unconfirmed::Groups(_) => {
                let Some(_under_way) = self.failures.begin_job() else { return Ok(true) };
                self.superblocks.write(|_| ())?;
            }
        }
        Ok(true)
    }
}

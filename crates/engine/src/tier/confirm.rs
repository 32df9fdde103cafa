//! Confirms the newest flush of an idle cache within a second: from then on damage of it is known to be
//! damage, and not taken for a flush that power has cut off. Of an open group a summary confirms it
//! ([`entresol_core::Partition::confirm`]), of a full one a superblock.

use super::back::Back;
use super::placed::LogParts;
use crate::TierError;
use entresol_core::{Position, mutant};
use entresol_runtime::sleep;
use entresol_shm::Gone;
use std::sync::atomic::Ordering::SeqCst;
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

impl Back {
    /// Confirms flushes until the tier stops. Sleeps until there is one.
    pub(super) fn confirm_task(&self) {
        let Some(log) = self.log() else { return };
        loop {
            let seen = log.flushes.epoch();
            if self.front.state.is_stopped() {
                return;
            }
            let Ok(unconfirmed) = self.unconfirmed(log) else { return };
            let Some(unconfirmed) = unconfirmed else {
                log.flushes.wait(seen);
                continue;
            };
            for _ in 0..SLICES {
                sleep(IDLE / SLICES);
                if self.front.state.is_stopped() {
                    return;
                }
            }
            match self.confirm(log, unconfirmed) {
                // The next flush tells this task again.
                Ok(true) => log.flushes.wait(seen),
                Ok(false) => {}
                Err(error) => return self.fail(error),
            }
        }
    }

    fn unconfirmed(&self, log: &LogParts) -> Result<Option<Unconfirmed>, Gone> {
        let (parts, published) =
            self.front.with(|partition| (partition.unconfirmed(), partition.published()))?;
        let told = log.told_durable.load(SeqCst).max(self.superblocks.newest_durable.load(SeqCst));
        let groups = (published.0 > told && !mutant!("full-group-not-confirmed"))
            .then_some(Unconfirmed::Groups(published));
        Ok(parts.map(Unconfirmed::Parts).or(groups))
    }

    /// Confirms what was `unconfirmed` some time ago. False: there was a flush meanwhile.
    fn confirm(&self, log: &LogParts, unconfirmed: Unconfirmed) -> Result<bool, TierError> {
        if self.unconfirmed(log)? != Some(unconfirmed) {
            return Ok(false);
        }
        match unconfirmed {
            Unconfirmed::Parts(flushed) => {
                self.front.with(|partition| partition.confirm(flushed))?;
                self.front.writes.notify_one();
            }
            Unconfirmed::Groups(_) => {
                let Some(_under_way) = self.begin_job() else { return Ok(true) };
                self.write_superblock(|_| ())?;
            }
        }
        Ok(true)
    }
}

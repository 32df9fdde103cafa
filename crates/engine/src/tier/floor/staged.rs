//! Waits until staging is on flash.

use super::causes::Causes;
use crate::TierError;
use crate::access::{Access, Directory, Signals};
use entresol_core::{Extent, FlushGoal, Position};
use std::sync::Arc;

/// Pages in staging, and records of forgotten ones.
pub(crate) struct StagedPages {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    causes: Arc<Causes>,
}

impl StagedPages {
    pub(crate) fn new(access: &Arc<Access>, causes: &Arc<Causes>) -> Self {
        Self { directory: access.directory.clone(), signals: access.signals.clone(), causes: causes.clone() }
    }

    /// Waits until everything staged so far is on flash. Returns the rear at the time of the call.
    /// With log placement records of forgotten pages are durable, too.
    pub(crate) fn drain(&self) -> Result<Position, TierError> {
        self.causes.settle_dead()?;
        let mut goal = self.directory.with(|partition| FlushGoal::begin(partition, Extent::Published))?;
        let helps = || {
            self.signals.writes.notify_one();
            self.signals.background.notify_one();
            false
        };
        self.reach(&mut goal, |_| false, helps)?;
        Ok(goal.rear())
    }

    /// Waits until `goal` is reached, or the flash serves no more (false). `needs_group`: the summary of the
    /// group that is open at this position has no room for more records. `helps`: carries out a write that is
    /// due, so that it waits for no other task; or has others do so, if any is due (false). What is due
    /// later, progress tells.
    pub(crate) fn reach(
        &self,
        goal: &mut FlushGoal,
        needs_group: impl Fn(Position) -> bool,
        mut helps: impl FnMut() -> bool,
    ) -> Result<bool, TierError> {
        loop {
            let seen = self.signals.progress.epoch();
            if !self.signals.check_running()? {
                return Ok(false);
            }
            let may_record = self.causes.settle_oldest_record()?;
            // The background tasks, which do this otherwise, may be waiting for room themselves.
            self.causes.settle_dead_if_possible()?;
            let (is_over, needs_room) = self.directory.with(|partition| {
                let needs_group = needs_group(partition.window().1);
                let is_over = goal.step(partition, may_record, needs_group);
                // The records may need a group of their own.
                (is_over, partition.log().is_some_and(|log| log.records_waiting() > 0))
            })?;
            if is_over {
                return Ok(true);
            }
            if helps() {
                continue;
            }
            if needs_room {
                self.signals.background.notify_one();
            }
            self.signals.await_progress(seen)?;
        }
    }
}

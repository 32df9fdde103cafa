//! Confirms the newest flush of an idle cache within a second: from then on damage of it is known to be
//! damage, and not taken for a flush that power has cut off ([`entresol_core::Partition::confirm`]).

use super::back::Back;
use entresol_runtime::sleep;
use std::time::Duration;

/// A flush is confirmed when there was none after it for so long.
const IDLE: Duration = Duration::from_millis(500);
/// The task looks so often whether the tier stops.
const SLICES: u32 = 20;

impl Back {
    /// Confirms flushes until the tier stops. Sleeps until there is one.
    pub(super) fn confirm_task(&self) {
        let Some(log) = self.log() else { return };
        loop {
            let seen = log.flushes.epoch();
            if self.front.state.is_stopped() {
                return;
            }
            let Ok(flushed) = self.front.with(|partition| partition.unconfirmed()) else { return };
            let Some(flushed) = flushed else {
                log.flushes.wait(seen);
                continue;
            };
            for _ in 0..SLICES {
                sleep(IDLE / SLICES);
                if self.front.state.is_stopped() {
                    return;
                }
            }
            // If there was another one meanwhile, that is the newest.
            let confirmed = self.front.with(|partition| {
                let is_newest = partition.unconfirmed() == Some(flushed);
                if is_newest {
                    partition.confirm(flushed);
                }
                is_newest
            });
            if confirmed == Ok(true) {
                self.front.writes.notify_one();
                // Nobody waits for it; the next flush tells this task again.
                log.flushes.wait(seen);
            }
        }
    }
}

//! Waits until staging is on flash.

use super::causes::Causes;
use crate::TierError;
use crate::front::Front;
use entresol_core::{Partition, Position};
use std::sync::Arc;

/// Pages in staging, and records of forgotten ones.
pub(crate) struct StagedPages {
    front: Arc<Front>,
    causes: Arc<Causes>,
}

/// The records that must be durable for a flush, in addition to its pages: those made before it, and since.
/// A page that was forgotten meanwhile is not flushed; its record is.
pub(crate) fn records_due(partition: &Partition<'_>, made_before: u64) -> u64 {
    let made = partition.log().map_or(0, |log| log.records_made());
    made.max(made_before)
}

impl StagedPages {
    pub(crate) fn new(front: &Arc<Front>, causes: &Arc<Causes>) -> Self {
        Self { front: front.clone(), causes: causes.clone() }
    }

    /// Waits until everything staged so far is on flash. Returns the rear at the time of the call.
    /// With log placement records of forgotten pages are durable, too.
    pub(crate) fn drain(&self) -> Result<Position, TierError> {
        self.causes.settle_dead()?;
        let close = |partition: &mut Partition<'_>| {
            if partition.log().is_some_and(|log| log.records_waiting() > 0) {
                // A group takes them, if there is none.
                partition.flush();
            }
            partition.close_group();
        };
        let (rear, made_before) = self.front.with(|partition| {
            close(partition);
            (Position(partition.occupancy().entered), partition.log().map_or(0, |log| log.records_made()))
        })?;
        self.front.writes.notify_one();
        let mut records = None;
        loop {
            let seen = self.front.progress.epoch();
            if !self.front.check_running()? {
                return Ok(rear);
            }
            let may_record = self.causes.settle_oldest_record()?;
            // The background tasks, which do this otherwise, may be waiting for room themselves.
            self.causes.settle_dead_if_possible()?;
            let is_over = self.front.with(|partition| {
                let is_written = partition.published() >= rear;
                if is_written {
                    records.get_or_insert_with(|| records_due(partition, made_before));
                }
                let durable = partition.log().map_or(0, |log| log.records_durable());
                let is_recorded = durable >= records.unwrap_or(made_before);
                if !is_recorded && may_record {
                    close(partition);
                }
                is_recorded && is_written
            })?;
            if is_over {
                return Ok(rear);
            }
            self.front.writes.notify_one();
            self.front.background.notify_one();
            self.front.await_progress(seen)?;
        }
    }
}

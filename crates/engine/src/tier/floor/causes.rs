//! What makes forgotten pages dead: writes to disk that are under way while the pages are forgotten already.
//! Each has a number (`after` in [`entresol_core::Partition::forget`]).
//!
//! Invariant: a number is durable only when it and all before it have ended, and the disk was synced since.
//! So no record of a forgotten page is written, and no slot released, before the page's newer version is on
//! disk for good.

use crate::TierError;
use crate::disk::DiskPages;
use crate::front::Front;
use std::sync::Arc;

/// See the module's header. The numbers are on the front's board.
pub(crate) struct Causes {
    front: Arc<Front>,
    disk: Arc<DiskPages>,
}

impl Causes {
    pub(crate) fn new(front: &Arc<Front>, disk: &Arc<DiskPages>) -> Self {
        Self { front: front.clone(), disk: disk.clone() }
    }

    /// Makes durable what made forgotten dirty pages dead, as far as it has ended, so that slots can be
    /// released and records be written. Those who wait for that are told.
    pub(crate) fn settle_dead(&self) -> Result<(), TierError> {
        let Some(after) = self.front.with(|partition| partition.log()?.awaits_dead())? else { return Ok(()) };
        self.settle(after)?;
        let durable = self.front.board.causes.durable();
        self.front.with(|partition| {
            // The pages of a cache that has failed meanwhile are looked for where they are.
            if self.front.state.is_running()
                && let Some(log) = partition.log_mut()
            {
                log.dead_is_durable(durable);
            }
        })?;
        self.front.job_is_done();
        Ok(())
    }

    /// Makes durable what the oldest record that waits needs, as far as it has ended: of clean pages that
    /// were forgotten, too, which keep no slot from being released. False: it has not ended, and that will be
    /// told (`job_is_done`).
    pub(crate) fn settle_oldest_record(&self) -> Result<bool, TierError> {
        let Some(after) = self.front.with(|partition| partition.log()?.oldest_record_awaits())? else {
            return Ok(true);
        };
        self.settle(after)?;
        Ok(after <= self.front.board.causes.durable())
    }

    /// Makes numbers up to `after` durable, as far as they have ended.
    pub(crate) fn settle(&self, after: u64) -> Result<(), TierError> {
        let causes = &self.front.board.causes;
        let ended = causes.ended();
        if causes.durable() < after.min(ended) {
            self.disk.sync()?;
            causes.are_durable(ended);
        }
        Ok(())
    }

    /// Calls [`Causes::settle_dead`] if slots wait for it. Else, if there is no room for another record of a
    /// forgotten page, makes durable what the oldest one needs. Whether there was something to do.
    pub(crate) fn settle_dead_if_possible(&self) -> Result<bool, TierError> {
        let (awaited, of_full) = self.front.with(|partition| {
            let Some(log) = partition.log() else { return (None, None) };
            let of_oldest = log.oldest_record_awaits().filter(|_| log.records_are_full());
            (log.awaits_dead(), of_oldest)
        })?;
        let can_be_settled = self.front.board.causes.can_be_settled();
        let durable = self.front.board.causes.durable();
        if awaited.is_some_and(|after| after <= durable || can_be_settled) {
            self.settle_dead()?;
            return Ok(true);
        }
        let is_stuck = |after: &u64| *after > durable && can_be_settled;
        let Some(after) = of_full.filter(is_stuck) else { return Ok(false) };
        self.settle(after)?;
        self.front.job_is_done();
        Ok(true)
    }
}

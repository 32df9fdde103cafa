//! A flush: everything that was handed down before it is durable when it returns, without a database's log.
//!
//! Log placement: the pages of the open group are written as a part of it, with a summary of the group so
//! far, and one sync of flash makes both durable. The group stays open, so a flush costs no slots. Flushes at
//! the same time share writes and syncs. Pages that callers wrote to disk are synced there. Slot placement
//! has no directory that survives, so its dirty pages go to disk, as at a checkpoint.

use super::FlashTier;
use super::back::Back;
use crate::{Flushed, TierError};
use entresol_core::{Mode, Partition, mutant};
use std::sync::atomic::Ordering::SeqCst;

/// The records that must be durable for a flush, in addition to its pages: those made before it, and since.
/// A page that was forgotten meanwhile is not flushed; its record is.
pub(super) fn records_due(partition: &Partition<'_>, made_before: u64) -> u64 {
    let made = partition.records_made();
    let forgotten_since = made > made_before && !mutant!("flush-leaves-forgotten-pages");
    if forgotten_since { made } else { made_before }
}

impl FlashTier {
    /// How far the flash is flushed now: for the next program, if this one is killed
    /// ([`TierOptions::flushed`](crate::TierOptions)). `None`: nothing on flash outlives it.
    pub fn flushed(&self) -> Option<Flushed> {
        let back = &self.back;
        let is_running = back.is_log() && back.front.state.is_running();
        let below = back.front.with(|partition| partition.flushed()).ok().filter(|_| is_running)?;
        Some(Flushed { cache: back.superblocks.cache, epoch: back.superblocks.epoch, below })
    }
}

impl Back {
    pub(crate) fn flush(&self) -> Result<(), TierError> {
        if !self.front.check_running()? {
            return self.disk.sync();
        }
        if self.is_log() && self.flash.layout.summary_copies() == 1 {
            // With one summary, a flush could tear the one before it.
            self.drain()?;
            // The flash may have failed meanwhile.
            if !self.front.check_running()? {
                return self.disk.sync();
            }
            self.flush_objects()?;
            return self.sync_callers_writes();
        }
        if !self.is_log() {
            let dirty_possible = self.front.options.mode == Mode::WriteBack;
            return if dirty_possible { self.checkpoint() } else { self.sync_callers_writes() };
        }
        self.sync_callers_writes()?;
        self.flush_flash()?;
        self.flush_objects()
    }

    /// All that was defined, retired and cut is durable.
    fn flush_objects(&self) -> Result<(), TierError> {
        if mutant!("flush-leaves-objects") {
            return Ok(());
        }
        match self.make_objects_durable() {
            Ok(()) => Ok(()),
            Err(error) => {
                self.fail(error);
                // If nothing is lost by it, the disk alone serves.
                self.front.check_running()?;
                self.disk.sync()
            }
        }
    }

    /// Log placement: everything that was handed down before is durable on flash, and all records of
    /// forgotten pages that need not wait.
    pub(super) fn flush_flash(&self) -> Result<(), TierError> {
        let (rear, made_before) = self.front.with(|partition| {
            let (_, rear) = partition.window();
            (rear, partition.records_made())
        })?;
        let mut records = None;
        loop {
            let seen = self.front.progress.epoch();
            if !self.front.check_running()? {
                return self.disk.sync();
            }
            let may_record = self.settle_oldest_record()?;
            // The background tasks, which do this otherwise, may be waiting for room themselves.
            self.settle_dead_if_possible()?;
            let over = self.front.with(|partition| {
                let is_durable = partition.flushed() >= rear || mutant!("flush-returns-at-once");
                if is_durable {
                    let due = *records.get_or_insert_with(|| records_due(partition, made_before));
                    if partition.records_durable() >= due {
                        return true;
                    }
                }
                if may_record || !is_durable {
                    self.make_room_for_records(partition);
                    partition.flush();
                }
                false
            })?;
            if over {
                return Ok(());
            }
            self.front.writes.notify_one();
            self.front.background.notify_one();
            self.front.await_progress(seen)?;
        }
    }

    /// If the summary of the open group has no room for more records, the group is closed.
    fn make_room_for_records(&self, partition: &mut Partition<'_>) {
        let (_, rear) = partition.window();
        let is_full =
            |log: &super::placed::LogParts| log.full_summary.load(SeqCst) == self.front.group_number(rear);
        if partition.records_waiting() > 0 && self.log().is_some_and(is_full) {
            partition.close_group();
        }
    }

    /// Syncs what callers have written to disk, if it is not durable there; and what made forgotten pages
    /// dead.
    pub(super) fn sync_callers_writes(&self) -> Result<(), TierError> {
        if self.front.board.disk_synced.load(SeqCst) < self.front.board.disk_owed.load(SeqCst) {
            self.sync_disk_if_written()?;
        }
        self.settle_dead()
    }
}

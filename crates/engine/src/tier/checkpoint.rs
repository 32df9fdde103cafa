//! Checkpoints, and the end of a tier.
//!
//! - Log placement (FaCE §2.3, §4.1): staging is drained. Every group's write leaves its summary durable, so
//!   the directory is durable with it; then a superblock is written. Dirty pages stay on flash.
//! - Slot placement: staging is drained, all dirty pages are copied to disk, and the disk is synced. TAC also
//!   writes its temperatures; LOC and GLB write their directory when they are closed.

use super::back::Back;
use super::flush::records_due;
use crate::buffer::AlignedBuffer;
use crate::{TierError, points};
use entresol_core::{Partition, Position, mutant};
use entresol_runtime::now;
use entresol_shm::Gone;
use std::sync::atomic::Ordering::SeqCst;

/// Pages that one checkpoint of slot placement copies at a time.
const SWEEP_PAGES: usize = 32;

impl Back {
    /// From now on no dirty page moves up, until the checkpoint is over.
    pub(crate) fn checkpoint_begins(&self) -> Result<(), Gone> {
        // Under the latch: every take of a page is either before or after.
        self.front.with(|_| self.front.board.checkpoints.store(1, SeqCst))
    }

    pub(crate) fn checkpoint(&self) -> Result<(), TierError> {
        self.checkpoint_begins()?;
        let begin = now();
        let result = self.make_checkpoint();
        if result.is_ok() {
            self.front.tallies().checkpoints_took.ends(begin);
            self.front.board.checkpoints.store(0, SeqCst);
        }
        result
    }

    /// A failure of it is one of the tier: a failed sync may have lost writes of other tasks, and a page
    /// that cannot be copied stays where it is.
    fn make_checkpoint(&self) -> Result<(), TierError> {
        if self.front.check_running()? {
            let rear = match mutant!("checkpoint-leaves-staging") {
                true => Position(0),
                // It may have met a disk that cannot be synced.
                false => self.drain().inspect_err(|error| self.fail(error.clone()))?,
            };
            // The flash may have failed meanwhile.
            if !self.front.check_running()? {
                return self.disk.sync();
            }
            match self.make_durable(rear) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    points::CHECKPOINT_FAILED.reach();
                    self.fail(error);
                }
            }
            self.front.check_running()?;
        }
        self.disk.sync()
    }

    /// Everything before `rear` is on flash: makes that last.
    fn make_durable(&self, rear: Position) -> Result<(), TierError> {
        if self.is_log() {
            self.make_objects_durable()?;
            // Before the owner's marks change, and before what is on disk counts as durable there.
            self.renew_label(false)?;
            if !self.front.options.disk_may_lack() {
                self.sync_callers_writes()?;
                self.write_superblock(|_| ())?;
                return self.double_marks();
            }
            let sure = match self.front.board.marks() {
                // Writes to disk are the owner's, and durable when its checkpoint is complete.
                Some(marks) if self.served.is_some() => self.superblocks.complete_below(marks, rear),
                _ => self.sure_below(rear),
            };
            self.disk.sync()?;
            self.write_superblock(|superblock| {
                superblock.unsure_from = superblock.unsure_from.max(sure);
            })?;
            return self.double_marks();
        }
        let mut scratch = AlignedBuffer::new(SWEEP_PAGES * self.front.page_bytes());
        self.sweep_all(&mut scratch)?;
        self.disk.sync()?;
        self.write_temperatures()
    }

    /// The owner's marks are durable from now on.
    pub(crate) fn mark(&self, marks: [u64; 2]) -> Result<(), TierError> {
        self.front.board.set_marks(marks);
        self.write_superblock(|_| ())?;
        self.double_marks()
    }

    /// New marks of the owner are on two copies, so that one may be lost.
    fn double_marks(&self) -> Result<(), TierError> {
        match self.front.board.marks() {
            Some(marks) if self.superblocks.with_marks(marks) < 2 => self.write_superblock(|_| ()),
            _ => Ok(()),
        }
    }

    /// Waits until everything staged so far is on flash. Returns the rear at the time of the call.
    /// With log placement records of forgotten pages are durable, too.
    pub(crate) fn drain(&self) -> Result<Position, TierError> {
        self.settle_dead()?;
        let close = |partition: &mut Partition<'_>| {
            if partition.records_waiting() > 0 {
                // A group takes them, if there is none.
                partition.flush();
            }
            partition.close_group();
        };
        let (rear, made_before) = self.front.with(|partition| {
            close(partition);
            (Position(partition.occupancy().entered), partition.records_made())
        })?;
        self.front.writes.notify_one();
        let mut records = None;
        loop {
            let seen = self.front.progress.epoch();
            if !self.front.check_running()? {
                return Ok(rear);
            }
            let may_record = self.settle_oldest_record()?;
            // The background tasks, which do this otherwise, may be waiting for room themselves.
            self.settle_dead_if_possible()?;
            let is_over = self.front.with(|partition| {
                let is_written = partition.published() >= rear;
                if is_written {
                    records.get_or_insert_with(|| records_due(partition, made_before));
                }
                let is_recorded = partition.records_durable() >= records.unwrap_or(made_before);
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

    /// The last checkpoint: afterwards the next open is warm.
    pub(crate) fn finish(&self) -> Result<(), TierError> {
        if self.front.state.is_closed() {
            return Ok(());
        }
        if !self.front.check_running()? {
            return self.disk.sync();
        }
        self.checkpoint()?;
        // The flash may have failed meanwhile, or fail now: then the disk serves, and is all that is closed.
        let closed = match self.front.check_running()? {
            true => self.close_flash(),
            false => return self.disk.sync(),
        };
        let Err(error) = closed else { return Ok(()) };
        self.fail(error.clone());
        match self.front.check_running() {
            Ok(false) => self.disk.sync(),
            _ => Err(error),
        }
    }

    /// The next open finds that everything is on flash.
    fn close_flash(&self) -> Result<(), TierError> {
        let directory = self.materialise_directory()?;
        let entered = self.front.with(|partition| partition.occupancy().entered)?;
        let rear = Position(entered.next_multiple_of(self.front.config.group_pages.into()));
        self.write_superblock(|superblock| {
            superblock.clean = true;
            superblock.directory = directory;
            if directory {
                (superblock.front, superblock.durable, superblock.rear) = (rear, rear, rear);
            }
        })
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.front.state.stop();
        if let Some(served) = &self.served {
            served.ends.store(true, SeqCst);
        }
        if let Some(degradable) = &self.degradable {
            degradable.wake(true);
        }
        self.wake_all();
    }
}

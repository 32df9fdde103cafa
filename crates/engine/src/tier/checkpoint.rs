//! Checkpoints, and the end of a tier.
//!
//! - Log placement (FaCE §2.3, §4.1): staging is drained. Every group's write leaves its summary durable, so
//!   the directory is durable with it; then a superblock is written. Dirty pages stay on flash.
//! - Slot placement: staging is drained, all dirty pages are copied to disk, and the disk is synced. TAC also
//!   writes its temperatures; LOC and GLB write their directory when they are closed.

use super::shared::Shared;
use crate::buffer::AlignedBuffer;
use crate::{TierError, points};
use entresol_core::{Mode, Position, mutant};
use std::sync::atomic::Ordering::SeqCst;

/// Pages that one checkpoint of slot placement copies at a time.
const SWEEP_PAGES: usize = 32;

impl Shared {
    /// From now on no dirty page moves up, until the checkpoint is over.
    pub(crate) fn checkpoint_begins(&self) {
        // Under the latch: every take of a page is either before or after.
        self.with(|_| self.checkpoints.store(1, SeqCst));
    }

    pub(crate) fn checkpoint(&self) -> Result<(), TierError> {
        self.checkpoint_begins();
        let result = self.make_checkpoint();
        if result.is_ok() {
            self.checkpoints.store(0, SeqCst);
        }
        result
    }

    /// A failure of it is one of the tier: a failed sync may have lost writes of other tasks, and a page
    /// that cannot be copied stays where it is.
    fn make_checkpoint(&self) -> Result<(), TierError> {
        if self.check_running()? {
            let rear = if mutant!("checkpoint-leaves-staging") { Position(0) } else { self.drain()? };
            match self.make_durable(rear) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    points::CHECKPOINT_FAILED.reach();
                    self.fail(error);
                }
            }
            self.check_running()?;
        }
        self.disk.sync()
    }

    /// Everything before `rear` is on flash: makes that last.
    fn make_durable(&self, rear: Position) -> Result<(), TierError> {
        if self.is_log() {
            if self.options.mode == Mode::WriteThrough {
                self.disk.sync()?;
            }
            return self.write_superblock(|superblock| {
                if self.options.mode == Mode::WriteThrough {
                    superblock.unsure_from = superblock.unsure_from.max(rear);
                }
            });
        }
        let mut scratch = AlignedBuffer::new(SWEEP_PAGES * self.page_bytes());
        self.sweep_all(&mut scratch)?;
        self.disk.sync()?;
        self.write_temperatures()
    }

    /// Waits until everything staged so far is on flash. Returns the rear at the time of the call.
    pub(crate) fn drain(&self) -> Result<Position, TierError> {
        let rear = self.with(|partition| {
            partition.close_group();
            let occupancy = partition.occupancy();
            Position(occupancy.entered)
        });
        self.writes.notify_one();
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? {
                return Ok(rear);
            }
            let published = self.with(|partition| partition.published());
            if published >= rear {
                return Ok(rear);
            }
            self.writes.notify_one();
            self.background.notify_one();
            self.progress.wait(seen);
        }
    }

    /// The last checkpoint: afterwards the next open is warm.
    pub(crate) fn finish(&self) -> Result<(), TierError> {
        if self.state.is_closed() {
            return Ok(());
        }
        if !self.check_running()? {
            return self.disk.sync();
        }
        self.checkpoint()?;
        let directory = self.materialise_directory()?;
        let entered = self.with(|partition| partition.occupancy().entered);
        let rear = Position(entered.next_multiple_of(self.config.group_pages.into()));
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
        self.state.stop();
        self.wake_all();
    }
}

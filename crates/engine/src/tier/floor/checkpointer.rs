//! Checkpoints: staging is drained, and what is on flash is made to last. How, the placement says
//! ([`MakeDurable`]).

use super::failures::Failures;
use super::staged::StagedPages;
use crate::access::{Access, BoardRef, Directory, Signals};
use crate::disk::DiskPages;
use crate::{TierError, points};
use entresol_core::Position;
use entresol_runtime::now;
use entresol_shm::Gone;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// What a placement does for a checkpoint.
pub(crate) trait MakeDurable: Send + Sync {
    /// Everything before `rear` is on flash: makes that last.
    fn make_durable(&self, rear: Position) -> Result<(), TierError>;
}

/// See the module's header.
pub(crate) struct Checkpointer {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    board: BoardRef,
    disk: Arc<DiskPages>,
    staged: Arc<StagedPages>,
    failures: Arc<Failures>,
    placement: Box<dyn MakeDurable>,
}

impl Checkpointer {
    pub(crate) fn new(
        access: &Arc<Access>,
        disk: &Arc<DiskPages>,
        staged: &Arc<StagedPages>,
        failures: &Arc<Failures>,
        placement: Box<dyn MakeDurable>,
    ) -> Self {
        Self {
            directory: access.directory.clone(),
            signals: access.signals.clone(),
            board: access.board.clone(),
            disk: disk.clone(),
            staged: staged.clone(),
            failures: failures.clone(),
            placement,
        }
    }

    /// From now on no dirty page moves up, until the checkpoint is over.
    pub(crate) fn begins(&self) -> Result<(), Gone> {
        // Under the latch: every take of a page is either before or after.
        self.directory.with(|_| self.board.checkpoints.store(1, SeqCst))
    }

    /// Makes a checkpoint.
    pub(crate) fn checkpoint(&self) -> Result<(), TierError> {
        self.begins()?;
        let begin = now();
        let result = self.make_checkpoint();
        if result.is_ok() {
            self.board.tallies.checkpoints_took.ends(begin);
            self.board.checkpoints.store(0, SeqCst);
        }
        result
    }

    /// Waits until what was evicted is on flash, or on disk. A failure of it is one of the tier.
    pub(crate) fn drain(&self) -> Result<(), TierError> {
        self.staged.drain().map(drop).inspect_err(|error| self.failures.fail(error.clone()))
    }

    /// A failure of it is one of the tier: a failed sync may have lost writes of other tasks, and a page
    /// that cannot be copied stays where it is.
    fn make_checkpoint(&self) -> Result<(), TierError> {
        if self.signals.check_running()? {
            // It may have met a disk that cannot be synced.
            let rear = self.staged.drain().inspect_err(|error| self.failures.fail(error.clone()))?;
            // The flash may have failed meanwhile.
            if !self.signals.check_running()? {
                return self.disk.sync();
            }
            match self.placement.make_durable(rear) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    points::CHECKPOINT_FAILED.reach();
                    self.failures.fail(error);
                }
            }
            self.signals.check_running()?;
        }
        self.disk.sync()
    }
}

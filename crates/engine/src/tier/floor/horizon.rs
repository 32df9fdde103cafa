//! How much of its owner's log replaces the flash, if that is lost: see [`entresol_core::BASES_MAX`]'s
//! module. The owner counts its checkpoints, and keeps its log from the *horizon* on.
//!
//! Invariant: a horizon is told only when a superblock names it, or a later one. So an open after a crash
//! takes no page with a base for dirty if the disk had it when the log was cut (`recover/directory.rs`).

use super::Floor;
use super::failures::Failures;
use super::superblocks::Superblocks;
use super::wanted::WantedPages;
use crate::TierError;
use crate::access::{Directory, Signals};
use crate::api::Progress;
use crate::points;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How often old pages are copied for a horizon: newer versions of them may have entered meanwhile.
const ROUNDS: usize = 8;

/// See the module's header.
pub(crate) struct Horizon {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    superblocks: Arc<Superblocks>,
    wanted: Arc<WantedPages>,
    failures: Arc<Failures>,
    /// What was found on flash has bases.
    are_known: bool,
}

impl Horizon {
    /// `None`: the cache keeps no bases. `are_known`: what was found on flash has them.
    pub(crate) fn new(floor: &Floor, wanted: &Arc<WantedPages>, are_known: bool) -> Option<Self> {
        floor.access.directory.config.keeps_bases.then(|| Self {
            directory: floor.access.directory.clone(),
            signals: floor.access.signals.clone(),
            superblocks: floor.superblocks.clone(),
            wanted: wanted.clone(),
            failures: floor.failures.clone(),
            are_known,
        })
    }

    /// See [`crate::Layer::resume_checkpoints`].
    pub(crate) fn resume(&self, number: u64) -> Result<(), TierError> {
        let goes_on = self.directory.in_log(|log| {
            let goes_on = self.are_known && log.checkpoint_complete(number);
            if !goes_on {
                log.restore_without_bases(number);
            }
            goes_on
        })?;
        if goes_on {
            points::BASES_KNOWN.reach()
        } else {
            points::BASES_UNKNOWN.reach()
        }
        Ok(())
    }

    /// The oldest base of a dirty page.
    pub(crate) fn now(&self) -> Result<u64, TierError> {
        Ok(self.directory.in_log(|log| log.horizon())?)
    }

    /// Dirty pages with a base before `number`.
    pub(crate) fn behind(&self, number: u64) -> Result<u64, TierError> {
        Ok(self.directory.in_log(|log| log.behind(number))?.into())
    }

    /// See [`crate::Layer::bring_to_disk_before`].
    pub(crate) fn bring_to(
        &self,
        number: u64,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64, TierError> {
        let mut is_over = false;
        for _ in 0..ROUNDS {
            if !self.signals.check_running()? {
                // The disk has everything.
                return Ok(u64::MAX);
            }
            if is_over || self.now()? >= number {
                break;
            }
            points::HORIZON_BROUGHT.reach();
            self.wanted.destage_behind(number, &mut |progress| {
                let goes_on = watch(progress);
                is_over |= goes_on.is_break();
                goes_on
            })?;
        }
        let horizon = self.now()?;
        match self.superblocks.write(|_| ()) {
            Ok(()) => Ok(horizon),
            Err(error) => {
                self.failures.fail(error);
                // If nothing is lost by it, the disk alone serves.
                self.signals.check_running()?;
                Ok(u64::MAX)
            }
        }
    }

    /// See [`crate::Layer::checkpoint_complete`].
    pub(crate) fn complete(&self, number: u64) -> Result<(), TierError> {
        // If a page is too old, pages that are handed down from now on count as older than they are.
        let _ = self.directory.in_log(|log| log.checkpoint_complete(number))?;
        Ok(())
    }
}

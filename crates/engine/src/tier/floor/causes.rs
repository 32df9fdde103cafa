//! What makes forgotten pages dead: writes to disk that are under way while the pages are forgotten already.
//! [`Settle`] says when the disk is to be synced for their sake, and what is durable then.
//!
//! Invariant: no record of a forgotten page is written, and no slot released, before the page's newer version
//! is on disk for good.

use crate::TierError;
use crate::access::{Access, Directory, RunState, Signals};
use crate::disk::DiskPages;
use entresol_core::Settle;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Causes {
    directory: Arc<Directory>,
    state: Arc<RunState>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
}

impl Causes {
    pub(crate) fn new(access: &Arc<Access>, disk: &Arc<DiskPages>) -> Self {
        Self {
            directory: access.directory.clone(),
            state: access.state.clone(),
            signals: access.signals.clone(),
            disk: disk.clone(),
        }
    }

    /// Makes durable what made forgotten dirty pages dead, as far as it has ended, so that slots can be
    /// released and records be written.
    pub(crate) fn settle_dead(&self) -> Result<(), TierError> {
        let due = self.directory.with(|partition| partition.log()?.settle_for_slots())?;
        due.map_or(Ok(()), |due| self.settle(&due))
    }

    /// Makes durable what the oldest record that waits needs, as far as it has ended: of clean pages that
    /// were forgotten, too, which keep no slot from being released. False: it has not ended, and that will be
    /// told (`job_is_done`).
    pub(crate) fn settle_oldest_record(&self) -> Result<bool, TierError> {
        let Some(due) = self.directory.with(|partition| partition.log()?.settle_for_records())? else {
            return Ok(true);
        };
        if due.needs_sync() {
            self.settle(&due)?;
        }
        Ok(due.suffices())
    }

    /// Settles what background tasks have to, if anything. Whether there was something to do.
    pub(crate) fn settle_dead_if_possible(&self) -> Result<bool, TierError> {
        let Some(due) = self.directory.with(|partition| partition.log()?.settle_due())? else {
            return Ok(false);
        };
        self.settle(&due)?;
        Ok(true)
    }

    /// Whether what `due` is for is durable, of a cache that has failed. It releases no slot.
    pub(crate) fn is_settled(&self, due: &Settle) -> Result<bool, TierError> {
        if due.suffices() && due.needs_sync() {
            self.disk.sync()?;
        }
        Ok(due.suffices())
    }

    /// The tasks that wait for it are told.
    fn settle(&self, due: &Settle) -> Result<(), TierError> {
        if due.needs_sync() {
            self.disk.sync()?;
        }
        self.directory.with(|partition| {
            let releases = self.state.is_running();
            if let Some(log) = partition.log_mut() {
                log.settled(due, releases);
            }
        })?;
        self.signals.job_is_done();
        Ok(())
    }
}

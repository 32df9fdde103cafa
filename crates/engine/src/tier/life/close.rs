//! The end of a tier.

use crate::TierError;
use crate::access::{Directory, RunState, Signals};
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::superblocks::Superblocks;
use crate::tier::room::Room;
use entresol_core::{Lsn, Position};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Closer {
    directory: Arc<Directory>,
    state: Arc<RunState>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    failures: Arc<Failures>,
    room: Room,
}

impl Closer {
    pub(crate) fn new(floor: &Floor, room: &Room) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            state: floor.access.state.clone(),
            signals: floor.access.signals.clone(),
            disk: floor.disk.clone(),
            superblocks: floor.superblocks.clone(),
            failures: floor.failures.clone(),
            room: room.clone(),
        }
    }

    /// The last checkpoint: afterwards the next open is warm.
    pub(crate) fn finish(&self) -> Result<(), TierError> {
        if self.state.is_closed() {
            return Ok(());
        }
        if !self.signals.check_running()? {
            return self.disk.sync();
        }
        self.room.checkpointer().checkpoint()?;
        // The flash may have failed meanwhile, or fail now: then the disk serves, and is all that is closed.
        let closed = match self.signals.check_running()? {
            true => self.close_flash(false, None),
            false => return self.disk.sync(),
        };
        let Err(error) = closed else { return Ok(()) };
        self.failures.fail(error.clone());
        match self.signals.check_running() {
            Ok(false) => self.disk.sync(),
            _ => Err(error),
        }
    }

    /// No page is dirty, everything is on flash, and the tasks have ended. The label says first that the disk
    /// has everything, then the flash that it is not needed: any other disk may take it from then on.
    pub(crate) fn finish_clean(&self) -> Result<(), TierError> {
        let dirty = self.directory.with(|partition| partition.unsaved().pages)?;
        if dirty > 0 || self.disk.missing.has_lost() {
            return Err(TierError::Refused(format!(
                "{dirty} pages are newer than disk while the cache is closed; stop the database first"
            )));
        }
        self.disk.sync()?;
        self.disk.label.change(|label| label.dirty_possible = false)?;
        self.close_flash(true, None)
    }

    /// Everything that was evicted is on flash, or was written to disk. Dirty pages stay on flash.
    pub(crate) fn drain(&self) -> Result<(), TierError> {
        match self.signals.check_running()? {
            true => self.room.checkpointer().drain(),
            false => Ok(()),
        }
    }

    /// The tasks have ended: the next open finds the pages on flash, dirty ones, too. If the flash has failed
    /// meanwhile, the owner's log has what is missing on disk.
    pub(crate) fn materialise(&self, end: Lsn) -> Result<(), TierError> {
        if let Some(error) = self.state.failure() {
            return Err(error);
        }
        if self.state.notice().is_some() {
            return self.disk.sync();
        }
        let Err(error) = self.close_flash(false, Some(end)) else { return Ok(()) };
        self.failures.fail(error.clone());
        if self.state.notice().is_some() { self.disk.sync() } else { Err(error) }
    }

    /// The next open finds that everything is on flash. `released`: the disk does not need it. `end`: dirty
    /// pages stay, and everything that the owner has logged before it is in the cache.
    fn close_flash(&self, released: bool, end: Option<Lsn>) -> Result<(), TierError> {
        if let Some(segments) = self.room.slot_segments() {
            segments.settle()?;
        }
        let written = self.room.write_directory()?;
        let directory = written.is_some();
        let end = end.filter(|_| written == Some(true));
        if directory {
            // Its entries that are not dirty are on disk.
            self.disk.sync()?;
        }
        let entered = self.directory.with(|partition| partition.occupancy().entered)?;
        let rear = Position(entered.next_multiple_of(self.directory.config.group_pages.into()));
        self.superblocks.write(|superblock| {
            superblock.clean = true;
            superblock.released = released;
            superblock.directory = directory;
            if directory {
                superblock.marks = [end.map_or(0, |end| end.0), 0];
                (superblock.front, superblock.durable, superblock.rear) = (rear, rear, rear);
            }
        })
    }
}

//!A disk that has grown while it is in use. The fingerprint's sectors depend on the size, so it is made anew.
//!Invariant: no write is under way meanwhile. So no sector of the new fingerprint is written between the read
//!of it and the record of what it has.

use super::print::read_sums;
use super::{InPlaceDisk, sectors};
use crate::error::disk_error;
use crate::{TierError, points};
use entresol_format::fingerprint::Sums;
use std::sync::atomic::Ordering::SeqCst;

impl InPlaceDisk {
    /// Looks at the size of the disk anew. Returns the sizes of before and now, in bytes, if it has grown.
    /// Writes wait meanwhile.
    ///
    /// # Errors
    /// [`TierError::Refused`] if the disk has shrunk, [`TierError::Device`] if disk or file fails: the file
    /// may have the new fingerprint then, and is written again before the next write to the disk.
    pub fn grow(&self) -> Result<Option<(u64, u64)>, TierError> {
        let mut places = self.sectors.write();
        self.begun_writes.await_none();
        let mut state = self.state.lock();
        let before = state.print.capacity;
        let capacity = self.disk.resize(None).map_err(disk_error)?;
        if capacity < before {
            return Err(TierError::Refused(format!(
                "the disk has shrunk from {before} to {capacity} bytes; restore its size"
            )));
        }
        if capacity == before {
            return Ok(None);
        }
        points::IN_PLACE_GROWS.reach();
        // A power failure after this leaves the contents that are read now.
        self.syncs.sync(|| self.disk.sync()).map_err(disk_error)?;
        state.durable = state.writes;
        let new = sectors(capacity, state.print.seed);
        let found = read_sums(&*self.disk, &new).map_err(disk_error)?;
        state.print.capacity = capacity;
        state.unknown = found.iter().map(Option::is_none).collect();
        state.print.sums = found.into_iter().map(Sums::of).collect();
        *places = new.into();
        // Until the file has it, each write to the disk tries that first.
        state.is_behind = true;
        self.is_unwritten.store(true, SeqCst);
        state.write(&*self.file).map_err(disk_error)?;
        self.is_unwritten.store(false, SeqCst);
        Ok(Some((before, capacity)))
    }
}

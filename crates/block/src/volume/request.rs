//! What the requests of a client do to a volume.

use super::{Volume, VolumeError};
use entresol_core::mutant;
use entresol_nbd::Command;

impl Volume {
    /// Carries out a request. `data`: of a write, its data; of a read, room for it; else anything.
    ///
    /// # Errors
    /// [`VolumeError`]. Nothing else has happened to the volume than the request could have done.
    pub fn carry_out(&self, command: Command, data: &mut [u8]) -> Result<(), VolumeError> {
        match command {
            Command::Read { offset, .. } => self.read(offset, data),
            Command::Write { offset, fua, .. } => self.write(offset, data, fua),
            Command::Flush if mutant!("flush-not-carried-out") => Ok(()),
            Command::Flush => self.flush(),
            Command::Trim { offset, length, fua } => {
                self.trim(offset, length.into())?;
                if fua { self.flush() } else { Ok(()) }
            }
            Command::WriteZeroes { offset, length, fua, .. } => self.write_zeroes(offset, length.into(), fua),
            Command::Cache { offset, length } => self.prefetch(offset, length.into()),
            Command::BlockStatus { .. } => Ok(()),
        }
    }
}

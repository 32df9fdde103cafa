//! The requests of a client, carried out on a volume.

use super::{Volume, VolumeError};
use crate::steer::Streams;
use entresol_nbd::Command;
use entresol_runtime::{Time, now};

impl Volume {
    /// A request arrives over the connection of `streams`. True: it belongs to a long sequential stream.
    pub fn follow(&self, streams: &mut Streams, command: &Command) -> bool {
        let (writes, offset, length) = match *command {
            Command::Read { offset, length, .. } => (false, offset, length),
            Command::Write { offset, length, .. }
            | Command::WriteZeroes { offset, length, .. }
            | Command::Trim { offset, length, .. } => (true, offset, length),
            _ => return false,
        };
        self.is_long(streams.follow(writes, offset, length.into(), now().since(Time(0))))
    }

    /// Carries out a request; `is_sequential`: of a long stream ([`Volume::follow`]). `data`: of a write, its
    /// data; of a read, room for it; else anything.
    ///
    /// # Errors
    /// [`VolumeError`]. Nothing else has happened to the volume than the request could have done.
    pub fn carry_out(
        &self,
        command: Command,
        is_sequential: bool,
        data: &mut [u8],
    ) -> Result<(), VolumeError> {
        let done = match command {
            Command::Read { offset, .. } => self.read_of_stream(offset, data, is_sequential),
            Command::Write { offset, fua, .. } => self.write_of_stream(offset, data, fua, is_sequential),
            Command::Flush => self.flush(),
            Command::Trim { offset, length, fua } => {
                let trimmed = self.trim(offset, length.into());
                if fua { trimmed.and_then(|()| self.flush()) } else { trimmed }
            }
            Command::WriteZeroes { offset, length, fua, no_hole, .. } => {
                self.write_zeroes(offset, length.into(), !no_hole, fua)
            }
            Command::Cache { offset, length } => self.prefetch(offset, length.into()),
            Command::BlockStatus { .. } => Ok(()),
        };
        self.follow_advice();
        done
    }
}

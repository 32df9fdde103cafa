//! Blocks for all of a file. Where a file has none yet, or has blocks that were never written, a sync after a
//! write makes the file system note them durably, too. Small writes with a sync each then take several
//! times as long.

use super::OpenFile;
use crate::DeviceError;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::ops::Range;

impl OpenFile {
    /// Writes zeros where the file has no written blocks, durably: what is read from it stays the same.
    /// `progress` is told bytes done, and in all. Returns these; 0 for a block device, and where a file
    /// system does not tell of holes.
    ///
    /// # Errors
    /// [`DeviceError`]: some of the zeros may be written.
    pub fn write_holes(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, DeviceError> {
        let failed = |error: std::io::Error| self.error("search for holes", 0, 0, error);
        if !self.file.metadata().map_err(failed)?.is_file() {
            return Ok(0);
        }
        let holes = self.holes().map_err(|error| failed(error.into()))?;
        let total = holes.iter().map(|hole| hole.end - hole.start).sum();
        if total == 0 {
            return Ok(0);
        }
        let mut done = 0;
        for hole in holes {
            self.write_zeros(hole, |bytes| {
                done += bytes;
                progress(done, total);
            })?;
        }
        self.sync()?;
        Ok(total)
    }

    /// Ranges without written blocks, in whole sectors, in ascending order.
    fn holes(&self) -> Result<Vec<Range<u64>>, Errno> {
        let (sector, capacity) = (u64::from(self.geometry().sector_bytes), self.geometry().capacity_bytes);
        let mut holes = Vec::new();
        let mut at = 0;
        while at < capacity {
            // A file ends with a hole, at least of no bytes.
            let start = match seek(&self.file, SeekFrom::Hole(at)) {
                Err(Errno::INVAL) => break, // the file system does not tell
                start => start?.next_multiple_of(sector),
            };
            if start >= capacity {
                break;
            }
            at = match seek(&self.file, SeekFrom::Data(start)) {
                Ok(data) => data,
                // Only the hole is left.
                Err(Errno::NXIO) => capacity,
                Err(error) => return Err(error),
            };
            let end = at.min(capacity) / sector * sector;
            if end > start {
                holes.push(start..end);
            }
            at = at.max(start + sector);
        }
        Ok(holes)
    }
}

//! A regular file or block device, with one blocking system call at a time. Writes of a batch that are
//! adjacent on the device are one system call, and so one request: a disk that serves so many requests a
//! second, or seeks for each, is asked no more often than needed.
//!
//! Invariant: when `run` returns, each request of the batch has been carried out in full, or the error names
//! one that was not.

mod holes;
mod open;
mod options;

pub(crate) use open::OpenFile;
pub use options::FileOptions;

use crate::{Counters, Device, DeviceError, Geometry, Io, QueuedFile};
use std::path::Path;
use std::sync::Arc;

/// Most writes that are one system call.
const ADJACENT_MAX: usize = 256;

/// A device over `pread` and `pwrite`. See [`crate::UringDevice`] for batches at queue depth.
///
/// Opening takes an exclusive lock on the file, unless it is opened to be read only
/// ([`FileOptions::shared`]); then every write fails. A sync is `fdatasync`. After a failed sync the device
/// refuses all further requests, because earlier writes may be lost, unless its user says that it knows
/// ([`FileOptions::outlives_syncs`]). A discard punches a hole if the file
/// system supports it.
#[derive(Debug)]
pub struct FileDevice(Arc<OpenFile>);

impl FileDevice {
    /// Opens `path`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the file cannot be opened, is in use, or its space cannot be reserved.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, DeviceError> {
        Self::open_as(path.as_ref(), path.as_ref(), options)
    }

    /// As [`FileDevice::open`], of a file that errors call `name`: `path` may be another process's descriptor
    /// of it, in `/proc`.
    ///
    /// # Errors
    /// As there.
    pub fn open_as(path: &Path, name: &Path, options: FileOptions) -> Result<Self, DeviceError> {
        OpenFile::open(path, name, options).map(|file| Self(Arc::new(file)))
    }

    /// Writes zeros where a file has no written blocks, durably: what is read from it stays the same, and
    /// later syncs have no blocks to note. `progress` is told bytes done, and in all. Returns these; 0 for a
    /// block device, and where a file system does not tell of holes.
    ///
    /// # Errors
    /// [`DeviceError`]: some of the zeros may be written.
    pub fn write_holes(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, DeviceError> {
        self.0.write_holes(progress)
    }

    /// A message for the owner about the open, if any.
    pub fn notice(&self) -> Option<&str> {
        self.0.notice.as_deref()
    }
}

/// How many writes at the start of the batch are adjacent, at most [`ADJACENT_MAX`].
pub(crate) fn adjacent_writes(batch: &[Io<'_>]) -> usize {
    let mut next = None;
    let is_adjacent = |io: &&Io<'_>| match io {
        Io::Read { .. } => false,
        Io::Write { offset, data } => {
            let is_next = next.is_none_or(|next| next == *offset);
            next = Some(*offset + data.len() as u64);
            is_next
        }
    };
    batch.iter().take(ADJACENT_MAX).take_while(is_adjacent).count()
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let _busy = self.0.begin(batch)?;
        let mut rest = batch;
        while !rest.is_empty() {
            let (some, others) = rest.split_at_mut(adjacent_writes(rest).max(1));
            rest = others;
            match some {
                [Io::Read { offset, buffer }] => self.0.read_at(*offset, buffer)?,
                writes => self.0.write_all_at(writes)?,
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        self.0.zero(offset, length, may_punch)
    }

    fn resize(&self, bytes: Option<u64>) -> Result<u64, DeviceError> {
        self.0.resize(bytes)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn queued(&self) -> Option<QueuedFile> {
        Some(QueuedFile(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_adjacent_only_if_one_begins_where_the_other_ends() {
        let (data, mut buffer) = ([0; 1024], [0; 512]);
        let write = |offset, length| Io::Write { offset, data: &data[..length] };
        let mut counts = Vec::new();
        let read = Io::Read { offset: 4096, buffer: &mut buffer };
        let batch = [
            write(0, 512),
            write(512, 1024),
            write(1536, 512),
            write(4096, 512),
            read,
            write(4608, 512),
            write(512, 512),
        ];
        let mut rest = &batch[..];
        while !rest.is_empty() {
            counts.push(adjacent_writes(rest));
            rest = &rest[adjacent_writes(rest).max(1)..];
        }
        assert_eq!(counts, [3, 1, 0, 1, 1]);
        let many: Vec<Io<'_>> = (0..300).map(|at| write(at * 512, 512)).collect();
        assert_eq!(adjacent_writes(&many), ADJACENT_MAX);
    }
}

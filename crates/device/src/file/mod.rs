//! A regular file or block device, with one blocking system call at a time.
//!
//! Invariant: when `run` returns, each request of the batch has been carried out in full, or the error names
//! one that was not.

mod open;
mod options;

pub(crate) use open::OpenFile;
pub use options::FileOptions;

use crate::{Counters, Device, DeviceError, Geometry, Io};
use std::path::Path;

/// A device over `pread` and `pwrite`. See [`crate::UringDevice`] for batches at queue depth.
///
/// Opening takes an exclusive lock on the file, unless it is opened to be read only
/// ([`FileOptions::shared`]); then every write fails. A sync is `fdatasync`. After a failed sync the device refuses
/// all further requests, because earlier writes may be lost. A discard punches a hole if the file system
/// supports it.
#[derive(Debug)]
pub struct FileDevice(OpenFile);

impl FileDevice {
    /// Opens `path`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the file cannot be opened, is in use, or its space cannot be reserved.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, DeviceError> {
        OpenFile::open(path.as_ref(), options).map(Self)
    }

    /// A message for the owner about the open, if any.
    pub fn notice(&self) -> Option<&str> {
        self.0.notice.as_deref()
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let _busy = self.0.begin(batch)?;
        for io in batch {
            match io {
                Io::Read { offset, buffer } => self.0.read_at(*offset, buffer)?,
                Io::Write { offset, data } => self.0.write_at(*offset, data)?,
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

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

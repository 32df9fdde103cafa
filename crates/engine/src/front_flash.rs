//! The flash device of a front in another process, which reads it, or cannot reach it.

use crate::TierError;
use crate::error::flash_error;
use crate::superblock::read_newest;
use entresol_device::{Counters, Device, DeviceError, FileDevice, FileOptions, Geometry, Io};
use entresol_format::superblock::Superblock;
use std::path::Path;
use std::sync::Arc;

/// A device that cannot be reached: every request fails with the error of the open.
struct DeadDevice {
    name: String,
    reason: String,
}

/// Where a front finds the flash device.
#[derive(Clone, Copy, Debug)]
pub struct FlashPlace<'a> {
    /// Its path, as errors have it.
    pub path: &'a Path,
    /// The back's own descriptor of it, in `/proc`. It is the same device even if the path is gone, or names
    /// another file. If the descriptor cannot be opened, the path is used.
    pub of_back: Option<&'a Path>,
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for FlashPlace<'a> {
    fn from(path: &'a P) -> Self {
        Self { path: path.as_ref(), of_back: None }
    }
}

/// Opens the flash device, to be read only. Returns what is on it, too, unless it cannot be read, and the
/// front `goes_on` without.
pub(crate) fn open(
    flash: FlashPlace<'_>,
    is_direct: bool,
    goes_on: impl Fn(&TierError) -> bool,
) -> Result<(Arc<dyn Device>, Option<Superblock>), TierError> {
    match open_and_read(flash, is_direct) {
        Ok((device, superblock)) => Ok((device, Some(superblock))),
        Err(error) if goes_on(&error) => Ok((Arc::new(DeadDevice::new(flash.path, &error)), None)),
        Err(error) => Err(error),
    }
}

fn open_and_read(
    FlashPlace { path, of_back }: FlashPlace<'_>,
    is_direct: bool,
) -> Result<(Arc<dyn Device>, Superblock), TierError> {
    let file = FileOptions { is_direct_wanted: is_direct, ..FileOptions::shared() };
    let opened = of_back.and_then(|of_back| FileDevice::open_as(of_back, path, file).ok());
    let device: Arc<dyn Device> = match opened {
        Some(device) => Arc::new(device),
        None => Arc::new(FileDevice::open(path, file).map_err(flash_error)?),
    };
    let (newest, faults) = read_newest(&*device)?;
    match newest {
        Some(superblock) => Ok((device, superblock)),
        None => Err(TierError::Refused(format!(
            "{}: no flash cache is there that can be read ({}); give the path of the cache's flash device",
            path.display(),
            if faults.is_empty() { "it is blank".to_owned() } else { faults.join("; ") }
        ))),
    }
}

impl DeadDevice {
    fn new(path: &Path, error: &TierError) -> Self {
        Self { name: path.display().to_string(), reason: error.to_string() }
    }

    fn error(&self) -> DeviceError {
        DeviceError::Dead { device: self.name.clone(), reason: self.reason.clone() }
    }
}

impl Device for DeadDevice {
    fn geometry(&self) -> Geometry {
        Geometry::new(0, 512)
    }
    fn run(&self, _: &mut [Io<'_>]) -> Result<(), DeviceError> {
        Err(self.error())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Err(self.error())
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Err(self.error())
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        Err(self.error())
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

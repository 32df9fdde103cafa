//! A real file or block device: opening it by the best means of the system, and examining its content.

use crate::{Device, DeviceError, FileDevice, FileOptions, UringDevice, signature};
use std::path::Path;
use std::sync::Arc;

/// The size of every device is a multiple of this many bytes.
const SECTOR_BYTES: u64 = 512;

/// An open file or block device.
pub struct OpenDevice {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Messages for the owner about the open, e.g. that there is no direct I/O.
    pub notices: Vec<String>,
}

/// Opens `path` over io_uring, or with plain system calls where the kernel does not permit that.
///
/// # Errors
/// [`DeviceError::Io`] as in [`FileDevice::open`].
pub fn open_device(path: impl AsRef<Path>, options: FileOptions) -> Result<OpenDevice, DeviceError> {
    let path = path.as_ref();
    match UringDevice::open(path, options) {
        Ok(device) => {
            let notices = device.notice().map(str::to_owned).into_iter().collect();
            Ok(OpenDevice { device: Arc::new(device), notices })
        }
        // If the cause is the file, plain system calls fail too. Then their error is the one to show.
        Err(no_uring) => {
            let device = FileDevice::open(path, options)?;
            let notices =
                device.notice().map(str::to_owned).into_iter().chain([no_uring.to_string()]).collect();
            Ok(OpenDevice { device: Arc::new(device), notices })
        }
    }
}

/// The content that would be lost with the file or block device at `place`, as a noun phrase. `None`: it is
/// blank. The file keeps its size.
///
/// # Errors
/// If it cannot be opened or read.
pub fn held(place: &Path) -> Result<Option<String>, DeviceError> {
    let is_file = place.is_file();
    let bytes = place.metadata().map_or(0, |metadata| metadata.len());
    if is_file && bytes == 0 {
        return Ok(None);
    }
    if is_file && !bytes.is_multiple_of(SECTOR_BYTES) {
        return Ok(Some(format!("something of {bytes} bytes that is no device")));
    }
    let device = FileDevice::open(place, FileOptions { is_direct_wanted: false, ..FileOptions::existing() })?;
    Ok(signature(&device)?.value())
}

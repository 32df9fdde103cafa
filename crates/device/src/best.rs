//! Opening a real file or block device by the best means that the system offers.

use crate::{Device, DeviceError, FileDevice, FileOptions, UringDevice};
use std::path::Path;
use std::sync::Arc;

/// An open file or block device.
pub struct OpenDevice {
    /// The device.
    pub device: Arc<dyn Device>,
    /// What its owner should know about how it was opened, e.g. that there is no direct I/O.
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
        // If the file is to blame, plain system calls fail too, and their error is the one to show.
        Err(no_uring) => {
            let device = FileDevice::open(path, options)?;
            let notices =
                device.notice().map(str::to_owned).into_iter().chain([no_uring.to_string()]).collect();
            Ok(OpenDevice { device: Arc::new(device), notices })
        }
    }
}

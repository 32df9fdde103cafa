//! The devices of a volume, and their errors.

use entresol_device::{CountedDevice, Device, ErrorCounts};
use std::path::PathBuf;
use std::sync::Arc;

/// The errors of each device.
#[derive(Default)]
pub(crate) struct Devices {
    pub disk: Arc<ErrorCounts>,
    pub label: Arc<ErrorCounts>,
    pub flash: Arc<ErrorCounts>,
    /// Of a device that is not there.
    pub none: Arc<ErrorCounts>,
}

/// The devices, as their owner names them. Empty: a device without a name, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct DevicePaths {
    pub disk: PathBuf,
    pub label: PathBuf,
    pub flash: PathBuf,
    pub journal: PathBuf,
}

impl Devices {
    /// Disk and label, with their errors counted.
    pub fn counted_disk(
        &self,
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
    ) -> (Arc<dyn Device>, Arc<dyn Device>) {
        (CountedDevice::new(disk, &self.disk), CountedDevice::new(label, &self.label))
    }

    /// Disk, label and flash, with their errors counted.
    pub fn counted(
        &self,
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
    ) -> (Arc<dyn Device>, Arc<dyn Device>, Arc<dyn Device>) {
        let (disk, label) = self.counted_disk(disk, label);
        (disk, label, CountedDevice::new(flash, &self.flash))
    }
}

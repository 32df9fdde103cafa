//! The devices of a volume, and their errors.

use entresol_device::{CountedDevice, Device, ErrorCounts, RedoDevice};
use entresol_engine::RedoLog;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::path::PathBuf;
use std::sync::Arc;

/// The errors of each device.
pub(crate) struct Devices {
    pub disk: Arc<ErrorCounts>,
    pub label: Arc<ErrorCounts>,
    pub flash: Arc<ErrorCounts>,
    /// Of a device that is not there.
    pub none: Arc<ErrorCounts>,
    paths: TinyMutex<DevicePaths>,
}

/// The devices, as their owner names them. Empty: a device without a name, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct DevicePaths {
    pub disk: PathBuf,
    pub label: PathBuf,
    pub flash: PathBuf,
    pub journal: PathBuf,
}

impl Default for Devices {
    fn default() -> Self {
        let [disk, label, flash, none]: [Arc<ErrorCounts>; 4] = Default::default();
        Self { disk, label, flash, none, paths: TinyMutex::new(Rank::DevicePaths, DevicePaths::default()) }
    }
}

impl Devices {
    /// The paths of the devices.
    pub fn paths(&self) -> DevicePaths {
        self.paths.lock().clone()
    }

    /// The devices have these paths.
    pub fn are_at(&self, paths: DevicePaths) {
        *self.paths.lock() = paths;
    }

    /// The flash is another device now, without errors so far.
    pub fn has_flash_at(&self, path: PathBuf) {
        self.paths.lock().flash = path;
        self.flash.forget();
    }

    /// An error of the engine, for which the label's file is a part of the disk.
    pub fn named(&self, error: String) -> String {
        let label = self.paths.lock().label.display().to_string();
        let of_label = |role: &str| format!("{role}: {label}: ");
        if label.is_empty() { error } else { error.replace(&of_label("disk"), &of_label("label")) }
    }

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

/// A disk of which a failed sync loses nothing: no log above would write it again. The label's file keeps
/// what such a failure may have lost, for the program after this one.
pub(super) fn redoing(disk: Arc<dyn Device>, label: &Arc<dyn Device>) -> Arc<dyn Device> {
    Arc::new(RedoDevice::new(disk).kept_by(Arc::new(RedoLog::new(label.clone()))))
}

/// As [`redoing`], of the label's file.
pub(super) fn redoing_label(label: Arc<dyn Device>) -> Arc<dyn Device> {
    Arc::new(RedoDevice::new(label))
}

//! Making a volume. After a kill at any moment the next making recognises the remains and begins anew:
//!
//! 1. The label is made under another name, `LABEL.making`. It is locked.
//! 2. The cache is made on flash, and bound to that label.
//! 3. The owner's configuration is written (`before_end`).
//! 4. The label gets its name.
//!
//! So a volume whose label has its name is whole, and is never made anew. A label with the other name was
//! never served from: it is removed, and a cache on flash that is bound to it is released.

use crate::making::making;
use crate::open::{check_two_devices, device_error, open};
use crate::{OpenError, Volume, VolumeConfig};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::renounce;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Makes the volume: the label file, and an empty cache on flash. Returns the configuration with the number
/// of slots, and with `switch_policy` where that is usual. Nothing on the disk is changed. `overwrite`: also
/// on a flash device with any content.
///
/// # Errors
/// [`OpenError`]; then there is no label file.
pub fn create_volume(config: &VolumeConfig, overwrite: bool) -> Result<VolumeConfig, OpenError> {
    create_volume_with(config, overwrite, |_| Ok(()))
}

/// As [`create_volume`]. `before_end` is called with the configuration when all is made but the label's name.
///
/// # Errors
/// [`OpenError`], and that of `before_end`; then there is no label file.
pub fn create_volume_with<E: From<OpenError>>(
    config: &VolumeConfig,
    overwrite: bool,
    before_end: impl FnOnce(&VolumeConfig) -> Result<(), E>,
) -> Result<VolumeConfig, E> {
    check_two_devices(config)?;
    let label_path = &config.label;
    if label_path.symlink_metadata().is_ok() {
        return Err(device_error("label", label_path, "exists; name a new file, or another volume").into());
    }
    let disk = open("disk", &config.disk, config.direct_io)?;
    let flash = open("flash", &config.flash, config.direct_io)?;
    let options = config.options_for(flash.geometry().capacity_bytes).map_err(OpenError::from)?;
    let making = making(label_path);
    forget(&making, &*flash)?;
    let switch_policy = config.switch_policy || options.changes_by_itself();
    let config = VolumeConfig { slots: options.slots(), switch_policy, ..config.clone() };
    let make = || -> Result<(), OpenError> {
        let file = FileOptions { is_direct_wanted: false, ..FileOptions::create(LABEL_FILE_BYTES) };
        let label = FileDevice::open(&making, file).map_err(|error| device_error("label", &making, error))?;
        let volume = Volume::create(disk, Arc::new(label), flash.clone(), options.overwriting(overwrite))?;
        Ok(volume.close()?)
    };
    let end = || std::fs::rename(&making, label_path).and_then(|()| sync_folder(label_path));
    make()
        .map_err(E::from)
        .and_then(|()| before_end(&config))
        .and_then(|()| end().map_err(|error| device_error("label", label_path, error).into()))
        .inspect_err(|_| _ = forget(&making, &*flash))?;
    Ok(config)
}

/// Writes zeros where the flash of a volume is a file without written blocks; its content stays the same. Its
/// first writes are several times slower otherwise. `progress` is told bytes done, and in all. Returns these.
///
/// # Errors
/// [`OpenError`]: the flash is in use, or its file system has no room. The volume is whole nevertheless.
pub fn write_flash_holes(
    config: &VolumeConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, OpenError> {
    let flash = &config.flash;
    let file = FileOptions { is_direct_wanted: config.direct_io, ..FileOptions::existing() };
    let opened = FileDevice::open(flash, file).map_err(|error| device_error("flash", flash, error))?;
    opened.write_holes(progress).map_err(|error| device_error("flash", flash, error))
}

/// Makes the name of a file durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Removes the remains of a making that was cut off: its label, and the cache on `flash` that is bound to it.
fn forget(making: &Path, flash: &dyn Device) -> Result<(), OpenError> {
    if making.symlink_metadata().is_err() {
        return Ok(());
    }
    let is_whole = making.metadata().is_ok_and(|file| file.len() == LABEL_FILE_BYTES);
    if is_whole {
        // Refused while another program is making it.
        let label = open("label", making, false)?;
        // A label that is not whole was made before anything was written to the flash.
        let _ = renounce(flash, &*label);
    }
    std::fs::remove_file(making).map_err(|error| device_error("label", making, error))
}

//! Opening files and block devices that are to be looked at.

use crate::failure::Failure;
use anyhow::Context;
use entresol_device::{Device, FileDevice, FileOptions};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// Opens an existing file or block device. `what` is its role, e.g. "flash cache".
pub fn open(what: &str, path: &Path) -> Result<Arc<dyn Device>, Failure> {
    let refuse = |why: &str| Failure::input(format!("{}: {why}", path.display()));
    let kind = std::fs::metadata(path)
        .map_err(|error| refuse(&format!("cannot be opened as {what} ({error}); check the path")))?
        .file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(refuse("is neither a regular file nor a block device; give one of these"));
    }
    let device =
        FileDevice::open(path, FileOptions::existing()).with_context(|| format!("opening the {what}"))?;
    Ok(Arc::new(device))
}

/// Refuses the flash of a volume, whose disk has its label in a file: `command` is another one there.
pub fn refuse_volume(
    command: &str,
    path: &Path,
    flash: &dyn Device,
    disk: &dyn Device,
) -> Result<(), Failure> {
    if !entresol_block::is_of_a_volume(flash, disk).with_context(|| path.display().to_string())? {
        return Ok(());
    }
    Err(Failure::input(format!(
        "{}: holds the cache of a volume, whose disk has its label in a file; nothing was changed. Use `entresol volume \
         {command} CONFIG` with the volume's configuration, data.toml, say",
        path.display()
    )))
}

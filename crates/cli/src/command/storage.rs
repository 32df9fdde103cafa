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

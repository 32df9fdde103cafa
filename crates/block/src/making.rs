//! The label of a volume that is being made: it has another name until the volume is whole.

use std::path::{Path, PathBuf};

/// The name of a label while its volume is being made.
pub(crate) fn making(label: &Path) -> PathBuf {
    let mut name = label.as_os_str().to_owned();
    name.push(".making");
    name.into()
}

/// Whether the making of the volume with this label was cut off: it was never served.
pub fn is_half_made(label: &Path) -> bool {
    label.symlink_metadata().is_err() && making(label).symlink_metadata().is_ok()
}

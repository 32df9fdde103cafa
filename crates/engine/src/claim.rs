//! What a new cache or database may be put on: a blank device, or one of our own that was used for the same before.
//!
//! A wrong path must not destroy what lies there. A file system, a partition table, another store's disk or log is named
//! and refused, and so is anything unknown, unless its owner says that it may go (`overwrite`).

use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::tier::flash_error;
use crate::{points, unreadable};
use entresol_device::{Contents, Device, DeviceError, signature};
use entresol_format::{BLOCK_BYTES, fragments};

/// Refuses a flash device without a superblock of ours, if anything else lies on it.
pub(crate) fn flash(device: &dyn Device, overwrite: bool) -> Result<(), TierError> {
    if overwrite || fragment_marks(device)?.contains(&true) {
        return Ok(());
    }
    refuse_contents("flash device", signature(device).map_err(flash_error)?)
}

/// Refuses a disk without a label of ours, if anything else lies on it.
pub(crate) fn disk(device: &dyn Device, overwrite: bool) -> Result<(), TierError> {
    if overwrite {
        return Ok(());
    }
    let error = |source: DeviceError| TierError::Device { role: "disk", source };
    refuse_contents("disk", signature(device).map_err(error)?)
}

fn refuse_contents(role: &str, contents: Contents) -> Result<(), TierError> {
    let Some(value) = contents.value() else { return Ok(()) };
    points::CLAIM_REFUSED.reach();
    Err(TierError::Refused(Contents::refusal(role, &value)))
}

/// Whether a cache of fragments used the device last: which copies of its mark are there.
pub(crate) fn fragment_marks(device: &dyn Device) -> Result<[bool; 2], TierError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let mut found = [false; 2];
    for (found, offset) in found.iter_mut().zip(fragments::MARK_OFFSETS) {
        if device.geometry().capacity_bytes >= offset + BLOCK_BYTES as u64 {
            unreadable::read(device, offset, &mut block).map_err(flash_error)?;
            *found = fragments::is_mark(&block);
        }
    }
    Ok(found)
}

/// The device is to hold a cache with superblocks from here on.
pub(crate) fn erase_fragment_marks(device: &dyn Device) -> Result<(), TierError> {
    for (offset, found) in fragments::MARK_OFFSETS.into_iter().zip(fragment_marks(device)?) {
        if found {
            device.write(offset, &AlignedBuffer::new(BLOCK_BYTES)).map_err(flash_error)?;
        }
    }
    Ok(())
}

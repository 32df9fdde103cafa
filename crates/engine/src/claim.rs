//! Which device a new cache or database may be put on: a blank one, or one of ours that had the same use
//! before.
//!
//! Invariant: a mistyped path destroys nothing. A file system, a partition table, the disk or log of another
//! store, and anything unknown is refused and named, unless the owner asks for it to be overwritten
//! (`overwrite`).
//!
//! A device counts as blank if only our first block is on it, damaged or unreadable: power failed at its
//! first use.

use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::error::{disk_error, flash_error};
use crate::{points, unreadable};
use entresol_device::{Contents, Device, DeviceError, FirstBlock, is_cut_off, put_over, signature};
use entresol_format::{BLOCK_BYTES, fragments, label, superblock};

/// Refuses a flash device that has no superblock of ours but other content.
pub(crate) fn flash(device: &dyn Device, overwrite: bool) -> Result<(), TierError> {
    let is_ours = || -> Result<bool, TierError> {
        Ok(fragment_marks(device)?.contains(&true) && put_over(device).map_err(flash_error)?.is_none())
    };
    if overwrite || is_ours()? {
        return Ok(());
    }
    let first = [
        FirstBlock { offset: superblock::COPY_STRIDE, magic: superblock::MAGIC },
        FirstBlock { offset: fragments::MARK_OFFSETS[0], magic: fragments::MAGIC },
    ];
    refuse_contents(device, "flash device", &first, flash_error)
}

/// Refuses a disk that has no label of ours but other content.
pub(crate) fn disk(device: &dyn Device, overwrite: bool) -> Result<(), TierError> {
    if overwrite {
        return Ok(());
    }
    let first = FirstBlock { offset: label::COPY_STRIDE, magic: label::MAGIC };
    refuse_contents(device, "disk", &[first], disk_error)
}

/// `first`: the first blocks that we write to a blank device.
fn refuse_contents(
    device: &dyn Device,
    role: &str,
    first: &[FirstBlock],
    error: impl Fn(DeviceError) -> TierError,
) -> Result<(), TierError> {
    let Some(value) = signature(device).map_err(&error)?.value() else { return Ok(()) };
    if is_cut_off(device, first).map_err(error)? {
        points::CLAIM_CUT_OFF.reach();
        return Ok(());
    }
    points::CLAIM_REFUSED.reach();
    Err(TierError::Refused(Contents::refusal(role, &value)))
}

/// Whether a cache of fragments used the device last: which copies of its mark exist.
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

/// Erases the marks of a cache of fragments, because the device will hold a cache with superblocks.
pub(crate) fn erase_fragment_marks(device: &dyn Device) -> Result<(), TierError> {
    for (offset, found) in fragments::MARK_OFFSETS.into_iter().zip(fragment_marks(device)?) {
        if found {
            device.write(offset, &AlignedBuffer::new(BLOCK_BYTES)).map_err(flash_error)?;
        }
    }
    Ok(())
}

//! Superblocks on a flash device: writing them, alone or to all places, and finding the newest.

use crate::buffer::{self, AlignedBuffer};
use crate::error::flash_error;
use crate::{TierError, points, unreadable};
use entresol_core::mutant;
use entresol_device::{Device, write_copies, write_proved};
use entresol_format::superblock::{COPIES, COPY_STRIDE, Superblock};
use entresol_format::{BLOCK_BYTES, BlockFault};

/// Names in the error of a write that is not found afterwards.
const NAMES: (&str, &str) = ("flash", "superblock");

/// Writes `superblock` durably to its place on `flash`, and reads it back.
pub(crate) fn write_superblock(flash: &dyn Device, superblock: &Superblock) -> Result<(), TierError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    superblock.encode(&mut block);
    write_proved(flash, NAMES, superblock.offset(), &block).map(drop).map_err(flash_error)
}

/// Writes `superblock` to all places, so that whichever copy survives says the same. Raises its sequence.
pub(crate) fn write_all_copies(flash: &dyn Device, superblock: &mut Superblock) -> Result<(), TierError> {
    let copies = if mutant!("one-superblock-copy-renewed") { 1 } else { COPIES };
    let copies = buffer::copies(copies, |block| {
        superblock.sequence += 1;
        superblock.encode(block);
        superblock.offset()
    });
    write_copies(flash, NAMES, &copies, true).map(drop).map_err(flash_error)
}

/// The refusal to overwrite a cache that another disk than `disk` needs.
pub(crate) fn needed_elsewhere(old: &Superblock, disk: entresol_format::Uuid) -> Option<TierError> {
    (old.disk != disk && old.is_needed()).then(|| {
        TierError::Refused(format!(
            "the flash device holds cache {} of another disk, {}, which may have pages newer than that disk; detach it \
             there (`entresol detach FLASH DISK`), or wipe the flash device if that database is not wanted any more",
            old.cache, old.disk
        ))
    })
}

/// The newest whole superblock of `flash`, and why other copies were refused.
pub(crate) fn read_newest(flash: &dyn Device) -> Result<(Option<Superblock>, Vec<String>), TierError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let mut newest: Option<Superblock> = None;
    let mut faults = Vec::new();
    for copy in 0..COPIES {
        let offset = copy * COPY_STRIDE;
        if offset + BLOCK_BYTES as u64 > flash.geometry().capacity_bytes {
            faults.push(format!("superblock copy {copy}: past the end of the device; is it truncated?"));
            continue;
        }
        unreadable::read(flash, offset, &mut block).map_err(flash_error)?;
        match Superblock::decode(&block) {
            Ok(found) if newest.is_none_or(|best| best.sequence < found.sequence) => newest = Some(found),
            Ok(_) | Err(BlockFault::Blank) => {}
            Err(fault) => {
                points::SUPERBLOCK_DAMAGED.reach();
                faults.push(format!("superblock copy {copy}: {}", unreadable::fault_of(&block, fault)));
            }
        }
    }
    Ok((newest, faults))
}

//! Superblocks on a flash device: one copy is written, or all copies are, and the newest is found. Nothing
//! here knows an open tier.

use crate::buffer::{self, AlignedBuffer};
use crate::error::{HOW_TO_DETACH, flash_error};
use crate::{TierError, TierOptions, points, unreadable};
use entresol_core::Position;
use entresol_device::{Device, put_over, write_copies, write_proved};
use entresol_format::label::Label;
use entresol_format::losses::Losses;
use entresol_format::superblock::{COPIES, COPY_STRIDE, Superblock};
use entresol_format::{BLOCK_BYTES, BlockFault, LogPosition};

/// Names in the error of a write that cannot be read back.
const NAMES: (&str, &str) = ("flash", "superblock");

/// Writes `superblock` durably to its place on `flash`, and reads it back.
pub(crate) fn write_superblock(flash: &dyn Device, superblock: &Superblock) -> Result<(), TierError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    superblock.encode(&mut block);
    write_proved(flash, NAMES, superblock.offset(), &block).map(drop).map_err(flash_error)
}

/// Writes `superblock` to all places, so that all copies agree. Raises its sequence.
pub(crate) fn write_all_copies(flash: &dyn Device, superblock: &mut Superblock) -> Result<(), TierError> {
    let copies = buffer::copies(COPIES, |block| {
        superblock.sequence += 1;
        superblock.encode(block);
        superblock.offset()
    });
    write_copies(flash, NAMES, &copies, true).map(drop).map_err(flash_error)
}

/// The superblock of an empty cache that belongs to the disk of `label`, in its epoch.
pub(crate) fn empty_superblock(label: &Label, options: &TierOptions, sequence: u64) -> Superblock {
    Superblock {
        version: options.version,
        sequence,
        cache: label.cache,
        disk: label.disk,
        epoch: label.epoch,
        epoch_nonce: label.epoch_nonce,
        previous_nonce: label.epoch_nonce,
        page_bytes: options.page_bytes,
        page_format: options.page_format,
        slots: options.slots,
        group_pages: options.group_pages,
        staging_groups: options.staging_groups,
        segment_entries: options.segment_entries,
        objects: options.objects,
        policy: options.policy,
        mode: options.mode,
        clean: false,
        directory: false,
        // An older label names another cache, so the two states need not be distinguished.
        begun: true,
        released: false,
        keeps_slots: options.keeps_slots,
        front: Position(0),
        rear: Position(0),
        durable: Position(0),
        unsure_from: Position(0),
        unsure_to: if options.disk_may_lack() { Position::MAX } else { Position(0) },
        session_rear: Position(0),
        segment_first: 0,
        segment_next: 0,
        losses: Losses::default(),
        marks: [0; 2],
        costs: options.costs,
        renewal: label.renewal,
        log: LogPosition::default(),
        mark_digests: [0; 2],
        batches: 0,
        keeps_bases: options.config().keeps_bases,
        checkpoint: 0,
        horizon: 0,
        based_from: Position(0),
    }
}

/// The refusal to overwrite a cache that another disk than `disk` needs.
pub(crate) fn needed_elsewhere(old: &Superblock, disk: entresol_format::Uuid) -> Option<TierError> {
    (old.disk != disk && old.is_needed()).then(|| {
        TierError::Refused(format!(
            "the flash device holds cache {} of another disk, {}, which may have pages newer than that disk; detach it \
             there ({HOW_TO_DETACH}). If these pages are not wanted any more, or its label is lost, wipe the flash device: \
             dd if=/dev/zero of=FLASH bs={COPY_STRIDE} count={COPIES} conv=notrunc,fsync",
            old.cache, old.disk
        ))
    })
}

/// The newest whole superblock of `flash`, and why other copies were refused. If another program has used the
/// device since, there is none.
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
    if newest.is_some()
        && !faults.is_empty()
        && let Some(other) = put_over(flash).map_err(flash_error)?
    {
        points::SUPERBLOCK_PUT_OVER.reach();
        newest = None;
        faults.push(format!("{other} was put over it"));
    }
    Ok((newest, faults))
}

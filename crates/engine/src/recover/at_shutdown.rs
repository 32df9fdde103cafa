//! Bringing back slots that survive a shutdown (`tier/slots/at_shutdown.rs`). The content of the slots is not
//! read: each page is proved by its checksum when it is fetched. After a crash nothing is brought back but
//! TAC's temperatures, as of the last shutdown.
//!
//! A segment that is damaged, or of another shutdown, is left out, and so is an entry that cannot be (a page
//! named twice, a page newer than disk): the disk has these pages.

use super::segments::decode_segment;
use super::slots::{RestoredSlots, restore_temperatures};
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::region::Region;
use crate::{OpenReport, TierError, TierOptions, points, unreadable};
use entresol_core::{Position, SlotId, Slots};
use entresol_device::Device;
use entresol_format::superblock::Superblock;
use entresol_format::{Layout, segment};

/// Brings back what `superblock` leads to.
pub(super) fn restore(
    flash: &dyn Device,
    superblock: &Superblock,
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<RestoredSlots, TierError> {
    let layout = options.layout();
    let mut region = Region::new(options, superblock.cache)?;
    let mut partition = region.partition();
    let restored = partition.slots_mut().expect("the cache that is found is in slots");
    let temperatures_written = restore_temperatures(flash, superblock, &layout, restored, report)?;
    restored.restore_slots_begin(superblock.next_positions());
    if superblock.directory {
        fill(flash, superblock, &layout, restored, report)?;
    } else if !superblock.clean {
        points::SHUTDOWN_MISSED.reach();
        report.notices.push(
            "the cache was not closed by the program that used it last: it was emptied, and the disk has all pages"
                .to_owned(),
        );
    }
    restored.restore_slots_end();
    if cfg!(debug_assertions) {
        partition.check().expect("a restored directory keeps the invariants");
    }
    report.entries = partition.occupancy().valid.into();
    report.warm = report.entries > 0;
    Ok(RestoredSlots::of_shutdown(region, temperatures_written))
}

/// Fills the directory.
fn fill(
    flash: &dyn Device,
    superblock: &Superblock,
    layout: &Layout,
    restored: &mut Slots<'_>,
    report: &mut OpenReport,
) -> Result<(), TierError> {
    let mut bytes = AlignedBuffer::new(layout.segment_bytes() as usize);
    let mut left_out = 0;
    for number in 0..layout.segments_of_slots() {
        unreadable::read(flash, layout.slots_segment_offset(number, 0), &mut bytes).map_err(flash_error)?;
        report.bytes_read += bytes.len() as u64;
        let why = match decode_segment(superblock.cache, layout, number, &bytes) {
            Ok(Some((head, used))) if head.since == superblock.epoch => {
                report.segments_read += 1;
                left_out += fill_from(layout, number, used, restored);
                continue;
            }
            Ok(Some((head, _))) => {
                format!("it is of epoch {}, {} was expected", head.since, superblock.epoch)
            }
            Ok(None) => "it is not there".to_owned(),
            Err(fault) => fault.to_string(),
        };
        points::SHUTDOWN_SEGMENT_LEFT_OUT.reach();
        report.notices.push(format!("directory segment {number}: {why}; its slots count as empty"));
    }
    if left_out > 0 {
        let why = "entries of the directory on flash are impossible and were left out";
        report.notices.push(format!("{left_out} {why}"));
    }
    Ok(())
}

/// Restores the slots of a segment. Returns how many entries cannot be.
fn fill_from(layout: &Layout, number: u64, used: &[u8], restored: &mut Slots<'_>) -> u64 {
    let mut left_out = 0;
    let first = number as u32 * layout.segment_entries();
    let entries = segment::decode_slots(used, layout.segment_entry_bytes());
    for (slot, (view, generation)) in (first..layout.slots()).map(SlotId).zip(entries) {
        let stamp = Position(generation.into());
        let Some(view) = view else {
            restored.restore_empty_slot(slot, stamp);
            continue;
        };
        if view.dirty || !restored.restore_slot(slot, view.page, false, stamp) {
            left_out += 1;
            continue;
        }
        restored.restore_slot_proof(slot, view.proof);
    }
    left_out
}

//! Checks slots that survive a crash: every page that segments and batches name is whole in its slot, and no
//! older than on disk; a clean one is the same there.

use super::compare::{OnFlash, compare_with_disk};
use super::report::CheckReport;
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::error::flash_error;
use crate::recover::{prove_kept, restore_slots};
use crate::{OpenReport, TierError, TierOptions, unreadable};
use entresol_core::{SlotId, SlotView};
use entresol_device::Device;
use entresol_format::superblock::Superblock;

pub(super) fn check_kept(
    flash: &dyn Device,
    disk: Option<&DiskPages>,
    superblock: &Superblock,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), TierError> {
    let options = TierOptions::of(superblock);
    let layout = options.layout();
    let mut open = OpenReport::default();
    let Some(mut restored) = restore_slots(flash, superblock, &options, &mut open)? else { return Ok(()) };
    // Damage that recovery worked around is a fault, except for the effects of a crash.
    report.faults.append(&mut open.notices);
    report.segments = open.segments_read;
    report.groups = open.summaries_read;
    if open.torn > 0 {
        report.notices.push(format!("{} batches were being written at the crash", open.torn));
    }
    let partition = restored.region.partition();
    if let Err(violation) = partition.check() {
        report.fault(format!("the directory brought back breaks an invariant: {violation}"));
    }
    let Some(slots) = partition.slots() else { return Ok(()) };
    let page_bytes = superblock.page_bytes as usize;
    let (mut on_flash, mut on_disk) = (AlignedBuffer::new(page_bytes), AlignedBuffer::new(page_bytes));
    for slot in (0..superblock.slots).map(SlotId) {
        progress(slot.0.into(), superblock.slots.into());
        let Some(view) = partition.slot(slot) else { continue };
        report.pages += 1;
        unreadable::read(flash, layout.slot_offset(slot), &mut on_flash).map_err(flash_error)?;
        let checksum = superblock.config().proofs.then_some(view.proof);
        let generation = slots.slot_generation(slot);
        if let Err(fault) = prove_kept(superblock, (slot, view.page), generation, checksum, &on_flash) {
            let fault = unreadable::fault_of(&on_flash, fault);
            report.fault(format!("page {} in slot {} ({}): {fault}", view.page, slot.0, age(&view)));
            continue;
        }
        if let Some(disk) = disk {
            let page = OnFlash { id: view.page, dirty: view.dirty, bytes: &on_flash };
            compare_with_disk(superblock, disk, &page, &mut on_disk, report)?;
        }
    }
    Ok(())
}

fn age(view: &SlotView) -> &'static str {
    if view.dirty { "newer than disk" } else { "the disk has it, too" }
}

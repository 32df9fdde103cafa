//! Checks a slot directory. Every valid entry names a page that is whole in its slot, is the version on disk
//! (SBP §4) or, if it is dirty, no older one, and has no other slot.

use super::report::CheckReport;
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::error::flash_error;
use crate::recover::read_directory;
use crate::{OpenReport, TierError, TierOptions, unreadable};
use entresol_core::{PageId, Position, SlotId};
use entresol_device::Device;
use entresol_format::page;
use entresol_format::slots::{self, BLOCK_ENTRIES, SlotEntry};
use entresol_format::superblock::Superblock;
use std::collections::BTreeMap;

pub(super) fn check_slots(
    flash: &dyn Device,
    disk: Option<DiskPages>,
    superblock: &Superblock,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), TierError> {
    let layout = TierOptions::of(superblock).layout();
    let mut open = OpenReport::default();
    let (blocks, _) = read_directory(flash, &layout, &mut open)?;
    // A sector is never torn, so a crash damages none.
    report.faults.append(&mut open.notices);
    let mut pages: BTreeMap<PageId, SlotId> = BTreeMap::new();
    let page_bytes = superblock.page_bytes as usize;
    let (mut on_flash, mut on_disk) = (AlignedBuffer::new(page_bytes), AlignedBuffer::new(page_bytes));
    for slot in (0..superblock.slots).map(SlotId) {
        progress(slot.0.into(), superblock.slots.into());
        let block = &blocks[(slot.0 / BLOCK_ENTRIES) as usize];
        let Some(entry) = slots::get(block, slot.0 % BLOCK_ENTRIES, superblock.cache) else { continue };
        if let Some(other) = pages.insert(entry.page, slot) {
            report.faults.push(format!("page {} is in slots {} and {}", entry.page, other.0, slot.0));
        }
        report.pages += 1;
        unreadable::read(flash, layout.slot_offset(slot), &mut on_flash).map_err(flash_error)?;
        if let Err(fault) = prove(&on_flash, slot, &entry, superblock) {
            let fault = unreadable::fault_of(&on_flash, fault);
            report.faults.push(format!("page {} in slot {}: {fault}", entry.page, slot.0));
            continue;
        }
        let Some(disk) = &disk else { continue };
        report.disk_pages += 1;
        match disk.read(entry.page, &mut on_disk) {
            Err(error @ TierError::Device { .. }) => return Err(error),
            // It may never have been written there.
            Err(_) if entry.dirty => {}
            Ok(()) if entry.dirty => {
                report.older_than_disk += u64::from(page::lsn(&on_flash) < page::lsn(&on_disk));
            }
            Err(error) => report.faults.push(format!("page {} is valid on flash, but {error}", entry.page)),
            Ok(()) => {
                let [flash_lsn, disk_lsn] = [&on_flash, &on_disk].map(|page| page::lsn(page).0);
                if flash_lsn != disk_lsn {
                    report.faults.push(format!(
                        "page {} counts as the same on flash and disk, but its LSN is {flash_lsn} in slot {} and \
                         {disk_lsn} on disk",
                        entry.page, slot.0
                    ));
                }
            }
        }
    }
    Ok(())
}

fn prove(bytes: &[u8], slot: SlotId, entry: &SlotEntry, superblock: &Superblock) -> Result<(), String> {
    page::verify(bytes, entry.page, None).map_err(|fault| fault.to_string())?;
    let found = superblock.stamps().position_in(slot, Position(page::header(bytes).generation.get()));
    // A directory written at a shutdown has only the lowest byte.
    let byte_is_same = || found < superblock.next_positions() && found.0 as u8 == entry.position.0 as u8;
    let same = found == entry.position || (superblock.directory && byte_is_same());
    if same { Ok(()) } else { Err(format!("generation {} found, {} expected", found.0, entry.position.0)) }
}

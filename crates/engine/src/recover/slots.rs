//! Bringing back what slot placement left on flash: TAC's slot directory and temperatures after a shutdown or
//! a crash (SBP §3), LOC's and GLB's directory after a shutdown (3LA §3.3); [`super::at_shutdown`] and
//! [`super::batches`] bring back slots that are kept.
//!
//! Every entry that is valid and not dirty names a page that disk holds in the same version
//! (`tier/slots/upkeep.rs`), so the content of the slots is not read. Dirty entries are only in a directory
//! of a shutdown, which counts for one open (`tier/slots/materialiser.rs`). An entry that cannot be (a slot
//! or a page named twice, a position out of range) is left out.

use super::at_shutdown;
use super::batches::{self, KeptSlots};
use super::objects::SnapshotCopy;
use crate::api::Materialised;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::region::Region;
use crate::{OpenReport, TierError, TierOptions, points, unreadable};
use entresol_core::{Directory, Lsn, Mode, Position, SlotId, Slots};
use entresol_device::Device;
use entresol_format::owners_log::LogPosition;
use entresol_format::slots::{self, BLOCK_ENTRIES, SlotEntry};
use entresol_format::superblock::Superblock;
use entresol_format::{BLOCK_BYTES, BlockFault, Layout, checksum, temperatures};

/// A directory that was brought back.
pub(crate) struct RestoredSlots {
    /// The directory.
    pub region: Region,
    /// The slot directory, if it is kept on flash all the time.
    pub blocks: Option<Vec<AlignedBuffer>>,
    /// Its blocks in which something was damaged and counts as empty.
    damaged: Vec<u64>,
    /// How many copies of the temperatures were written.
    pub temperatures_written: u64,
    /// No page entered below this position.
    pub first: Position,
    /// Of slots that survive a crash.
    pub kept: Option<KeptSlots>,
    /// Its dirty pages.
    pub materialised: Materialised,
    /// The copy of the newest snapshot of the table of objects that is not whole.
    snapshot: Option<SnapshotCopy>,
    /// The greatest position in the owner's log that is on flash.
    pub log: LogPosition,
}

/// Brings back what `superblock` leads to; `None` if nothing survives.
pub(crate) fn restore_slots(
    flash: &dyn Device,
    superblock: &Superblock,
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<Option<RestoredSlots>, TierError> {
    match superblock.directory_kind() {
        Directory::Batches => return batches::restore(flash, superblock, options, report).map(Some),
        Directory::SegmentsAtShutdown => {
            return at_shutdown::restore(flash, superblock, options, report).map(Some);
        }
        Directory::Slots => {}
        Directory::AtShutdown if superblock.directory => {}
        _ => return Ok(None),
    }
    let layout = options.layout();
    let (mut entries, mut empty) = (Vec::new(), Vec::new());
    let (blocks, damaged) = read_directory(flash, &layout, report)?;
    for (number, block) in blocks.iter().enumerate() {
        let first = number as u32 * BLOCK_ENTRIES;
        let last = (first + BLOCK_ENTRIES).min(options.slots);
        for slot in first..last {
            let at = slot - first;
            match slots::get(block, at, superblock.cache) {
                Some(entry) if entry.position < Position::MAX => entries.push((SlotId(slot), entry)),
                Some(_) => {}
                None => empty.extend(
                    slots::last_position(block, at, superblock.cache).map(|last| (SlotId(slot), last)),
                ),
            }
        }
    }
    if options.mode != Mode::WriteBack && entries.iter().any(|(_, entry)| entry.dirty) {
        // In this mode the disk has everything from now on: the owner's log repeats what is missing there.
        report.notices.push("dirty pages of a quick shutdown are left out: the mode has changed".to_owned());
        return Ok(None);
    }
    entries.sort_by_key(|(_, entry)| entry.rank);
    let mut region = Region::new(options, superblock.cache)?;
    let mut partition = region.partition();
    let restored = partition.slots_mut().expect("the cache that is found is in slots");
    let temperatures_written = restore_temperatures(flash, superblock, &layout, restored, report)?;
    let refused = fill(restored, superblock, &entries, &empty, report);
    if cfg!(debug_assertions) {
        partition.check().expect("a restored directory keeps the invariants");
    }
    report.entries = partition.occupancy().valid.into();
    report.dirty = partition.unsaved().pages.into();
    report.warm = report.entries > 0;
    if report.dirty > 0 {
        points::DIRECTORY_DIRTY.reach();
    }
    let blocks = (superblock.policy.directory() == Directory::Slots).then_some(blocks);
    // What is missing is repeated from the log.
    let is_complete = damaged.is_empty() && refused == 0 && superblock.marks[0] > 0;
    let is_of_shutdown = superblock.policy.directory() == Directory::AtShutdown;
    let end = (is_complete && is_of_shutdown).then_some(Lsn(superblock.marks[0]));
    let (first, materialised) = (superblock.session_rear, Materialised { dirty: report.dirty, end });
    let restored = RestoredSlots::of_region(region);
    Ok(Some(RestoredSlots { blocks, damaged, temperatures_written, first, materialised, ..restored }))
}

impl RestoredSlots {
    /// Of segments and batches.
    pub(super) fn of_batches(
        region: Region,
        kept: KeptSlots,
        snapshot: Option<SnapshotCopy>,
        log: LogPosition,
    ) -> Self {
        Self { kept: Some(kept), snapshot, log, ..Self::of_region(region) }
    }

    /// Of segments that a shutdown has written.
    pub(super) fn of_shutdown(region: Region, temperatures_written: u64) -> Self {
        Self { temperatures_written, ..Self::of_region(region) }
    }

    fn of_region(region: Region) -> Self {
        Self {
            region,
            blocks: None,
            damaged: Vec::new(),
            temperatures_written: 0,
            first: Position(0),
            kept: None,
            materialised: Materialised::default(),
            snapshot: None,
            log: LogPosition::default(),
        }
    }

    /// The disk has everything: entries that are dirty on flash were copied there since they were written.
    pub(crate) fn are_clean(&mut self) {
        if let Some(slots) = self.region.partition().slots_mut() {
            slots.restored_clean();
        }
    }

    /// Writes the newest snapshot of the table of objects where it is not whole, and durably that what was
    /// damaged is empty. Nobody invalidates entries that are not known, so were
    /// such a block read again by the next open, its pages would come back in older versions.
    pub(crate) fn repair(&self, flash: &dyn Device, layout: &Layout) -> Result<(), TierError> {
        self.snapshot.iter().try_for_each(|snapshot| snapshot.repair(flash))?;
        let Some(blocks) = self.blocks.as_ref().filter(|_| !self.damaged.is_empty()) else { return Ok(()) };
        points::DIRECTORY_REPAIRED.reach();
        for number in &self.damaged {
            flash.write(layout.directory_offset(*number), &blocks[*number as usize]).map_err(flash_error)?;
        }
        flash.sync().map_err(flash_error)
    }
}

/// Returns how many entries cannot be.
fn fill(
    restored: &mut Slots<'_>,
    superblock: &Superblock,
    entries: &[(SlotId, SlotEntry)],
    empty: &[(SlotId, Position)],
    report: &mut OpenReport,
) -> u32 {
    let newest = entries.iter().map(|(_, entry)| entry.position.0 + 1).max().unwrap_or(0);
    let rear = newest.max(superblock.next_positions().0).next_multiple_of(superblock.group_pages.into());
    restored.restore_slots_begin(Position(rear.min(Position::MAX.0)));
    empty.iter().for_each(|(slot, last)| restored.restore_empty_slot(*slot, *last));
    let mut refused = 0;
    for (slot, entry) in entries {
        refused += u32::from(!restored.restore_slot(*slot, entry.page, entry.dirty, entry.position));
    }
    restored.restore_slots_end();
    if refused > 0 {
        report
            .notices
            .push(format!("{refused} entries of the slot directory are impossible and were left out"));
    }
    refused
}

/// The blocks of the slot directory, in which what is damaged is empty, and the numbers of those.
pub(crate) fn read_directory(
    flash: &dyn Device,
    layout: &Layout,
    report: &mut OpenReport,
) -> Result<(Vec<AlignedBuffer>, Vec<u64>), TierError> {
    let (mut blocks, mut damaged) = (Vec::new(), Vec::new());
    for number in 0..layout.directory_blocks() {
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        unreadable::read(flash, layout.directory_offset(number), &mut block).map_err(flash_error)?;
        report.bytes_read += BLOCK_BYTES as u64;
        let faults = slots::prove(&mut block, number);
        damaged.extend((!faults.is_empty()).then_some(number));
        for fault in faults {
            report.notices.push(format!("slot directory block {number}: {fault}; its slots count as empty"));
        }
        blocks.push(block);
    }
    Ok((blocks, damaged))
}

/// Brings back the newest whole copy of the temperatures. Returns the number of the next copy.
pub(super) fn restore_temperatures(
    flash: &dyn Device,
    superblock: &Superblock,
    layout: &Layout,
    restored: &mut Slots<'_>,
    report: &mut OpenReport,
) -> Result<u64, TierError> {
    let length = layout.temperatures_bytes() as usize;
    if length == 0 {
        return Ok(0);
    }
    let places = restored.temperatures().len();
    let mut copy = AlignedBuffer::new(length);
    let mut newest: Option<(u64, Vec<u32>)> = None;
    for nth in 0..temperatures::COPIES {
        unreadable::read(flash, layout.temperatures_offset(nth), &mut copy).map_err(flash_error)?;
        report.bytes_read += length as u64;
        let (head, payload) = copy.split_at(BLOCK_BYTES);
        let payload = &payload[..4 * places];
        match temperatures::decode_head(head) {
            Ok(head)
                if head.cache == superblock.cache
                    && head.segment < u64::MAX
                    && head.entries as usize == places
                    && head.checksum == checksum::of(payload) =>
            {
                if newest.as_ref().is_none_or(|(best, _)| *best < head.segment) {
                    let words = payload.chunks_exact(4);
                    let words = words.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
                    newest = Some((head.segment, words));
                }
            }
            // Torn by a crash, of an older cache, or never written: the other copy counts.
            Ok(_) | Err(BlockFault::Blank) => {}
            Err(fault) => report.notices.push(format!("temperatures, copy {nth}: {fault}")),
        }
    }
    let Some((nth, temperatures)) = newest else { return Ok(0) };
    restored.restore_temperatures(temperatures);
    Ok(nth + 1)
}

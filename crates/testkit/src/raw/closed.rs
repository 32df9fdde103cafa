//! What may happen to the devices of a cache while it is closed: another program makes a file system on one
//! of them, or parts of the flash are damaged. Each on copies; the cache continues from the content after its
//! life.
//!
//! Invariant: the cache is refused with a sentence that names what has happened, and nothing is written to
//! flash or disk, but to the disk what its label file keeps. Or it opens, since the rest tells everything,
//! and each page is as it may be. A device that another program has taken over never opens.

use super::life::{Life, blank_journal, devices_on};
use super::oracle::Shared;
use super::{restarted, simulation};
use crate::machine::Media;
use crate::torture::newest_superblock;
use entresol_core::Mode;
use entresol_device::{Device, DeviceError, FaultPlan, MemoryDevice};
use entresol_engine::TierOptions;
use entresol_format::redo::{HEAD_AT, RedoHead};
use entresol_format::summary::Summary;
use entresol_format::{BLOCK_BYTES, batch};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::Outcome;
use entresol_runtime::sync::{Mutex, Rank};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happened {
    FileSystemOnFlash,
    /// On the disk, or on the device of its label. Not of a disk in place: its label is in a file.
    FileSystemOnDisk,
    ObjectsDamaged,
    /// One block of the table of objects: its other copy tells the same.
    BlockOfObjectsDamaged,
    SummariesDamaged,
    /// Of two batches in a row, so that what one of them says is not repeated either.
    BatchesDamaged,
    /// A segment of the directory that a shutdown has written.
    SegmentDamaged,
}

/// Parts of the refusal, one of which it has.
fn sentences(happened: Happened) -> &'static [&'static str] {
    match happened {
        // Power may have failed while all other copies of the superblock, or of the label, were written.
        Happened::FileSystemOnFlash => {
            &["an ext2, ext3 or ext4 file system", "holds no superblock that can be read"]
        }
        Happened::FileSystemOnDisk => {
            &["an ext2, ext3 or ext4 file system", "holds no label that can be read"]
        }
        Happened::ObjectsDamaged => &["the table of objects on the flash device cannot be used"],
        Happened::BlockOfObjectsDamaged | Happened::SegmentDamaged => &[],
        Happened::SummariesDamaged => &["both summaries of group"],
        Happened::BatchesDamaged => &["the summary of batch", "brought a page to a slot that another page"],
    }
}

/// Puts the beginning of a file system on `device`, as a program does that writes whole blocks: beside an
/// unreadable sector it would not be seen.
fn make_file_system(device: &dyn Device) -> Result<(), DeviceError> {
    let mut blocks = [0; 2 * BLOCK_BYTES];
    blocks[1024 + 56..1024 + 58].copy_from_slice(b"\x53\xef");
    device.write(0, &blocks)
}

/// Damages both summaries of a group of which only its summaries tell, and of which one of a later group says
/// that it is durable. False: there is none.
fn damage_summaries(flash: &MemoryDevice, options: &TierOptions, rng: &mut Rng) -> Result<bool, DeviceError> {
    let (Some(superblock), layout) = (newest_superblock(flash), options.layout()) else { return Ok(false) };
    let first = superblock.durable.0 / u64::from(superblock.group_pages);
    let mut block = vec![0; BLOCK_BYTES];
    let mut durable = superblock.durable;
    for group in first..first + layout.groups() {
        for copy in 0..layout.summary_copies() {
            if flash.read(layout.summary_offset(group, copy), &mut block).is_err() {
                continue;
            }
            let Ok(summary) = Summary::decode(&block, superblock.group_pages) else { continue };
            let is_it = (summary.head.group, summary.head.cache) == (group, superblock.cache);
            if is_it && summary.head.epoch == superblock.epoch {
                durable = durable.max(summary.head.durable);
            }
        }
    }
    let groups = durable.0 / u64::from(superblock.group_pages) - first;
    if groups == 0 {
        return Ok(false);
    }
    let group = first + rng.below(groups);
    (0..layout.summary_copies())
        .try_for_each(|copy| flash.write(layout.summary_offset(group, copy), &[7; BLOCK_BYTES]))?;
    Ok(true)
}

/// Damages the summaries of two batches in a row, which later ones call durable. False: there are none.
fn damage_batches(flash: &MemoryDevice, options: &TierOptions, rng: &mut Rng) -> Result<bool, DeviceError> {
    let (Some(superblock), layout) = (newest_superblock(flash), options.layout()) else { return Ok(false) };
    let mut block = vec![0; BLOCK_BYTES];
    let (mut numbers, mut durable) = (BTreeSet::new(), superblock.batches);
    for place in 0..layout.batch_places() {
        if flash.read(layout.batch_offset(place), &mut block).is_err() {
            continue;
        }
        if let Ok(batch::Summary { head, .. }) = batch::decode(&block)
            && head.cache == superblock.cache
        {
            numbers.insert(head.number);
            durable = durable.max(head.durable);
        }
    }
    let in_a_row: Vec<u64> =
        numbers.iter().copied().filter(|n| n + 1 < durable && numbers.contains(&(n + 1))).collect();
    if in_a_row.is_empty() {
        return Ok(false);
    }
    let first = in_a_row[rng.below(in_a_row.len() as u64) as usize];
    for number in [first, first + 1] {
        flash.write(layout.batch_offset(number), &[7; BLOCK_BYTES])?;
    }
    Ok(true)
}

impl Happened {
    fn draw(life: &Life<'_>, rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 if !life.in_place => Self::FileSystemOnDisk,
            1 if life.cache.objects && rng.below(4) == 0 => Self::ObjectsDamaged,
            1 if life.cache.objects => Self::BlockOfObjectsDamaged,
            2 | 3 if life.cache.is_log() && !life.cache.page_format.names_itself() => Self::SummariesDamaged,
            2 | 3 if life.cache.keeps_slots() => Self::BatchesDamaged,
            2 | 3 if life.cache.keeps_slots_at_shutdown() => Self::SegmentDamaged,
            _ => Self::FileSystemOnFlash,
        }
    }

    /// Lets it happen to `media`. False: there is nothing that it could happen to.
    fn happen(self, media: &Media, life: &Life<'_>, rng: &mut Rng) -> Result<bool, DeviceError> {
        let pages = match life.options {
            entresol_block::CacheOptions::Pages(options) => Some(options),
            entresol_block::CacheOptions::Fragments(_) => None,
        };
        match (self, pages) {
            (Self::FileSystemOnFlash, _) => make_file_system(&media.flash).map(|()| true),
            (Self::FileSystemOnDisk, _) => {
                make_file_system(if life.cache.objects { &media.log } else { &media.disk }).map(|()| true)
            }
            (Self::ObjectsDamaged, Some(options)) => {
                let layout = options.layout();
                let (from, to) = (layout.objects_offset(), layout.area_offset());
                media.flash.write(from, &vec![7; (to - from) as usize]).map(|()| true)
            }
            (Self::BlockOfObjectsDamaged, Some(options)) => {
                let layout = options.layout();
                let at = layout.objects_offset() + rng.below(layout.objects_blocks()) * BLOCK_BYTES as u64;
                media.flash.write(at, &[7; BLOCK_BYTES]).map(|()| true)
            }
            (Self::SummariesDamaged, Some(options)) => damage_summaries(&media.flash, options, rng),
            (Self::BatchesDamaged, Some(options)) => damage_batches(&media.flash, options, rng),
            (Self::SegmentDamaged, Some(options)) => {
                let layout = options.layout();
                let at = layout.slots_segment_offset(rng.below(layout.segments_of_slots()), 0);
                let block = rng.below(layout.segment_bytes() / BLOCK_BYTES as u64);
                media.flash.write(at + block * BLOCK_BYTES as u64, &[7; BLOCK_BYTES]).map(|()| true)
            }
            (_, None) => Ok(false),
        }
    }

    /// What remains may be enough.
    fn may_open(self) -> bool {
        !matches!(self, Self::FileSystemOnFlash | Self::FileSystemOnDisk)
    }
}

/// Whether the label file keeps writes that the disk could not sync.
fn has_kept_writes(label_file: &MemoryDevice) -> bool {
    let mut block = [0; BLOCK_BYTES];
    label_file.read(HEAD_AT, &mut block).is_ok() && RedoHead::decode(&block).is_ok_and(|head| head.is_kept)
}

/// Something happens to a copy of `media`, which `life` has left; then the cache is opened.
pub(super) fn look(life: &Life<'_>, media: &Media, oracles: &[Shared], seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let happened = Happened::draw(life, &mut rng);
    let changed = media.fork();
    if !happened.happen(&changed, life, &mut rng).map_err(|error| error.to_string())? {
        return Ok(());
    }
    let [flash, disk, label_file] = devices_on(changed);
    let known = Arc::new(Mutex::new(Rank::Test, *life.known.lock()));
    let (plan, journal, without_flash) = (Arc::new(FaultPlan::none()), blank_journal(), false);
    let after = Life { known: &known, plan, flash, disk, label_file, journal, without_flash, ..*life };
    let oracles: Vec<Shared> =
        oracles.iter().map(|oracle| Arc::new(parking_lot::Mutex::new(oracle.lock().after_power()))).collect();
    // An open in another mode may have been cut off before the superblock had that.
    let was_write_back =
        newest_superblock(&media.flash).is_none_or(|superblock| superblock.mode == Mode::WriteBack);
    let is_write_back = was_write_back && life.options.mode() == Mode::WriteBack;
    let is_whole = matches!(happened, Happened::BlockOfObjectsDamaged | Happened::SegmentDamaged);
    let is_emptied = happened.may_open() && !is_whole && !is_write_back;
    oracles.iter().for_each(|oracle| {
        let mut oracle = oracle.lock();
        oracle.is_emptied = is_emptied;
        oracle.straight_to_disk |= is_emptied;
    });
    let lived = simulation(rng.next_u64()).run(|| match after.open(false, None) {
        Err(told) => Ok(Some(told)),
        Ok(opened) => oracles.iter().try_for_each(|oracle| restarted(&opened, oracle)).map(|()| None),
    });
    let writes = after.flash.counters().writes + after.disk.counters().writes;
    // These are carried out whatever the cache is.
    let has_kept_writes = has_kept_writes(&media.log);
    let is_named = |told: &str| sentences(happened).iter().any(|sentence| told.contains(sentence));
    match lived {
        Outcome::Finished(Ok(Some(told))) if is_named(&told) && (writes == 0 || has_kept_writes) => Ok(()),
        Outcome::Finished(Ok(None)) if happened.may_open() => Ok(()),
        other => Err(format!("{happened:?} while the cache was closed: {other:?}, {writes} writes")),
    }
}

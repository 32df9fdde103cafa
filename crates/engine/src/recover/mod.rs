//! Bringing the directory back from flash (FaCE §4.2): newest superblock, directory segments, then the
//! summaries of the groups written after the newest complete segment. Page contents are not read, but for the
//! few groups that may have been in the middle of being written.
//!
//! Positions: `F` the front, `D` the newest known durable position, `R` the rear, all in whole groups.
//!
//! - `D` is the largest one recorded in the superblock or in any summary. Every group below it was complete
//!   and synced before that record was made: its summary is trusted. Groups from `D` on (never more than two
//!   stagings full) are trusted only as far as their pages match their checksums; a torn group is as if never
//!   written. Page by page (`face`), a page is the unit of a write: those that are whole count, and without a
//!   summary yet their own headers tell.
//! - The scan starts at the superblock's own durable position, which is never more than seven eighths of a
//!   ring behind (`tier/floor/superblocks.rs`), so it does not meet groups of another round.
//! - `R` ends the last group of which something is left. Beyond it, `staging groups` groups in a row hold
//!   nothing of this cache; no write was ever under way farther out.
//! - `F` is the largest front recorded anywhere, but at least `R - slots`. The true front may have been
//!   farther on. What is brought back of the positions between was destaged or superseded; that is harmless:
//!   (1) a slot is overwritten only when a durable record says that its old position is below the front
//!   (`tier/floor/superblocks.rs`), so these slots still hold what their entries say; (2) all later positions
//!   are brought back too, so a newer version on flash wins; (3) a newer version on disk alone cannot be:
//!   every version passes through flash at a later position, or leaves an invalidation there.
//! - A group that counts as never written while later ones are there gets a summary that says so, and an
//!   incomplete one a summary of what is left of it, before anything else is written: otherwise, once `D` has
//!   passed it, it would be trusted. And summaries at or beyond the rear of an earlier open that are older
//!   than that open are ignored: what was dropped once stays dropped.
//! - A group that was durable and is damaged looks like a torn one. The store compares its notes with
//!   [`Survivors`] to detect this. Missing groups are recorded in the superblock before the repair, for a
//!   restart that is cut off and begun again.

mod at_shutdown;
mod batches;
mod destage;
mod directory;
mod objects;
mod segments;
mod slots;
mod tail;
mod unsure;

use crate::api::Survivors;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::options::Flushed;
use crate::region::{Region, objects_config};
use crate::scan::{Reader, ScannedGroup};
use crate::superblock::write_superblock;
use crate::{OpenReport, TierError, TierOptions, points};
use entresol_core::{Forgotten, Position};
use entresol_device::Device;
use entresol_format::losses::Loss;
use entresol_format::summary;
use entresol_format::superblock::Superblock;
use entresol_format::{BLOCK_BYTES, Layout, LogPosition, PageFormat};
use entresol_objects::ObjectsConfig;
use std::sync::Arc;

pub(crate) use batches::{KeptSlots, prove_kept};
use directory::Filled;
use objects::Found;
pub(crate) use objects::{RestoredNames, SnapshotCopy, log_offset, snapshot_offset};
pub(crate) use segments::read_segment;
pub(crate) use slots::{RestoredSlots, read_directory, restore_slots};
pub(crate) use tail::Scan;
use unsure::UnsurePage;

/// A directory that was brought back.
pub(crate) struct Restored {
    /// The directory, and the table of objects.
    pub region: Region,
    /// What its objects are called.
    pub names: Arc<RestoredNames>,
    /// The copy of the table's newest snapshot that is not whole.
    snapshot: Option<SnapshotCopy>,
    /// All positions below are gone.
    pub front: Position,
    /// The next position.
    pub rear: Position,
    /// Groups before the rear of which something counts as never written.
    missing: Vec<u64>,
    group_pages: u64,
    /// Summaries to write before anything else.
    repairs: Vec<ScannedGroup>,
    /// Records of forgotten pages that no directory segment names, with the groups whose summaries do.
    pub records: Vec<(u64, Forgotten)>,
    /// Dirty pages of which it is not known whether the disk has them.
    unsure: Vec<UnsurePage>,
    /// Groups whose torn summaries are to be erased.
    erased: Vec<u64>,
    durable: Position,
    /// The greatest position in the owner's log that is on flash.
    pub log: LogPosition,
}

/// Brings back the directory that `superblock` leads to, for a tier with `options`, which fit it.
pub(crate) fn restore(
    flash: &dyn Device,
    superblock: &Superblock,
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<Restored, TierError> {
    let layout = options.layout();
    let mut reader = Reader::new(flash, superblock, layout);
    let known = known_flushed(superblock, options);
    let scan = Scan::of_tail(&mut reader, known.map_or(Position(0), |known| known.below))?;
    let mut region = Region::new(options, superblock.cache)?;
    let mut partition = region.partition();
    let log = partition.log_mut().expect("the cache that is found is a log");
    let Filled { records, unsure } = directory::fill(&mut reader, &scan, log)?;
    let (names, snapshot) = match objects_config(options, superblock.cache) {
        Some(config) => restore_objects(&mut reader, &scan, &config, &mut region)?,
        None => Default::default(),
    };
    let partition = region.partition();
    let occupancy = partition.occupancy();
    if cfg!(debug_assertions) {
        partition.check().expect("a restored directory keeps the invariants");
    }
    report.entries = occupancy.valid.into();
    report.dirty = occupancy.dirty.into();
    report.warm = occupancy.valid > 0;
    report.torn = scan.torn;
    if scan.torn > 0 || scan.is_doubtful || !scan.torn_summaries.is_empty() {
        tell_cut_off(known, options, report);
    }
    reader.report(report);
    let log = scan.log;
    let mut repairs = std::mem::take(&mut reader.rebuilt);
    let missing = scan.groups.iter().filter(|group| group.lost).map(|group| group.number).collect();
    repairs.extend(scan.groups.into_iter().filter(|group| group.repair));
    let (front, rear, durable, erased) = (scan.front, scan.rear, scan.durable, scan.torn_summaries);
    let group_pages = options.group_pages.into();
    let names = Arc::new(names);
    Ok(Restored {
        region,
        names,
        snapshot,
        front,
        rear,
        missing,
        group_pages,
        repairs,
        records,
        unsure,
        erased,
        durable,
        log,
    })
}

/// How far the cache was flushed, if a program before this one has told that, and power has not failed since.
fn known_flushed(superblock: &Superblock, options: &TierOptions) -> Option<Flushed> {
    options.flushed.filter(|flushed| {
        (flushed.cache, flushed.epoch) == (superblock.cache, superblock.epoch) && !superblock.clean
    })
}

/// Writes that count as never made, of raw pages: their owner has no log that tells.
fn tell_cut_off(known: Option<Flushed>, options: &TierOptions, report: &mut OpenReport) {
    if known.is_some() || options.page_format != PageFormat::Raw {
        return;
    }
    report.notices.push(
        "the newest writes to flash are not whole, and count as never made: they look like writes that a power failure cut off, \
         none of which was flushed; if power has not failed, the flash device is damaged, and what was flushed in the last second \
         before may be missing"
            .to_owned(),
    );
}

/// Brings back the table of objects, and drops the pages that it calls dead.
fn restore_objects(
    reader: &mut Reader<'_>,
    scan: &Scan,
    config: &ObjectsConfig,
    region: &mut Region,
) -> Result<(RestoredNames, Option<SnapshotCopy>), TierError> {
    let found = Found {
        flash: reader.flash,
        layout: &reader.layout,
        config,
        was_closed: reader.superblock.clean,
        is_new: scan.rear == Position(0),
        window: (scan.front, scan.rear),
    };
    let table = found.restore(region, |partition, recovered| {
        let entries = 0..partition.entries();
        if let Some(log) = partition.log_mut() {
            log.drop_dead(entries, |page, position| recovered.is_dead(page, position));
        }
    })?;
    reader.bytes_read += table.bytes;
    reader.notices.extend(table.notices);
    Ok((table.names, table.snapshot))
}

impl Restored {
    /// What is there and what is not, of the log that `superblock` led to.
    pub(crate) fn survivors(&self, superblock: &Superblock) -> Survivors {
        Survivors {
            epoch: superblock.epoch + 1,
            rear: self.rear.0 / self.group_pages,
            missing: self.missing.clone(),
            losses: superblock.losses,
        }
    }

    /// The disk has everything: entries that are dirty on flash were copied there since they were written.
    pub(crate) fn are_clean(&mut self) {
        if let Some(log) = self.region.partition().log_mut() {
            log.restored_clean();
        }
    }

    /// Says durably what is not there, before a repair, or groups written in its place, hide it.
    pub(crate) fn record_loss(
        &self,
        flash: &dyn Device,
        superblock: &mut Superblock,
    ) -> Result<(), TierError> {
        let rear = self.rear.0 / self.group_pages;
        let group = self.missing.iter().copied().min().map_or(rear, |first| first.min(rear));
        superblock.losses.note(Loss { epoch: superblock.epoch + 1, group });
        if self.repairs.is_empty() {
            // With the first superblock of the new epoch, before anything else.
            return Ok(());
        }
        superblock.sequence += 1;
        write_superblock(flash, superblock)
    }

    /// Writes what is missing or wrong of the newest snapshot of objects and of the summaries, durably.
    pub(crate) fn repair(
        &self,
        flash: &dyn Device,
        superblock: &Superblock,
        layout: &Layout,
    ) -> Result<(), TierError> {
        self.snapshot.iter().try_for_each(|snapshot| snapshot.repair(flash))?;
        if self.repairs.is_empty() && self.erased.is_empty() {
            return Ok(());
        }
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        for number in &self.erased {
            points::SUMMARY_ERASED.reach();
            for copy in 0..layout.summary_copies() {
                flash.write(layout.summary_offset(*number, copy), &block).map_err(flash_error)?;
            }
        }
        let copies = layout.summary_copies();
        // Where there are two, never both between two syncs.
        for last in 1..=copies {
            for group in &self.repairs {
                let copy = if last == copies { group.told_by } else { copies - 1 - group.told_by };
                self.encode(group, superblock, &mut block);
                flash.write(layout.summary_offset(group.number, copy), &block).map_err(flash_error)?;
            }
            flash.sync().map_err(flash_error)?;
        }
        Ok(())
    }

    /// The summary of a group as it is to be.
    fn encode(&self, group: &ScannedGroup, superblock: &Superblock, block: &mut [u8]) {
        points::REPAIRED.reach();
        // A summary says nothing of positions beyond its group: it was written before they were.
        let durable = self.durable.min(Position(group.number * self.group_pages));
        let head = summary::Head {
            version: superblock.version,
            group: group.number,
            cache: superblock.cache,
            epoch: superblock.epoch,
            durable,
            front: self.front.min(durable),
            ends: 0,
            written: self.group_pages as u32,
            flushed: self.group_pages as u32,
            revision: REVISION_OF_A_REPAIR,
            log: self.log,
        };
        summary::encode(block, &head, group.entries.iter().copied(), &group.records);
    }
}

/// Above all revisions that a group has while it is written.
const REVISION_OF_A_REPAIR: u64 = 1 << 32;

/// Whether a page that entered at `position` must be taken for newer than disk.
fn is_dirty(superblock: &Superblock, position: Position, recorded: bool) -> bool {
    recorded || superblock.is_unsure(position)
}

//! Checks a flash device: superblocks, binding, both summaries of each group, summaries against segments, and
//! the content of every current page. With the disk, it also checks that disk and flash agree on which copy
//! is newer.

use super::compare::{OnFlash, compare_with_disk};
use super::kept::check_kept;
use super::report::CheckReport;
use super::slots::check_slots;
use super::{newest, superblocks};
use crate::buffer::AlignedBuffer;
use crate::disk::binding::is_cut_off;
use crate::disk::{DiskPages, LabelState, WholeDisk, read_label};
use crate::error::flash_error;
use crate::names::NoNames;
use crate::recover::{Scan, read_segment};
use crate::scan::{Reader, ScannedGroup};
use crate::{OpenReport, TierError, TierOptions, recover, unreadable};
use entresol_core::{Directory, Forgotten, Lookup, Mode, PageId, Partition, Position};
use entresol_device::Device;
use entresol_format::superblock::Superblock;
use entresol_format::{BlockFault, summary};
use std::sync::Arc;

/// Checks the cache on `flash` and, with `disk`, whether both agree. The cache must not be open.
///
/// # Errors
/// [`TierError::Device`] if a device cannot be read. Everything else is in the report.
pub fn check(flash: &dyn Device, disk: Option<Arc<dyn Device>>) -> Result<CheckReport, TierError> {
    check_watched(flash, disk, &mut |_, _| {})
}

/// As [`check`]. `progress` is told how many groups, or slots, are read, and how many there are.
///
/// # Errors
/// As [`check`].
pub fn check_watched(
    flash: &dyn Device,
    disk: Option<Arc<dyn Device>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, TierError> {
    let mut report = CheckReport::default();
    match examine(flash, disk, &mut report, progress) {
        Err(error @ TierError::Device { .. }) => Err(error),
        Err(error) => {
            report.fault(error.to_string());
            Ok(report)
        }
        Ok(()) => Ok(report),
    }
}

fn examine(
    flash: &dyn Device,
    disk: Option<Arc<dyn Device>>,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), TierError> {
    let copies = superblocks(flash)?;
    let superblock = newest(&copies)?;
    check_copies(&copies, report);
    if let Some(disk) = &disk {
        check_binding(&**disk, &superblock, report)?;
    }
    let options = TierOptions::of(&superblock);
    let (needed, found) = (crate::flash_bytes(&options), flash.geometry().capacity_bytes);
    if found < needed {
        report
            .fault(format!("the flash device has {found} bytes, its cache takes {needed}: it is truncated"));
        return Ok(());
    }
    let home = |disk: Option<Arc<dyn Device>>| disk.map(|device| home_of(device, &superblock));
    match superblock.directory_kind() {
        Directory::Log => {}
        Directory::Slots => return check_slots(flash, home(disk), &superblock, report, progress),
        Directory::AtShutdown if superblock.directory => {
            return check_slots(flash, home(disk), &superblock, report, progress);
        }
        Directory::Batches => return check_kept(flash, home(disk).as_ref(), &superblock, report, progress),
        Directory::SegmentsAtShutdown if superblock.directory => {
            return check_kept(flash, home(disk).as_ref(), &superblock, report, progress);
        }
        Directory::SegmentsAtShutdown => {
            let why = "the cache was not closed, and begins empty: pages cannot be checked";
            report.notices.push(why.to_owned());
            return Ok(());
        }
        Directory::AtShutdown | Directory::None => {
            let why = "the directory of this policy does not survive: pages cannot be checked";
            report.notices.push(why.to_owned());
            return Ok(());
        }
    }
    let mut open = OpenReport::default();
    let mut restored = recover::restore(flash, &superblock, &options, &mut open)?;
    // Damage that recovery worked around is a fault, except for the effects of a crash.
    report.faults.append(&mut open.notices);
    if open.torn > 0 {
        report.notices.push(format!("{} groups or pages were being written at the crash", open.torn));
    }
    let partition = restored.region.partition();
    if let Err(violation) = partition.check() {
        report.fault(format!("the directory brought back breaks an invariant: {violation}"));
    }
    let mut reader = Reader::new(flash, &superblock, options.layout());
    let groups = all_groups(&mut reader, restored.front)?;
    report.groups = groups.len() as u64;
    check_summaries(&mut reader, restored.front, report)?;
    check_segments(&mut reader, &groups, restored.front, report)?;
    let mut disk = disk.map(|device| home_of(device, &superblock));
    if superblock.mode == Mode::WriteThrough && !superblock.clean && disk.take().is_some() {
        report.notices.push(
            "write-through and not shut down cleanly: pages on disk were not compared, redo decides"
                .to_owned(),
        );
    }
    Pages { reader, partition: &partition, disk, report }.check(&groups, progress)
}

fn home_of(device: Arc<dyn Device>, superblock: &Superblock) -> DiskPages {
    let page_bytes = superblock.page_bytes;
    let home = WholeDisk::new(device, page_bytes);
    DiskPages::at_home(home, Arc::new(NoNames), page_bytes, superblock.page_format)
}

fn check_copies(copies: &[Result<Superblock, BlockFault>], report: &mut CheckReport) {
    let mut damaged = Vec::new();
    for (at, copy) in copies.iter().enumerate() {
        if let Err(fault) = copy {
            damaged.push(format!("superblock copy {at} cannot be used: {fault}"));
        }
    }
    // A crash tears at most the copy being written.
    let list = if damaged.len() > 1 { &mut report.faults } else { &mut report.notices };
    list.append(&mut damaged);
    let caches = copies.iter().flatten().map(|superblock| (superblock.cache, superblock.disk));
    if caches.clone().any(|cache| Some(cache) != caches.clone().next()) {
        report.fault("the copies of the superblock are of different caches".to_owned());
    }
}

fn check_binding(
    disk: &dyn Device,
    superblock: &Superblock,
    report: &mut CheckReport,
) -> Result<(), TierError> {
    let label = match read_label(disk)? {
        LabelState::Valid(labels) => labels.newest,
        LabelState::Blank => {
            report.fault("the disk has no label: it is blank".to_owned());
            return Ok(());
        }
        LabelState::Unreadable(why) => {
            report.fault(format!("the disk's label cannot be read: {why}"));
            return Ok(());
        }
    };
    let pairs = [
        ("disk", superblock.disk.to_string(), label.disk.to_string()),
        ("cache", superblock.cache.to_string(), label.cache.to_string()),
        ("page size", superblock.page_bytes.to_string(), label.page_bytes.to_string()),
    ];
    for (what, on_flash, on_disk) in pairs {
        if on_flash != on_disk {
            report.fault(format!(
                "flash and disk do not belong together: {what} {on_flash} on flash, {on_disk} on disk"
            ));
        }
    }
    if superblock.epoch != label.epoch && !is_cut_off(superblock, &label) {
        report
            .fault(format!("the flash is of epoch {}, the disk of epoch {}", superblock.epoch, label.epoch));
    }
    Ok(())
}

/// All groups from the front to the rear.
fn all_groups(reader: &mut Reader<'_>, front: Position) -> Result<Vec<ScannedGroup>, TierError> {
    let group_pages = reader.group_pages();
    let durable = reader.superblock.durable.0;
    let mut groups = reader.durable_groups(front.0 / group_pages, durable / group_pages)?;
    let scan = Scan::of_tail(reader, Position(0))?;
    groups.extend(scan.groups.into_iter().filter(|group| group.number * group_pages >= front.0));
    Ok(groups)
}

/// Each durable group has both its summaries, if the format has two. One is enough to open the cache.
fn check_summaries(
    reader: &mut Reader<'_>,
    front: Position,
    report: &mut CheckReport,
) -> Result<(), TierError> {
    let group_pages = reader.group_pages();
    let durable = reader.superblock.durable.0 / group_pages;
    for (group, copy) in reader.lone_summaries(front.0 / group_pages, durable)? {
        report.fault(format!(
            "group {group}: copy {copy} of its summary is missing or damaged, and nothing but the other copy says what its \
             pages are; the device has lost or damaged a block: copy what is on it to another one, or detach the cache"
        ));
    }
    Ok(())
}

/// Each entry of a segment names the same page as the group's summary.
fn check_segments(
    reader: &mut Reader<'_>,
    groups: &[ScannedGroup],
    front: Position,
    report: &mut CheckReport,
) -> Result<(), TierError> {
    let (superblock, group_pages) = (reader.superblock, reader.group_pages());
    let entries = u64::from(superblock.segment_entries);
    for number in superblock.segment_first..superblock.segment_next {
        if (number + 1) * entries <= front.0 {
            continue;
        }
        let segment = match read_segment(reader, number)? {
            Ok(views) => views,
            Err(why) => {
                report.fault(format!("directory segment {number}: {why}"));
                continue;
            }
        };
        report.segments += 1;
        for (at, view) in segment.views.into_iter().enumerate() {
            let position = number * entries + at as u64;
            let Some(group) = (position >= front.0)
                .then(|| groups.binary_search_by_key(&(position / group_pages), |group| group.number).ok())
                .flatten()
            else {
                continue;
            };
            let entry: Option<summary::Entry> = groups[group].entries[(position % group_pages) as usize];
            // The dirty flag may have changed since the group was written (write-through).
            let (listed, written) = (view.map(|view| view.page), entry.map(|entry| entry.page));
            let forgotten = |page: PageId| {
                let records = groups.iter().flat_map(|group| &group.records);
                let names = |record: &&Forgotten| {
                    (record.first..=record.last).contains(&page) && position < record.below.0
                };
                records.into_iter().find(names).is_some()
            };
            if listed != written && !(listed.is_none() && written.is_some_and(forgotten)) {
                report.fault(format!(
                    "position {position}: directory segment {number} says {listed:?}, the group's summary {written:?}"
                ));
            }
        }
    }
    Ok(())
}

struct Pages<'a, 'r> {
    reader: Reader<'a>,
    partition: &'a Partition<'r>,
    disk: Option<DiskPages>,
    report: &'a mut CheckReport,
}

impl Pages<'_, '_> {
    fn check(
        &mut self,
        groups: &[ScannedGroup],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), TierError> {
        let superblock = self.reader.superblock;
        let page_bytes = superblock.page_bytes as usize;
        let mut buffer = AlignedBuffer::new(superblock.group_pages as usize * page_bytes);
        let mut disk_page = AlignedBuffer::new(page_bytes);
        for (nth, group) in groups.iter().enumerate() {
            progress(nth as u64, groups.len() as u64);
            let offset = self.reader.layout.pages_offset(group.number);
            unreadable::read(self.reader.flash, offset, &mut buffer).map_err(flash_error)?;
            let first = self.reader.position(group.number).0;
            for (at, entry) in group.entries.iter().enumerate() {
                let Some(entry) = entry else { continue };
                let position = Position(first + at as u64);
                let bytes = &buffer[at * page_bytes..(at + 1) * page_bytes];
                self.check_page(position, entry, bytes, &mut disk_page)?;
            }
        }
        Ok(())
    }

    fn check_page(
        &mut self,
        position: Position,
        entry: &summary::Entry,
        bytes: &[u8],
        disk_page: &mut [u8],
    ) -> Result<(), TierError> {
        let newest = match self.partition.peek(entry.page) {
            Lookup::Flash { generation, dirty, .. } => generation.matches(position).then_some(dirty),
            Lookup::Staged { .. } | Lookup::Absent => None,
        };
        // A superseded version is not needed.
        let Some(dirty) = newest else { return Ok(()) };
        self.report.pages += 1;
        let stamp = self.reader.superblock.stamps().stamp(position);
        let page_format = self.reader.superblock.page_format;
        let found = page_format.verify(bytes, entry.page, stamp, entry.checksum);
        let sound = found.map_err(|fault| unreadable::fault_of(bytes, fault)).and_then(|()| {
            if page_format.lsn(bytes) == entry.lsn {
                Ok(())
            } else {
                Err("its LSN is not the one in the group's summary".to_owned())
            }
        });
        if let Err(fault) = sound {
            let age = if dirty { "newer than disk" } else { "the disk has it, too" };
            self.report.fault(format!("page {} at position {} ({age}): {fault}", entry.page, position.0));
            return Ok(());
        }
        let Some(disk) = &self.disk else { return Ok(()) };
        let page = OnFlash { id: entry.page, dirty, bytes };
        compare_with_disk(self.reader.superblock, disk, &page, disk_page, self.report)
    }
}

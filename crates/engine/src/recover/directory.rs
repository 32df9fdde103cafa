//! Fills the core's directory in ascending order of position: segments, then the groups after them that the
//! superblock records as durable, then the tail. The newest version of each page wins.
//!
//! A segment's mark that an entry was superseded is ignored, because the version that superseded it may have
//! been lost:
//!
//! 1. Groups `g` and `g + 1` are under way, and `g + 1` is done first: its pages supersede entries of the
//!    segment.
//! 2. The segment is written. No record says yet that `g + 1` is durable.
//! 3. Power fails, and `g + 1` is damaged: it counts as never written.
//! 4. The entry is the newest version left, and may be dirty.
//!
//! If the newer version is present, it is later in the order of positions and wins.
//!
//! A page that was found by its own header has no base. It may have been copied to disk before the horizon,
//! and then must not be written there again: [`super::unsure`] looks.

use super::tail::Scan;
use super::unsure::UnsurePage;
use super::{is_dirty, read_segment};
use crate::TierError;
use crate::points;
use crate::scan::{Reader, ScannedGroup};
use entresol_core::{Forgotten, Log, PageId, Position};
use entresol_format::StoredBase;
use entresol_format::superblock::Superblock;

/// What was filled in, but for the directory itself.
pub(super) struct Filled {
    /// Records of forgotten pages that no directory segment names, with the groups whose summaries do.
    pub records: Vec<(u64, Forgotten)>,
    /// Dirty pages without a base, of a cache that keeps bases.
    pub unsure: Vec<UnsurePage>,
}

/// Fills `log`.
pub(super) fn fill(reader: &mut Reader<'_>, scan: &Scan, log: &mut Log<'_>) -> Result<Filled, TierError> {
    let superblock = reader.superblock;
    let entries = u64::from(superblock.segment_entries);
    let mut fill = Fill { scan, log, records: Vec::new(), unsure: Vec::new() };
    fill.log.restore_begin(scan.front);
    fill.log.restore_checkpoint(superblock.checkpoint);
    // Positions before the first segment, if the front is not beyond them.
    let before = (superblock.segment_first * entries).min(superblock.durable.0);
    fill.enter_groups(reader, scan.front.0..before)?;
    for number in superblock.segment_first..superblock.segment_next {
        let (start, end) = (number * entries, (number + 1) * entries);
        if end <= scan.front.0 {
            continue;
        }
        match read_segment(reader, number)? {
            Ok(segment) => {
                points::SEGMENT_USED.reach();
                for (at, (view, base)) in segment.views.iter().zip(&segment.bases).enumerate() {
                    let position = Position(start + at as u64);
                    let Some(view) = view.filter(|_| position >= scan.front) else { continue };
                    fill.restore(superblock, position, (view.page, view.dirty), (view.proof, *base));
                }
                let group = start / reader.group_pages();
                fill.records.extend(segment.records.iter().map(|record| (group, *record)));
                if segment.records_incomplete {
                    points::SEGMENT_RECORDS_INCOMPLETE.reach();
                    fill.records_of_groups(reader, start..end)?;
                }
            }
            Err(why) => {
                points::SEGMENT_DAMAGED.reach();
                reader.notices.push(format!(
                    "directory segment {number} cannot be used ({why}); the summaries of its groups are read instead"
                ));
                fill.enter_groups(reader, start..end)?;
            }
        }
    }
    let covered = superblock.segment_next * entries;
    fill.enter_groups(reader, scan.front.0.max(covered)..superblock.durable.0)?;
    for group in &scan.groups {
        fill.enter(reader, group);
    }
    let Fill { mut records, unsure, .. } = fill;
    // At last: a record may be named by the summary of a group before its position. It touches no copy at
    // its position and after it.
    for (_, record) in records.iter().filter(|(_, record)| record.below > scan.front) {
        log.restore_forget(record);
    }
    records.retain(|(group, _)| group * reader.group_pages() >= covered);
    log.restore_end(scan.rear);
    Ok(Filled { records, unsure })
}

struct Fill<'a, 'p, 'r> {
    scan: &'a Scan,
    log: &'p mut Log<'r>,
    /// With the groups that name them.
    records: Vec<(u64, Forgotten)>,
    unsure: Vec<UnsurePage>,
}

impl Fill<'_, '_, '_> {
    fn enter_groups(
        &mut self,
        reader: &mut Reader<'_>,
        positions: std::ops::Range<u64>,
    ) -> Result<(), TierError> {
        let first = positions.start.max(self.scan.front.0) / reader.group_pages();
        for group in reader.durable_groups(first, positions.end / reader.group_pages())? {
            self.enter(reader, &group);
            if group.repair {
                reader.rebuilt.push(group);
            }
        }
        Ok(())
    }

    /// Only the records of groups whose pages are known already.
    fn records_of_groups(
        &mut self,
        reader: &mut Reader<'_>,
        positions: std::ops::Range<u64>,
    ) -> Result<(), TierError> {
        let first = positions.start.max(self.scan.front.0) / reader.group_pages();
        for group in reader.durable_groups(first, positions.end / reader.group_pages())? {
            self.records.extend(group.records.iter().map(|record| (group.number, *record)));
        }
        Ok(())
    }

    /// Restores a page with its checksum and its base. A page with a base before the recorded horizon was
    /// copied to disk durably: it is clean. It must not be written there again, since the owner's log may
    /// have no image of it any more, by which a torn page is repaired. A page without a base has the horizon.
    fn restore(
        &mut self,
        superblock: &Superblock,
        position: Position,
        (page, recorded): (PageId, bool),
        (proof, base): (u32, Option<StoredBase>),
    ) {
        let base = base.map(|base| base.number(superblock.checkpoint));
        let is_old = position < superblock.based_from || base.is_some_and(|base| base < superblock.horizon);
        let is_copied = superblock.knows_bases() && is_old;
        let dirty = is_dirty(superblock, position, recorded && !is_copied);
        self.log.restore_entry(position, page, dirty);
        self.log.restore_proof(position, proof);
        if superblock.knows_bases() {
            // A later checkpoint than the superblock knows counts as that one.
            let base = base.map_or(superblock.horizon, |base| base.min(superblock.checkpoint));
            self.log.restore_base(position, base);
        } else {
            self.log.restore_unknown_base(position);
        }
    }

    fn enter(&mut self, reader: &Reader<'_>, group: &ScannedGroup) {
        let start = reader.position(group.number);
        if start < self.scan.front {
            return;
        }
        self.records.extend(group.records.iter().map(|record| (group.number, *record)));
        for (at, entry) in group.entries.iter().enumerate() {
            if let Some(entry) = entry {
                let position = Position(start.0 + at as u64);
                self.restore(
                    reader.superblock,
                    position,
                    (entry.page, entry.dirty),
                    (entry.checksum, entry.base),
                );
                if reader.superblock.knows_bases() && entry.dirty && entry.base.is_none() {
                    self.unsure.push(UnsurePage { position, page: entry.page, lsn: entry.lsn });
                }
            }
        }
    }
}

//! Filling the core's directory in ascending order of position: segments, then the groups behind them that
//! the superblock knows to be durable, then the tail. The newest version of each page wins.
//!
//! A segment's word that an entry was superseded is not taken. The version that superseded it may have been
//! lost:
//!
//! 1. groups `g` and `g + 1` are under way, and `g + 1` is done first: its pages supersede entries of the
//!    segment;
//! 2. the segment is written; nothing yet records that `g + 1` is durable;
//! 3. power fails, and `g + 1` is damaged: it counts as never written;
//! 4. the entry is the newest version that is left, and may be newer than disk.
//!
//! If the newer version is there, it comes later in the order of positions and wins.

use super::scan::{Reader, Scan, ScannedGroup};
use super::{is_dirty, read_segment};
use crate::TierError;
use crate::points;
use entresol_core::{Partition, Position};

pub(crate) fn fill(
    reader: &mut Reader<'_>,
    scan: &Scan,
    partition: &mut Partition<'_>,
) -> Result<(), TierError> {
    let superblock = reader.superblock;
    let entries = u64::from(superblock.segment_entries);
    partition.restore_begin(scan.front);
    // Positions before the first segment, if the front did not pass them.
    let before = (superblock.segment_first * entries).min(superblock.durable.0);
    fill_from_groups(reader, scan, scan.front.0..before, partition)?;
    for number in superblock.segment_first..superblock.segment_next {
        let (start, end) = (number * entries, (number + 1) * entries);
        if end <= scan.front.0 {
            continue;
        }
        match read_segment(reader, number)? {
            Ok(views) => {
                points::SEGMENT_USED.reach();
                for (at, view) in views.into_iter().enumerate() {
                    let position = Position(start + at as u64);
                    let Some(view) = view.filter(|_| position >= scan.front) else { continue };
                    let dirty = is_dirty(superblock, position, view.dirty);
                    partition.restore_entry(position, view.page, dirty);
                }
            }
            Err(why) => {
                points::SEGMENT_DAMAGED.reach();
                reader.notices.push(format!(
                    "directory segment {number} cannot be used ({why}); the summaries of its groups are read instead"
                ));
                fill_from_groups(reader, scan, start..end, partition)?;
            }
        }
    }
    let covered = scan.front.0.max(superblock.segment_next * entries);
    fill_from_groups(reader, scan, covered..superblock.durable.0, partition)?;
    for group in &scan.groups {
        enter(reader, group, scan.front, partition);
    }
    partition.restore_end(scan.rear);
    Ok(())
}

fn fill_from_groups(
    reader: &mut Reader<'_>,
    scan: &Scan,
    positions: std::ops::Range<u64>,
    partition: &mut Partition<'_>,
) -> Result<(), TierError> {
    let first = positions.start.max(scan.front.0) / reader.group_pages();
    for group in reader.durable_groups(first, positions.end / reader.group_pages())? {
        enter(reader, &group, scan.front, partition);
        if group.repair {
            reader.rebuilt.push(group);
        }
    }
    Ok(())
}

fn enter(reader: &Reader<'_>, group: &ScannedGroup, front: Position, partition: &mut Partition<'_>) {
    let start = reader.position(group.number);
    if start < front {
        return;
    }
    group.invalidations.iter().for_each(|page| partition.restore_invalidate(*page));
    for (at, entry) in group.entries.iter().enumerate() {
        if let Some(entry) = entry {
            let position = Position(start.0 + at as u64);
            let dirty = is_dirty(reader.superblock, position, entry.dirty);
            partition.restore_entry(position, entry.page, dirty);
        }
    }
}

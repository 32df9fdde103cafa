//! Finds the groups on flash after the superblock's durable position, and decides which of them can be
//! trusted.

use crate::scan::{BATCH, Block, Raw, Reader, ScannedGroup};
use crate::{TierError, points};
use entresol_core::Position;
use entresol_format::LogPosition;

/// What the scan found.
pub(crate) struct Scan {
    /// Groups in ascending order; those missing between hold nothing.
    pub groups: Vec<ScannedGroup>,
    pub front: Position,
    pub durable: Position,
    pub rear: Position,
    /// Groups (or pages, page by page) that were not written completely.
    pub torn: u64,
    /// Groups at or beyond the rear whose summaries are damaged: of writes that a power failure tore. In
    /// their places is nothing that is needed.
    pub torn_summaries: Vec<u64>,
    /// The greatest position in the owner's log.
    pub log: LogPosition,
    /// Of a group that may have been in the middle of being written, one summary is damaged.
    pub is_doubtful: bool,
}

/// The newest summary of a group is damaged, and what it said was durable.
fn flush_lost(group: u64) -> TierError {
    points::FLUSH_LOST.reach();
    TierError::Refused(format!(
        "what was flushed to group {group} of the flash cache is not there any more, and power has not failed since: its newest \
         summary is damaged; nothing was changed: check the flash device, and restore the disk from a backup; or remove the \
         volume's journal, and what was flushed before counts, with older versions of some pages"
    ))
}

impl Scan {
    /// Looks at the groups from the superblock's durable position up to the rear. Everything below `flushed`
    /// was durable, and power has not failed since.
    pub(crate) fn of_tail(reader: &mut Reader<'_>, flushed: Position) -> Result<Scan, TierError> {
        let superblock = reader.superblock;
        let group_pages = reader.group_pages();
        let staging = superblock.staging_groups as usize;
        let first = superblock.durable.0 / group_pages;
        let mut raws: Vec<Block> = Vec::new();
        let (mut durable, mut front) = (superblock.durable, superblock.front);
        let mut valid = 0;
        let mut log = superblock.log;
        // No superblock is a ring behind, so the tail does not meet itself.
        while (raws.len() - valid < staging || reader.position(first + valid as u64) < durable)
            && (raws.len() as u64) < reader.layout.groups()
        {
            let count = BATCH.min(reader.layout.groups() as usize - raws.len());
            for raw in reader.both_summaries(first + raws.len() as u64, count)? {
                if let Some(raw) = raw.summary() {
                    durable = durable.max(raw.head.durable);
                    log = log.max(raw.head.log);
                    if raw.head.front > front {
                        front = raw.head.front;
                    }
                    valid = raws.len() + 1;
                }
                raws.push(raw);
            }
        }
        raws.truncate(valid + staging);
        let rear = durable.max(superblock.session_rear);
        let damaged =
            |(at, block): (usize, &Block)| matches!(block, Block::Damaged).then_some(first + at as u64);
        let torn_summaries = raws.iter().enumerate().filter_map(damaged).collect();
        let is_doubtful = false;
        let mut scan =
            Scan { groups: Vec::new(), front, durable, rear, torn: 0, torn_summaries, log, is_doubtful };
        let known_durable = ((durable.0 / group_pages).saturating_sub(first) as usize).min(raws.len());
        let unsure = raws.split_off(known_durable);
        let looked_at = first + (known_durable + unsure.len()) as u64;
        for (number, raw) in (first + known_durable as u64..).zip(unsure) {
            scan.judge(reader, number, raw, flushed)?;
        }
        if reader.position(looked_at) < flushed {
            return Err(flush_lost(looked_at));
        }
        let oldest = scan.rear.0.saturating_sub(superblock.slots.into());
        scan.front = Position(scan.front.0.max(oldest));
        // The content beyond the rear counts as never written.
        let rear = scan.rear;
        scan.groups.retain(|group| Position(group.number * group_pages) < rear);
        // In a ring that is nearly full, the places beyond the rear are those of groups that are needed.
        // Nothing was written over them before it was durable that the front has passed them.
        let needed = scan.front.0 / group_pages + reader.layout.groups();
        let beyond = rear.0.div_ceil(group_pages)..needed;
        scan.torn_summaries.retain(|number| beyond.contains(number));
        let mut groups = Vec::with_capacity(known_durable + scan.groups.len());
        for (number, block) in (first..).zip(raws) {
            // What the front has passed is not needed. (Nor was it written over: nothing is written a ring
            // beyond the superblock's durable position, where this scan begins.)
            if block.summary().is_some() || reader.position(number) >= scan.front {
                groups.push(reader.durable_group(number, block)?);
            }
        }
        groups.append(&mut scan.groups);
        scan.groups = groups;
        Ok(scan)
    }

    /// Looks into a group that may have been in the middle of being written.
    fn judge(
        &mut self,
        reader: &mut Reader<'_>,
        number: u64,
        block: Block,
        flushed: Position,
    ) -> Result<(), TierError> {
        let superblock = reader.superblock;
        let by_group = superblock.policy.by_group();
        let known = flushed.0.saturating_sub(reader.position(number).0).min(reader.group_pages()) as u32;
        if known > block.summary().map_or(0, |raw| raw.head.written) {
            return Err(flush_lost(number));
        }
        let group = match block {
            Block::Summary(mut raw) => {
                // A page of it that is damaged is no torn write, and is an error for its readers.
                raw.head.flushed = raw.head.flushed.max(known);
                let torn = reader.verify(&mut raw, by_group)?;
                let Raw { mut group, head, is_lone } = raw;
                self.is_doubtful |= is_lone;
                if torn > 0 {
                    if by_group {
                        points::TORN_GROUP.reach()
                    } else {
                        points::TORN_PAGE.reach()
                    }
                    (group.repair, group.lost) = (true, true);
                    if !by_group {
                        group.nothing = group.entries.iter().all(Option::is_none);
                    }
                    // What was flushed may be records of forgotten pages alone.
                    group.nothing &= head.flushed == 0;
                }
                if head.written < superblock.group_pages {
                    // It was flushed, and is closed as it is.
                    points::FLUSHED_GROUP.reach();
                    group.repair = true;
                }
                self.torn += torn;
                group
            }
            Block::Other | Block::Damaged
                if by_group || superblock.clean || !superblock.page_format.names_itself() =>
            {
                let entries = vec![None; reader.group_pages() as usize];
                let records = Vec::new();
                ScannedGroup { number, entries, records, repair: true, lost: true, nothing: true, told_by: 0 }
            }
            Block::Other | Block::Damaged => {
                points::NO_SUMMARY.reach();
                reader.read_headers(number)?.0
            }
        };
        if !group.nothing {
            self.rear = self.rear.max(reader.position(number + 1));
        }
        self.groups.push(group);
        Ok(())
    }
}

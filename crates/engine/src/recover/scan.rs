//! Finds the groups on flash after the newest complete segment, and decides which of them can be trusted.

use super::from_header;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::{OpenReport, TierError, points, unreadable};
use arrayvec::ArrayVec;
use entresol_core::{PageId, Position, STAGING_GROUPS_MAX, SlotId, mutant};
use entresol_device::{Device, Io};
use entresol_format::page;
use entresol_format::summary::{Entry, Summary};
use entresol_format::superblock::Superblock;
use entresol_format::{BLOCK_BYTES, BlockFault, Layout};

/// Summaries read at once.
const BATCH: usize = 32;

/// Reads from flash and counts.
pub(crate) struct Reader<'a> {
    pub flash: &'a dyn Device,
    pub superblock: &'a Superblock,
    pub layout: Layout,
    blocks: AlignedBuffer,
    pages: AlignedBuffer,
    pub summaries_read: u64,
    pub segments_read: u64,
    pub pages_verified: u64,
    pub bytes_read: u64,
    pub notices: Vec<String>,
    /// Durable groups whose summaries were damaged.
    pub rebuilt: Vec<ScannedGroup>,
}

/// What is known of a group.
#[derive(Clone, Debug)]
pub(crate) struct ScannedGroup {
    /// Counted from the first ever.
    pub number: u64,
    /// A page for each position, where there is one.
    pub entries: Vec<Option<Entry>>,
    /// Pages whose older copies are stale.
    pub invalidations: Vec<PageId>,
    /// Its summary on flash says something else, or there is none.
    pub repair: bool,
}

/// What the scan found.
pub(crate) struct Scan {
    /// Groups in ascending order; those missing between hold nothing.
    pub groups: Vec<ScannedGroup>,
    pub front: Position,
    pub durable: Position,
    pub rear: Position,
    /// Groups (or pages, page by page) that were not written completely.
    pub torn: u64,
    /// Groups at or beyond the rear whose summaries are damaged: of writes that a power failure tore.
    pub torn_summaries: Vec<u64>,
}

/// A group's summary as it lies on flash.
struct Raw {
    group: ScannedGroup,
    durable: Position,
    front: Position,
}

/// What lies where a group's summary belongs.
enum Block {
    /// It.
    Summary(Raw),
    /// Something whole: nothing, or what was written there in another round. The group's own is not there, or
    /// not yet.
    Other,
    /// Something damaged.
    Damaged,
}

impl Block {
    fn summary(&self) -> Option<&Raw> {
        match self {
            Block::Summary(raw) => Some(raw),
            Block::Other | Block::Damaged => None,
        }
    }
}

/// Whether a block is of another kind, such as a page that the device has sent to a wrong place, and not one
/// whose magic is damaged in a byte, or that cannot be read.
fn is_another(expected: [u8; 8], found: [u8; 8]) -> bool {
    let different = expected.iter().zip(found).filter(|(expected, found)| **expected != *found).count();
    different > 1 && !unreadable::is_pattern(&found)
}

impl<'a> Reader<'a> {
    pub(crate) fn new(flash: &'a dyn Device, superblock: &'a Superblock, layout: Layout) -> Self {
        let group = superblock.group_pages as usize * superblock.page_bytes as usize;
        Self {
            flash,
            superblock,
            layout,
            blocks: AlignedBuffer::new(BATCH.min(layout.groups() as usize) * BLOCK_BYTES),
            pages: AlignedBuffer::new(group),
            summaries_read: 0,
            segments_read: 0,
            pages_verified: 0,
            bytes_read: 0,
            notices: Vec::new(),
            rebuilt: Vec::new(),
        }
    }

    pub(crate) fn report(&mut self, report: &mut OpenReport) {
        report.summaries_read = self.summaries_read;
        report.segments_read = self.segments_read;
        report.pages_verified = self.pages_verified;
        report.bytes_read = self.bytes_read;
        report.notices.append(&mut self.notices);
    }

    pub(crate) fn group_pages(&self) -> u64 {
        self.superblock.group_pages.into()
    }

    pub(crate) fn position(&self, group: u64) -> Position {
        Position(group * self.group_pages())
    }

    /// Reads the summaries of `count` groups from `first` on, at most [`BATCH`].
    fn summaries(&mut self, first: u64, count: usize) -> Result<Vec<Block>, TierError> {
        let mut batch = ArrayVec::<Io<'_>, BATCH>::new();
        for (at, buffer) in self.blocks.chunks_exact_mut(BLOCK_BYTES).take(count).enumerate() {
            batch.push(Io::Read { offset: self.layout.summary_offset(first + at as u64), buffer });
        }
        unreadable::read_batch(self.flash, &mut batch).map_err(flash_error)?;
        drop(batch);
        self.summaries_read += count as u64;
        self.bytes_read += (count * BLOCK_BYTES) as u64;
        let blocks = self.blocks.chunks_exact(BLOCK_BYTES).take(count).enumerate();
        Ok(blocks.map(|(at, block)| self.judge_block(first + at as u64, block)).collect())
    }

    fn judge_block(&self, number: u64, block: &[u8]) -> Block {
        match Summary::decode(block, self.superblock.group_pages) {
            Ok(summary) => self.accept(number, &summary).map_or(Block::Other, Block::Summary),
            Err(BlockFault::Blank) => Block::Other,
            Err(BlockFault::Magic { expected, found }) if is_another(expected, found) => Block::Other,
            Err(_) => Block::Damaged,
        }
    }

    /// `None`: it is of another cache, group or life.
    fn accept(&self, number: u64, summary: &Summary<'_>) -> Option<Raw> {
        let head = summary.head;
        let left_over =
            self.position(number) >= self.superblock.session_rear && head.epoch < self.superblock.epoch;
        let left_over = left_over && !mutant!("leftover-of-older-epoch-accepted");
        if left_over {
            points::LEFTOVER.reach();
        }
        if head.group != number || head.cache != self.superblock.cache || left_over {
            return None;
        }
        let whole = |position: Position| position.0.is_multiple_of(self.group_pages());
        if !whole(head.durable) || !whole(head.front) || head.front > head.durable {
            return None;
        }
        if head.durable > self.position(number) {
            return None;
        }
        let group = ScannedGroup {
            number,
            entries: summary.entries().collect(),
            invalidations: summary.invalidations().collect(),
            repair: false,
        };
        Some(Raw { group, durable: head.durable, front: head.front })
    }

    /// Reads the pages of a group.
    fn read_pages(&mut self, number: u64) -> Result<(), TierError> {
        unreadable::read(self.flash, self.layout.group_offset(number), &mut self.pages)
            .map_err(flash_error)?;
        self.pages_verified += self.group_pages();
        self.bytes_read += self.pages.len() as u64;
        Ok(())
    }

    fn page(&self, at: usize) -> &[u8] {
        let page_bytes = self.superblock.page_bytes as usize;
        &self.pages[at * page_bytes..(at + 1) * page_bytes]
    }

    fn is_at(&self, page: &[u8], position: Position) -> bool {
        page::header(page).generation.get() == self.superblock.stamps().stamp(position).0
    }

    /// Whether `page`, found in the slot of `position`, is one of this cache that belongs elsewhere. (In a
    /// group that was not full the page of an earlier round stays in its slot.)
    fn is_stray(&self, page: &[u8], position: Position) -> bool {
        let slots = u64::from(self.superblock.slots);
        let stamp = Position(page::header(page).generation.get());
        let found = self.superblock.stamps().position_in(SlotId((position.0 % slots) as u32), stamp).0;
        let of_this_cache = found < position.0 + 2 * slots;
        of_this_cache && (found > position.0 || !(position.0 - found).is_multiple_of(slots))
    }

    /// Takes out the entries of `group` whose pages are not whole. Returns how many these were.
    fn verify(&mut self, group: &mut ScannedGroup) -> Result<u64, TierError> {
        self.read_pages(group.number)?;
        let first = self.position(group.number).0;
        let mut torn = 0;
        for at in 0..group.entries.len() {
            let Some(entry) = group.entries[at] else { continue };
            let page = self.page(at);
            let whole = page::verify(page, entry.page, None).is_ok()
                && page::header(page).checksum.get() == entry.checksum
                && self.is_at(page, Position(first + at as u64));
            if !whole && !mutant!("torn-group-accepted") {
                group.entries[at] = None;
                torn += 1;
            }
        }
        Ok(torn)
    }

    /// A group without a summary: what the headers of its pages tell. Returns the places of pages that are
    /// damaged, too, or are there instead of what was written there.
    fn read_headers(&mut self, number: u64) -> Result<(ScannedGroup, Vec<usize>), TierError> {
        self.read_pages(number)?;
        let first = self.position(number).0;
        let mut damaged = Vec::new();
        let entries = (0..self.superblock.group_pages as usize).map(|at| {
            let page = self.page(at);
            let id = PageId(page::header(page).page.get());
            let sound = page::verify(page, id, None).is_ok();
            let position = Position(first + at as u64);
            if !sound && page.iter().any(|byte| *byte != 0) || sound && self.is_stray(page, position) {
                damaged.push(at);
            }
            (sound && self.is_at(page, position)).then(|| from_header(page, id))
        });
        let entries = entries.collect();
        Ok((ScannedGroup { number, entries, invalidations: Vec::new(), repair: true }, damaged))
    }

    /// The groups from `first` to before `end`, all of which are durable.
    pub(crate) fn durable_groups(&mut self, first: u64, end: u64) -> Result<Vec<ScannedGroup>, TierError> {
        let mut groups = Vec::new();
        let mut at = first;
        while at < end {
            let count = ((end - at) as usize).min(BATCH);
            for (place, block) in self.summaries(at, count)?.into_iter().enumerate() {
                groups.push(self.durable_group(at + place as u64, block)?);
            }
            at += count as u64;
        }
        Ok(groups)
    }

    /// A group that is durable, with what lies where its summary belongs.
    fn durable_group(&mut self, number: u64, block: Block) -> Result<ScannedGroup, TierError> {
        match block {
            Block::Summary(raw) => Ok(raw.group),
            Block::Other => self.rebuild(number, true),
            Block::Damaged => self.rebuild(number, false),
        }
    }

    /// A durable group without its summary: its pages' headers tell, if all of them can be read. If its write
    /// is `lost`, what is missing may be so, too: the group was not full only if its summary said so. And
    /// what is there may be left over:
    ///
    /// 1. a life writes the pages of the group, and power fails before its summary is durable;
    /// 2. the next life gives the same positions out again, and the device loses its write of the group;
    /// 3. the pages of 1 have the right positions, and are older than those of 2.
    ///
    /// So a group of the last life whose write is lost is never rebuilt if the life before may have written
    /// there, which had at most so many groups under way as staging can hold. A summary that power has torn
    /// is erased by the next open ([`super::Restored::repair`]): a damaged one is of the group's own write.
    fn rebuild(&mut self, number: u64, lost: bool) -> Result<ScannedGroup, TierError> {
        let (group, damaged) = self.read_headers(number)?;
        let missing = group.entries.iter().position(Option::is_none);
        let ahead = number.checked_sub(self.superblock.session_rear.0 / self.group_pages());
        let is_left_over = ahead.is_some_and(|ahead| ahead < STAGING_GROUPS_MAX.into());
        if lost && (missing.is_some() || is_left_over) {
            points::GROUP_LOST.reach();
            let what = match missing {
                Some(at) => format!("its page at place {at} is missing"),
                None => "the pages there may be of a group that a crash took back".to_owned(),
            };
            return Err(TierError::Refused(format!(
                "group {number} was durable on flash, but an older one lies in its place, and {what}: the device has lost \
                 a write; pages newer than disk may be lost with it; restore the flash device, or wipe it and recover the \
                 database from a backup"
            )));
        }
        if let Some(at) = damaged.first() {
            points::GROUP_DAMAGED.reach();
            return Err(TierError::Refused(format!(
                "the summary of group {number} on flash is damaged, and so is the page at place {at} of it: a page newer \
                 than disk may be lost; restore the flash device, or wipe it and recover the database from a backup"
            )));
        }
        points::REBUILT.reach();
        let found = group.entries.iter().flatten().count();
        self.notices.push(format!(
            "the summary of group {number} was damaged; {found} pages were found by their headers"
        ));
        Ok(group)
    }
}

impl Scan {
    /// Looks at the groups from the superblock's durable position up to the rear.
    pub(crate) fn of_tail(reader: &mut Reader<'_>) -> Result<Scan, TierError> {
        let superblock = reader.superblock;
        let group_pages = reader.group_pages();
        let staging = superblock.staging_groups as usize;
        let first = superblock.durable.0 / group_pages;
        let mut raws: Vec<Block> = Vec::new();
        let (mut durable, mut front) = (superblock.durable, superblock.front);
        let mut valid = 0;
        // No superblock is a ring behind, so the tail does not meet itself.
        while (raws.len() - valid < staging || reader.position(first + valid as u64) < durable)
            && (raws.len() as u64) < reader.layout.groups()
        {
            let count = BATCH.min(reader.layout.groups() as usize - raws.len());
            for raw in reader.summaries(first + raws.len() as u64, count)? {
                if let Some(raw) = raw.summary() {
                    durable = durable.max(raw.durable);
                    if raw.front > front && !mutant!("front-in-summaries-ignored") {
                        front = raw.front;
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
        let mut scan = Scan { groups: Vec::new(), front, durable, rear, torn: 0, torn_summaries };
        let known_durable = ((durable.0 / group_pages).saturating_sub(first) as usize).min(raws.len());
        let unsure = raws.split_off(known_durable);
        for (number, raw) in (first + known_durable as u64..).zip(unsure) {
            scan.judge(reader, number, raw)?;
        }
        let oldest = scan.rear.0.saturating_sub(superblock.slots.into());
        scan.front = Position(scan.front.0.max(oldest));
        // What lies beyond the rear is as if never written.
        let rear = scan.rear;
        scan.groups.retain(|group| Position(group.number * group_pages) < rear);
        scan.torn_summaries.retain(|number| Position(number * group_pages) >= rear);
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
    fn judge(&mut self, reader: &mut Reader<'_>, number: u64, block: Block) -> Result<(), TierError> {
        let by_group = reader.superblock.policy.by_group();
        let group = match block {
            Block::Summary(Raw { mut group, .. }) => {
                let torn = reader.verify(&mut group)?;
                if torn > 0 {
                    if by_group {
                        points::TORN_GROUP.reach()
                    } else {
                        points::TORN_PAGE.reach()
                    }
                    group.repair = true;
                    if by_group {
                        group.entries.fill(None);
                        group.invalidations.clear();
                    }
                }
                self.torn += if by_group { u64::from(torn > 0) } else { torn };
                group
            }
            _ if by_group || reader.superblock.clean => ScannedGroup {
                number,
                entries: vec![None; reader.group_pages() as usize],
                invalidations: Vec::new(),
                repair: true,
            },
            _ => {
                points::NO_SUMMARY.reach();
                reader.read_headers(number)?.0
            }
        };
        if !group.repair || group.entries.iter().any(Option::is_some) {
            self.rear = self.rear.max(reader.position(number + 1));
        }
        self.groups.push(group);
        Ok(())
    }
}

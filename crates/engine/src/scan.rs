//! Reads the part of the flash after the newest complete segment: the summaries of groups, and where these do
//! not suffice, their pages.

use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::{OpenReport, TierError, points, unreadable};
use arrayvec::ArrayVec;
use entresol_core::{Forgotten, PageId, Position, STAGING_GROUPS_MAX, SlotId};
use entresol_device::{Device, Io};
use entresol_format::page;
use entresol_format::summary::{self, Entry, Summary};
use entresol_format::superblock::Superblock;
use entresol_format::{BLOCK_BYTES, BlockFault, Layout};

/// Summaries read at once.
pub(crate) const BATCH: usize = 32;

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
    /// Forgotten pages, whose older copies are stale.
    pub records: Vec<Forgotten>,
    /// Its summaries on flash say something else, or one of them is missing.
    pub repair: bool,
    /// Something of it counts as never written.
    pub lost: bool,
    /// All of it counts as never written.
    pub nothing: bool,
    /// The copy of the summary that tells all this: the last one to be overwritten.
    pub told_by: u64,
}

/// A group's summary on flash.
pub(crate) struct Raw {
    pub group: ScannedGroup,
    pub head: summary::Head,
    /// The other copy is damaged: it may have been the newer one.
    pub is_lone: bool,
}

/// The content of the place of a group's summary.
pub(crate) enum Block {
    /// It.
    Summary(Raw),
    /// Something whole: nothing, or what was written there in another round. The group's own is not there, or
    /// not yet.
    Other,
    /// Something damaged.
    Damaged,
}

impl Block {
    /// What two copies say together: the newer one counts. If they do not say the same, both are to be
    /// written again.
    fn or(self, other: Block) -> Block {
        match (self, other) {
            (Block::Summary(one), Block::Summary(other)) => {
                let differ = one.head.revision != other.head.revision;
                let mut newer = if one.head.revision >= other.head.revision { one } else { other };
                newer.group.repair |= differ;
                Block::Summary(newer)
            }
            (Block::Summary(mut raw), other @ (Block::Damaged | Block::Other))
            | (other @ (Block::Damaged | Block::Other), Block::Summary(mut raw)) => {
                if matches!(other, Block::Damaged) {
                    points::SUMMARY_COPY_USED.reach();
                    raw.is_lone = true;
                }
                raw.group.repair = true;
                Block::Summary(raw)
            }
            (Block::Damaged, _) | (_, Block::Damaged) => Block::Damaged,
            (Block::Other, Block::Other) => Block::Other,
        }
    }

    pub(crate) fn summary(&self) -> Option<&Raw> {
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

    /// Reads the summaries of `count` groups from `first` on, at most [`BATCH`]. The copy before the pages is
    /// read only where the one after them does not say all.
    pub(crate) fn summaries(&mut self, first: u64, count: usize) -> Result<Vec<Block>, TierError> {
        let group_pages = self.superblock.group_pages;
        let is_whole = |block: &Block| block.summary().is_some_and(|raw| raw.head.written == group_pages);
        self.summaries_unless(is_whole, first, count)
    }

    /// As [`Reader::summaries`], and reads both copies: one that does not say what the other one does is to
    /// be written again.
    pub(crate) fn both_summaries(&mut self, first: u64, count: usize) -> Result<Vec<Block>, TierError> {
        self.summaries_unless(|_| false, first, count)
    }

    /// Reads the copy before the pages, too, unless the one after them is `enough`.
    fn summaries_unless(
        &mut self,
        enough: impl Fn(&Block) -> bool,
        first: u64,
        count: usize,
    ) -> Result<Vec<Block>, TierError> {
        let copies = self.layout.summary_copies();
        let all = (0..count).map(|at| first + at as u64).collect::<Vec<_>>();
        let mut found = self.summary_copies(&all, copies - 1)?;
        if copies == 1 {
            return Ok(found);
        }
        let unsure: Vec<u64> =
            all.iter().zip(&found).filter(|(_, block)| !enough(block)).map(|(group, _)| *group).collect();
        for (group, other) in unsure.iter().zip(self.summary_copies(&unsure, 0)?) {
            let block = &mut found[(group - first) as usize];
            let after = std::mem::replace(block, Block::Other);
            *block = after.or(other);
        }
        Ok(found)
    }

    /// Of the durable groups from `first` to before `end`: those of whose two summaries only one is there and
    /// whole, each with the number of the other copy.
    pub(crate) fn lone_summaries(&mut self, first: u64, end: u64) -> Result<Vec<(u64, u64)>, TierError> {
        let mut lone = Vec::new();
        if self.layout.summary_copies() == 1 {
            return Ok(lone);
        }
        for from in (first..end).step_by(BATCH) {
            let groups: Vec<u64> = (from..end.min(from + BATCH as u64)).collect();
            let found = [self.summary_copies(&groups, 0)?, self.summary_copies(&groups, 1)?];
            for (at, group) in groups.into_iter().enumerate() {
                match [0, 1].map(|copy: usize| found[copy][at].summary().is_some()) {
                    [true, false] => lone.push((group, 1)),
                    [false, true] => lone.push((group, 0)),
                    _ => {}
                }
            }
        }
        Ok(lone)
    }

    /// The entries of a group as the copies of its summary tell; `None` where no copy has one, or two
    /// contradict each other.
    pub(crate) fn agreed(&mut self, group: u64) -> Result<Vec<Option<Entry>>, TierError> {
        let mut entries: Vec<Option<Entry>> = vec![None; self.superblock.group_pages as usize];
        let mut contradicted = Vec::new();
        for copy in 0..self.layout.summary_copies() {
            for block in self.summary_copies(&[group], copy)? {
                let Block::Summary(raw) = block else { continue };
                for (at, found) in raw.group.entries.into_iter().enumerate() {
                    match (entries[at], found) {
                        (Some(known), Some(found)) if known != found => {
                            contradicted.push(at);
                        }
                        (None, found) => entries[at] = found,
                        _ => {}
                    }
                }
            }
        }
        contradicted.into_iter().for_each(|at| entries[at] = None);
        Ok(entries)
    }

    /// Reads one copy of the summaries of `groups`, at most [`BATCH`].
    fn summary_copies(&mut self, groups: &[u64], copy: u64) -> Result<Vec<Block>, TierError> {
        let mut batch = ArrayVec::<Io<'_>, BATCH>::new();
        for (group, buffer) in groups.iter().zip(self.blocks.chunks_exact_mut(BLOCK_BYTES)) {
            batch.push(Io::Read { offset: self.layout.summary_offset(*group, copy), buffer });
        }
        unreadable::read_batch(self.flash, &mut batch).map_err(flash_error)?;
        drop(batch);
        self.summaries_read += groups.len() as u64;
        self.bytes_read += (groups.len() * BLOCK_BYTES) as u64;
        let blocks = groups.iter().zip(self.blocks.chunks_exact(BLOCK_BYTES));
        Ok(blocks.map(|(group, block)| self.judge_block(*group, copy, block)).collect())
    }

    fn judge_block(&self, number: u64, copy: u64, block: &[u8]) -> Block {
        match Summary::decode(block, self.superblock.group_pages) {
            Ok(summary) => self.accept(number, copy, &summary).map_or(Block::Other, Block::Summary),
            Err(BlockFault::Blank) => Block::Other,
            Err(BlockFault::Magic { expected, found }) if is_another(expected, found) => Block::Other,
            Err(_) => Block::Damaged,
        }
    }

    /// `None`: it is of another cache, group or life.
    fn accept(&self, number: u64, copy: u64, summary: &Summary<'_>) -> Option<Raw> {
        let head = summary.head;
        let left_over =
            self.position(number) >= self.superblock.session_rear && head.epoch < self.superblock.epoch;
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
            records: summary.stale().collect(),
            repair: false,
            lost: false,
            nothing: false,
            told_by: copy,
        };
        Some(Raw { group, head, is_lone: false })
    }

    /// Reads the pages of a group.
    fn read_pages(&mut self, number: u64) -> Result<(), TierError> {
        unreadable::read(self.flash, self.layout.pages_offset(number), &mut self.pages)
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

    /// Takes out the entries of `raw` that were not written: whole parts, or page by page. Returns how many
    /// parts or pages these were. What was flushed before is not doubted.
    pub(crate) fn verify(&mut self, raw: &mut Raw, by_group: bool) -> Result<u64, TierError> {
        let Raw { group, head, .. } = raw;
        self.read_pages(group.number)?;
        let first = self.position(group.number).0;
        let is_whole = |at: usize, entry: &Entry| {
            let stamp = self.superblock.stamps().stamp(Position(first + at as u64));
            let verified =
                self.superblock.page_format.verify(self.page(at), entry.page, stamp, entry.checksum);
            verified.is_ok()
        };
        let mut torn = 0;
        for part in head.unsure_parts() {
            let places = part.start as usize..part.end as usize;
            let mut damaged = Vec::new();
            for at in places.clone() {
                if let Some(entry) = group.entries[at].as_ref().filter(|entry| !is_whole(at, entry)) {
                    damaged.push((at, entry.page));
                }
            }
            if damaged.is_empty() {
                continue;
            }
            if by_group {
                // This part, and any after it, was never acknowledged.
                group.entries[part.start as usize..].fill(None);
                group.nothing = part.start == 0;
                return Ok(torn + 1);
            }
            torn += damaged.len() as u64;
            damaged.iter().for_each(|(at, _)| group.entries[*at] = None);
        }
        Ok(torn)
    }

    /// A group without a summary: what the headers of its pages tell. Returns the places of pages that are
    /// damaged, too, or are there instead of what was written there.
    pub(crate) fn read_headers(&mut self, number: u64) -> Result<(ScannedGroup, Vec<usize>), TierError> {
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
        let entries: Vec<_> = entries.collect();
        let nothing = entries.iter().all(Option::is_none);
        let group = ScannedGroup {
            number,
            entries,
            records: Vec::new(),
            repair: true,
            lost: true,
            nothing,
            told_by: 0,
        };
        Ok((group, damaged))
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

    /// A group that is durable, with the content of its summary's place.
    pub(crate) fn durable_group(&mut self, number: u64, block: Block) -> Result<ScannedGroup, TierError> {
        let group_pages = self.superblock.group_pages;
        match block {
            Block::Summary(raw) if raw.head.written == group_pages => Ok(raw.group),
            // The last summary of the group was synced before the group counted as durable.
            Block::Summary(_) => self.rebuild(number, false),
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
    /// is erased by the next open ([`crate::recover::Restored::repair`]): a damaged one is of the group's own
    /// write.
    fn rebuild(&mut self, number: u64, lost: bool) -> Result<ScannedGroup, TierError> {
        if !self.superblock.page_format.names_itself() {
            points::SUMMARIES_LOST.reach();
            return Err(TierError::Refused(format!(
                "both summaries of group {number} on flash are missing or damaged, and its pages do not say what they are: a \
                 page newer than disk may be lost; restore the flash device, or wipe it and recover the database from a \
                 backup"
            )));
        }
        let (mut group, damaged) = self.read_headers(number)?;
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
        (group.lost, group.nothing) = (false, false);
        let found = group.entries.iter().flatten().count();
        self.notices.push(format!(
            "the summary of group {number} was damaged; {found} pages were found by their headers"
        ));
        Ok(group)
    }
}

/// A page whose own header tells of it: nothing says whether disk has it.
pub(crate) fn from_header(page: &[u8], id: PageId) -> Entry {
    let head = page::header(page);
    Entry { page: id, lsn: page::lsn(page), checksum: head.checksum.get(), dirty: true, base: None }
}

//! Bringing back slots that survive a crash: directory segments, then the summaries of the batches that are
//! not in them. Pages are read only of batches that may have been under way.
//!
//! - Each slot is brought back by itself: what its segment says, changed by what the batches say that are not
//!   in it, in the order of their numbers.
//! - `D` is the greatest number below which any summary, or the superblock, calls the batches durable. The
//!   summary of a batch below `D` that is not in all segments must be there, or be repeated by another one.
//!   So must that of a batch which a segment calls durable: its slots may show that pages have moved.
//! - Another batch from `D` on counts if a later summary shows that it was durable: a page has left one of
//!   its slots, or one that it alone emptied was used again. Else it counts if all its pages are as its
//!   summary says.
//!   No slot of its pages was used again, since a durable summary would say that the page had left it. A
//!   batch that does not count is as if never written. Then the open writes all segments anew, before a page
//!   enters: once `D` has passed the batch, it would be trusted. It does so, too, if one block alone tells of
//!   a batch, as after most power failures.

use super::objects::{Found, RestoredTable};
use super::segments::decode_segment;
use super::slots::RestoredSlots;
use super::{known_flushed, tell_cut_off};
use crate::api::Survivors;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::options::Flushed;
use crate::region::{Region, objects_config};
use crate::scan::BATCH;
use crate::{OpenReport, TierError, TierOptions, points, unreadable};
use entresol_core::{
    BATCHES_MAX, DurableBatches, Forget, OlderSlot, PageId, Position, SlotId, SlotView, Walk,
};
use entresol_device::Device;
use entresol_format::batch::{self, Changes, Placed};
use entresol_format::losses::Loss;
use entresol_format::owners_log::LogPosition;
use entresol_format::page::{self, PageFault};
use entresol_format::segment::{self, COPIES_OF_SLOTS, Head};
use entresol_format::superblock::Superblock;
use entresol_format::{BLOCK_BYTES, Layout, PageFormat};
use entresol_objects::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What is needed to go on with batches.
#[derive(Default)]
pub(crate) struct KeptSlots {
    /// The segments.
    pub segments: Vec<FoundSegment>,
    /// The number of the next batch.
    pub next: u64,
    /// Batches before it that count as never written.
    pub missing: Vec<u64>,
    /// Those that count, as far as segments have to say so.
    pub counted: DurableBatches,
    /// The segments are to be written anew: something that a power failure cut off is on flash, or a copy of
    /// a segment is damaged, or one block alone tells of a batch.
    pub rewrites_segments: bool,
}

impl KeptSlots {
    /// What is there and what is not, of the batches that `superblock` led to.
    pub(crate) fn survivors(&self, superblock: &Superblock) -> Survivors {
        let (epoch, rear, missing) = (superblock.epoch + 1, self.next, self.missing.clone());
        Survivors { epoch, rear, missing, losses: superblock.losses }
    }

    /// What the first superblock of the next epoch, `next`, says before anything else: from which batch on
    /// those of earlier epochs are not found, and that none that is served from now on was cut off.
    pub(crate) fn record(&self, superblock: &Superblock, next: &mut Superblock) {
        let group = self.missing.iter().copied().min().unwrap_or(self.next);
        next.losses.note(Loss { epoch: superblock.epoch + 1, group });
        // Else the segments say so.
        if !self.rewrites_segments {
            next.batches = next.batches.max(self.next);
        }
    }
}

/// A segment, as it was found.
#[derive(Clone, Copy, Default)]
pub(crate) struct FoundSegment {
    /// Batches below this number are in it.
    pub since: u64,
    /// The copy that says so: the other one may be overwritten.
    pub copy: u64,
    /// Of the later ones of its epoch, no others show in it.
    durable: DurableBatches,
}

/// What is in a slot: its page, and the low byte of the last stamp, if it is known.
type InSlot = (Option<SlotView>, Option<u8>);

/// Reads the flash.
struct Reader<'a> {
    flash: &'a dyn Device,
    superblock: &'a Superblock,
    layout: Layout,
    /// A copy of a segment is to be written again.
    is_torn: bool,
    /// Copies of segments that are not whole.
    faults: Vec<String>,
    report: &'a mut OpenReport,
}

/// The batches on flash.
#[derive(Default)]
struct Batches {
    /// What they change, by their numbers.
    changes: BTreeMap<u64, Changes>,
    /// How often each is told.
    told: BTreeMap<u64, u32>,
    /// Those below this number were durable.
    durable: u64,
    /// After the last of them.
    next: u64,
    /// The greatest position in the owner's log that one of them tells.
    log: LogPosition,
}

impl Batches {
    /// Whether one block alone tells of some batch from `needed` on.
    fn are_told_once(&self, needed: u64) -> bool {
        let once = |number: &u64| self.told.get(number).is_none_or(|times| *times < 2);
        self.changes.range(needed..).any(|(number, changes)| !changes.is_empty() && once(number))
    }

    /// Whether a later summary shows that batch `number` was durable: a page has left one of the slots that
    /// it brought pages to, or one that it emptied was used again. A slot that leaves may be used again when
    /// another batch is durable.
    fn are_followed(&self, number: u64, changes: &Changes) -> bool {
        let is_its = |slot: SlotId| changes.pages.iter().any(|placed| placed.slot == slot);
        let has_emptied = |slot: SlotId| {
            let moved = OlderSlot { slot, leaves: false };
            changes.emptied.contains(&slot) || changes.pages.iter().any(|placed| placed.from == Some(moved))
        };
        self.changes.range(number + 1..).any(|(_, later)| {
            let from = later.pages.iter().filter_map(|placed| placed.from.map(|from| from.slot));
            let is_left = from.chain(later.emptied.iter().copied()).any(is_its);
            is_left || later.pages.iter().any(|placed| has_emptied(placed.slot))
        })
    }
}

/// Brings back what `superblock` leads to.
pub(crate) fn restore(
    flash: &dyn Device,
    superblock: &Superblock,
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<RestoredSlots, TierError> {
    let layout = options.layout();
    let mut reader = Reader { flash, superblock, layout, is_torn: false, faults: Vec::new(), report };
    let mut segments = Vec::new();
    let mut slots: Vec<InSlot> = Vec::with_capacity(options.slots as usize);
    for number in 0..layout.segments_of_slots() {
        let (segment, found) = reader.segment(number)?;
        segments.push(segment);
        slots.extend(found);
    }
    slots.resize(options.slots as usize, (None, None));
    let known = known_flushed(superblock, options);
    let mut batches = reader.batches(known)?;
    batches.next = segments.iter().map(|segment| segment.durable.below).fold(batches.next, u64::max);
    let needed = segments.iter().map(|segment| segment.since).min().unwrap_or(0);
    // Those under way may wait for their places, and be repeated.
    if batches.next.saturating_sub(needed) > layout.batch_places() + BATCHES_MAX as u64 {
        // The ring has no place for so many: something is forged, or a segment is lost.
        return Err(reader.lost(needed));
    }
    let mut missing = Vec::new();
    for number in needed..batches.next {
        let is_durable =
            number < batches.durable || segments.iter().any(|segment| segment.durable.contain(number));
        match batches.changes.get(&number) {
            None if is_durable => return Err(reader.lost(number)),
            None => missing.push(number),
            Some(_) if is_durable => {}
            Some(changes) => {
                if !batches.are_followed(number, changes) && !reader.is_whole(changes)? {
                    points::TORN_BATCH.reach();
                    missing.push(number);
                    // What was written last to these slots is not known.
                    for placed in &batches.changes.remove(&number).unwrap_or_default().pages {
                        if let Some(slot) = slots.get_mut(placed.slot.0 as usize) {
                            slot.1 = Some(placed.generation);
                        }
                    }
                }
            }
        }
    }
    let mut occupied = BTreeSet::new();
    for (number, changes) in batches.changes.range(needed..) {
        let is_news = |slot: SlotId| {
            let segment = segments.get((slot.0 / options.segment_entries) as usize);
            segment.is_some_and(|segment| *number >= segment.since)
        };
        if !apply(&mut slots, &mut occupied, changes, is_news) {
            return Err(reader.not_left(*number));
        }
    }
    let entries = slots.iter().filter(|(view, _)| view.is_some()).count();
    let mut region = Region::new(options, superblock.cache)?;
    fill(&mut region, superblock, &slots, batches.next)?;
    let table = reader.objects(options, &mut region, batches.next == 0)?;
    let occupancy = region.partition().occupancy();
    let (dirty, torn) = (occupancy.dirty.into(), missing.len() as u64);
    let found = &mut *reader.report;
    (found.entries, found.dirty, found.warm, found.torn) = (entries as u64, dirty, entries > 0, torn);
    if torn > 0 {
        tell_cut_off(known, options, reader.report);
    }
    let rewrites_segments = !missing.is_empty() || reader.is_torn || batches.are_told_once(needed);
    let counted = counted(needed..batches.next, &missing);
    let kept = KeptSlots { segments, next: batches.next, missing, counted, rewrites_segments };
    let log = if superblock.log.lsn > batches.log.lsn { superblock.log } else { batches.log };
    Ok(RestoredSlots::of_batches(region, kept, table.snapshot, log))
}

/// The batches of a range but those that are `missing`. If these are more than can have been under way, the
/// first ones are left out, with what is before them.
fn counted(range: Range<u64>, missing: &[u64]) -> DurableBatches {
    let (before, missing) = missing.split_at(missing.len().saturating_sub(BATCHES_MAX));
    let mut under_way = [range.end; BATCHES_MAX];
    under_way[..missing.len()].copy_from_slice(missing);
    let from = before.last().map_or(range.start, |last| last + 1);
    DurableBatches { from, below: range.end, under_way }
}

/// Changes what is known of `slots`; `is_news` says of which of them. `occupied`: those to which batches
/// brought pages, which have not left. (A segment may tell of later batches.) False: a page comes to such a
/// slot, so the batch that moved the other one is missing.
fn apply(
    slots: &mut [InSlot],
    occupied: &mut BTreeSet<SlotId>,
    changes: &Changes,
    is_news: impl Fn(SlotId) -> bool,
) -> bool {
    let set = |slots: &mut [InSlot], slot: SlotId, view: Option<SlotView>, generation: Option<u8>| {
        if let Some(found) = slots.get_mut(slot.0 as usize).filter(|_| is_news(slot)) {
            *found = (view, generation.or(found.1));
        }
    };
    let from = changes.pages.iter().filter_map(|placed| placed.from.map(|from| from.slot));
    for slot in changes.emptied.iter().copied().chain(from) {
        occupied.remove(&slot);
        set(slots, slot, None, None);
    }
    let is_possible =
        !changes.pages.iter().any(|placed| is_news(placed.slot) && occupied.contains(&placed.slot));
    for placed in &changes.pages {
        let Placed { page, slot, checksum: proof, generation, dirty, .. } = *placed;
        set(slots, slot, Some(SlotView { page, valid: true, dirty, proof }), Some(generation));
        // What is older than the segment may have left without a batch that says so.
        if is_news(slot) {
            occupied.insert(slot);
        }
    }
    is_possible
}

/// Fills the directory.
fn fill(region: &mut Region, superblock: &Superblock, slots: &[InSlot], next: u64) -> Result<(), TierError> {
    let mut partition = region.partition();
    let restored = partition.slots_mut().expect("the cache that is found is in slots");
    restored.restore_slots_begin(superblock.next_positions());
    let step = step_of_an_epoch(superblock.epoch);
    for (slot, (view, generation)) in (0..).map(SlotId).zip(slots) {
        let stamp = generation.map(|byte| Position(byte.into()));
        match (view, generation) {
            (None, known) => {
                let byte = known.unwrap_or_default();
                restored.restore_empty_slot(slot, Position(byte.wrapping_add(step).into()));
            }
            (Some(view), _) => {
                if !restored.restore_slot(slot, view.page, view.dirty, stamp.unwrap_or(Position(0))) {
                    return Err(twice(view.page, superblock));
                }
                restored.restore_slot_proof(slot, view.proof);
            }
        }
    }
    restored.restore_slots_end();
    restored.restore_batches(next);
    if cfg!(debug_assertions) {
        partition.check().expect("a restored directory keeps the invariants");
    }
    Ok(())
}

/// By how much the generation of each empty slot steps on. A batch of which nothing is left but its pages may
/// have come to it. Were that generation given again, to a newer version of the same page, and that write
/// lost, the older one would pass for it. Of 250 epochs in turn each has another step.
fn step_of_an_epoch(epoch: u64) -> u8 {
    1 + (epoch % 250 * 97 % 250) as u8
}

fn twice(page: PageId, superblock: &Superblock) -> TierError {
    TierError::Refused(format!(
        "page {page} is in two slots of cache {}, according to its directory on flash: the flash device is damaged; \
         nothing was changed: restore the database from a backup",
        superblock.cache
    ))
}

impl Reader<'_> {
    /// Brings back the table of objects, if there is one, and drops the pages of those that were retired: a
    /// durable summary says so before their numbers are given to others.
    fn objects(
        &mut self,
        options: &TierOptions,
        region: &mut Region,
        is_new: bool,
    ) -> Result<RestoredTable, TierError> {
        let Some(config) = objects_config(options, self.superblock.cache) else {
            return Ok(RestoredTable::default());
        };
        let rear = region.partition().window().1;
        let found = Found {
            flash: self.flash,
            layout: &self.layout,
            config: &config,
            was_closed: self.superblock.clean,
            is_new,
            window: (Position(0), rear),
        };
        let table = found.restore(region, |partition, recovered| {
            let is_retired = |page: PageId| recovered.locator(ObjectId(page.object())).is_none();
            let mut retired = Vec::new();
            let take = |page| retired.extend(is_retired(page).then_some(page));
            partition.walk(&mut Walk::default(), u32::MAX, take);
            for page in retired {
                let gone = partition.forget(page, page, 0);
                debug_assert_ne!(gone, Forget::Full, "no page of a cache that is restored is busy");
            }
        })?;
        self.report.bytes_read += table.bytes;
        self.report.notices.extend(table.notices.iter().cloned());
        Ok(table)
    }

    /// The newer whole copy of a segment, and what it says of its slots. Nothing is known of one that was
    /// never written.
    fn segment(&mut self, number: u64) -> Result<(FoundSegment, Vec<InSlot>), TierError> {
        let mut newest: Option<(FoundSegment, Vec<InSlot>)> = None;
        let mut bytes = AlignedBuffer::new(self.layout.segment_bytes() as usize);
        let mut faults = Vec::new();
        for copy in 0..COPIES_OF_SLOTS {
            let offset = self.layout.slots_segment_offset(number, copy);
            unreadable::read(self.flash, offset, &mut bytes).map_err(flash_error)?;
            self.report.bytes_read += bytes.len() as u64;
            match decode_segment(self.superblock.cache, &self.layout, number, &bytes) {
                Ok(None) => {}
                Ok(Some((head, used))) => {
                    let slots = segment::decode_slots(used, self.layout.segment_entry_bytes());
                    let found = slots.map(|(view, generation)| (view, Some(generation))).collect();
                    self.report.segments_read += 1;
                    let Head { since, durable, .. } = head;
                    if newest.as_ref().is_none_or(|(segment, _)| segment.since < since) {
                        newest = Some((FoundSegment { since, copy, durable }, found));
                    }
                }
                Err(fault) => faults.push(format!("directory segment {number}, copy {copy}: {fault}")),
            }
        }
        if newest.is_some() && !faults.is_empty() {
            points::SEGMENT_COPY_USED.reach();
            self.is_torn = true;
        }
        match self.superblock.clean {
            true => self.report.notices.extend(faults),
            // Power may have failed while one copy was written, the first time, too.
            false => self.faults.extend(faults),
        }
        let slots = self.layout.segment_entries() as usize;
        Ok(newest.unwrap_or_else(|| (FoundSegment::default(), vec![(None, None); slots])))
    }

    /// The batches whose summaries are there, or are repeated.
    /// `known`: how far the cache was flushed.
    fn batches(&mut self, known: Option<Flushed>) -> Result<Batches, TierError> {
        let places = self.layout.batch_places();
        let mut batches = Batches::default();
        let mut blocks = AlignedBuffer::new(BATCH * BLOCK_BYTES);
        let mut place = 0;
        while place < places {
            let count = (places - place).min(BATCH as u64);
            let bytes = &mut blocks[..count as usize * BLOCK_BYTES];
            unreadable::read(self.flash, self.layout.batch_offset(place), bytes).map_err(flash_error)?;
            self.report.bytes_read += bytes.len() as u64;
            for (at, block) in (place..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
                self.take(at, block, &mut batches);
            }
            place += count;
        }
        if self.superblock.clean {
            batches.durable = batches.next;
        }
        // What it calls durable may be missing.
        let told = self.superblock.batches.max(known.map_or(0, |known| known.below.0));
        batches.durable = batches.durable.max(told);
        batches.next = batches.next.max(told);
        Ok(batches)
    }

    fn take(&mut self, place: u64, block: &[u8], batches: &mut Batches) {
        // Torn, damaged, or of something else: whether it is needed shows later.
        let Ok(batch::Summary { head, changes, repeated }) = batch::decode(block) else { return };
        let is_ours = head.cache == self.superblock.cache && head.epoch <= self.superblock.epoch;
        if !is_ours || head.number % self.layout.batch_places() != place {
            return;
        }
        self.report.summaries_read += 1;
        batches.durable = batches.durable.max(head.durable);
        batches.next = batches.next.max(head.number + 1);
        if head.log.lsn > batches.log.lsn {
            batches.log = head.log;
        }
        batches.changes.insert(head.number, changes);
        *batches.told.entry(head.number).or_default() += 1;
        if let Some((number, repeated)) = repeated {
            batches.next = batches.next.max(number + 1);
            batches.changes.entry(number).or_insert(repeated);
            *batches.told.entry(number).or_default() += 1;
        }
    }

    /// The summary of a durable batch is not there.
    fn lost(&self, number: u64) -> TierError {
        points::BATCH_LOST.reach();
        let faults = self.faults.iter().map(|fault| format!(" ({fault})")).collect::<String>();
        TierError::Refused(format!(
            "the summary of batch {number} of cache {} cannot be read, nor what another one repeats of it{faults}: the flash device is \
             damaged; nothing was changed: restore the database from a backup, or wipe label and flash if nothing on flash is \
             wanted any more",
            self.superblock.cache
        ))
    }

    /// A batch has a page in a slot that another one has not left.
    fn not_left(&self, number: u64) -> TierError {
        points::BATCH_LOST.reach();
        TierError::Refused(format!(
            "batch {number} of cache {} brought a page to a slot that another page had not left, according to the summaries before: \
             the flash device has lost a write; nothing was changed: restore the database from a backup, or wipe label and flash if \
             nothing on flash is wanted any more",
            self.superblock.cache
        ))
    }

    /// Whether all pages of a batch are in their slots.
    fn is_whole(&mut self, changes: &Changes) -> Result<bool, TierError> {
        let mut data = AlignedBuffer::new(self.superblock.page_bytes as usize);
        for placed in &changes.pages {
            if placed.slot.0 >= self.superblock.slots {
                return Ok(false);
            }
            unreadable::read(self.flash, self.layout.slot_offset(placed.slot), &mut data)
                .map_err(flash_error)?;
            self.report.pages_verified += 1;
            let Placed { page, slot, checksum, generation, .. } = *placed;
            if prove_kept(self.superblock, (slot, page), generation, Some(checksum), &data).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Proves that `data` is the page in `slot` whose stamp ends with the byte `generation`, and whose checksum
/// is `checksum`, if that is known.
pub(crate) fn prove_kept(
    superblock: &Superblock,
    (slot, id): (SlotId, PageId),
    generation: u8,
    checksum: Option<u32>,
    data: &[u8],
) -> Result<(), PageFault> {
    if superblock.page_format != PageFormat::Native {
        return superblock.page_format.verify(data, id, Position(0), checksum.unwrap_or(0));
    }
    page::verify(data, id, None)?;
    let head = page::header(data);
    let found = head.checksum.get();
    if let Some(expected) = checksum.filter(|expected| *expected != found) {
        return Err(PageFault::Checksum { expected, found });
    }
    let found = superblock.stamps().position_in(slot, Position(head.generation.get()));
    match found.0 as u8 == generation {
        true => Ok(()),
        false => Err(PageFault::Generation { expected: Position(generation.into()), found }),
    }
}

//! Staging → flash. The write that completes a group is durable before it is reported: from then on the
//! group's pages are served from flash, and older versions may be superseded.

use super::segments::Segments;
use super::summary_records::SummaryRecords;
use super::unsure::Unsure;
use crate::TierOptions;
use crate::access::{Composition, Directory, FlashPages, ObjectTable, Signals, Staging};
use crate::buffer::AlignedBuffer;
use crate::disk::{DiskPages, OwnersLog};
use crate::error::flash_error;
use crate::tier::floor::Floor;
use crate::tier::floor::above::Above;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::superblocks::Superblocks;
use crate::tier::floor::writers::{Brought, Writes};
use crate::{DurableGroup, TierError};
use arrayvec::ArrayVec;
use entresol_core::{
    Forgotten, FrameId, GROUP_PAGES_MAX, Lsn, PageId, Partition, Position, Ticket, WriteJob, WritePage,
    WritePages,
};
use entresol_device::{BusyClock, Io};
use entresol_format::{BLOCK_BYTES, StoredBase, summary};
use entresol_runtime::may_preempt;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::Gone;
use std::sync::Arc;

/// A write job's part of its group.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    ticket: Ticket,
    /// First position of the group, and its frame.
    first: Position,
    frame: FrameId,
    /// All pages of the part are one I/O.
    one_io: bool,
    /// The group is complete with this write.
    completes: bool,
    /// A summary is due: the group is complete or flushed.
    needs_summary: bool,
    /// Places that are written with this write.
    upto: u32,
    /// Places that were durable before.
    flushed: u32,
}

impl Part {
    fn of(partition: &Partition<'_>, job: WriteJob, pages: &[WritePage]) -> Self {
        let WriteJob { ticket, one_io, completes_group } = job;
        let group_pages = partition.config().group_pages;
        let flush = partition.log().and_then(|log| log.flush_of(ticket));
        let (first, frame) = match (&flush, pages.first()) {
            (Some(flush), _) => (flush.first, flush.frame),
            (None, Some(page)) => {
                let place = page.frame.0 % group_pages;
                (Position(page.position.0.saturating_sub(place.into())), FrameId(page.frame.0 - place))
            }
            (None, None) => unreachable!("a write has pages, or flushes"),
        };
        Self {
            ticket,
            first,
            frame,
            one_io,
            completes: completes_group,
            needs_summary: completes_group || flush.is_some(),
            upto: flush.map_or(if completes_group { group_pages } else { 0 }, |flush| flush.upto),
            flushed: partition.log().map_or(0, |log| log.flushed_places(ticket)),
        }
    }

    /// Whether `pages` are the group.
    fn is_whole(&self, pages: &[WritePage]) -> bool {
        self.completes && pages.len() as u32 == self.upto
    }

    /// The place after the last page.
    fn end(&self, pages: &[WritePage]) -> u32 {
        pages.last().map_or(0, |page| (page.position.0 - self.first.0) as u32 + 1)
    }
}

/// A summary that is in a group's buffer.
struct Composed {
    /// The places whose pages it names.
    named: u128,
    /// The front that it records.
    front: Position,
    /// It says that groups below were durable.
    durable: Position,
    /// Number after the last record of forgotten pages that is durable with it.
    records: u64,
    /// It names records.
    has_records: bool,
    /// The place it is written to, if not to both.
    copy: u64,
}

/// See the module's header.
pub(crate) struct Writer {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    staging: Arc<Staging>,
    table: Arc<ObjectTable>,
    signals: Arc<Signals>,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    objects: Arc<ObjectLog>,
    failures: Arc<Failures>,
    trouble: Arc<DiskTrouble>,
    segments: Arc<Segments>,
    unsure: Arc<Unsure>,
    records: Arc<SummaryRecords>,
    upstream: Arc<Above>,
    /// Writes of groups to flash, and reads of those that are dequeued.
    work: Arc<BusyClock>,
    /// Dirty pages written page by page to groups that are not complete, with their positions.
    unpublished: TinyMutex<Vec<(Position, PageId, Lsn)>>,
    has_no_log_above: bool,
}

impl Writer {
    pub(crate) fn new(
        floor: &Floor,
        segments: &Arc<Segments>,
        unsure: &Arc<Unsure>,
        records: &Arc<SummaryRecords>,
        work: &Arc<BusyClock>,
    ) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            staging: floor.access.staging.clone(),
            table: floor.access.objects.clone(),
            signals: floor.access.signals.clone(),
            flash: floor.flash.clone(),
            disk: floor.disk.clone(),
            superblocks: floor.superblocks.clone(),
            objects: floor.objects.clone(),
            failures: floor.failures.clone(),
            trouble: floor.trouble.clone(),
            segments: segments.clone(),
            unsure: unsure.clone(),
            records: records.clone(),
            upstream: floor.upstream.clone(),
            work: work.clone(),
            unpublished: TinyMutex::new(Rank::DurableNotes, Vec::new()),
            has_no_log_above: floor.turns.is_some(),
        }
    }

    /// Writes the pages of a job. `scratch` is made when it is first needed. Returns the places whose pages
    /// a summary names, and whether it names records of forgotten pages.
    fn write_part(
        &self,
        part: &Part,
        pages: &[WritePage],
        scratch: &mut AlignedBuffer,
    ) -> Result<(u128, bool), TierError> {
        let is_whole = part.one_io && part.is_whole(pages);
        if scratch.is_empty() && !is_whole {
            *scratch = AlignedBuffer::new(self.scratch_bytes());
        }
        self.staging.collect(pages, |position| self.flash_pages.stamp(position))?;
        match is_whole {
            true => self.write_group(part, pages),
            false => self.write_run(part, pages, part.one_io, scratch),
        }
    }

    /// Tells the buffer pool which dirty pages are durable with the group that `pages` complete: those that
    /// its summary has `named`, and that were not forgotten before it was durable. The others are as durable
    /// as what made them dead.
    fn tell_durable(&self, part: &Part, pages: &[WritePage], named: u128) {
        let Some(upstream) = self.upstream.get() else { return };
        let group = self.directory.group_number(part.first);
        let dirty = pages.iter().filter(|page| page.dirty);
        let dirty = dirty.filter_map(|page| Some((page.position, page.page?, page.lsn)));
        if !part.completes {
            self.unpublished.lock().extend(dirty);
            return;
        }
        let mut of_group: ArrayVec<(Position, PageId, Lsn), GROUP_PAGES_MAX> = dirty.collect();
        self.unpublished.lock().retain(|page| {
            let is_of_group = self.directory.group_number(page.0) == group;
            if is_of_group {
                of_group.push(*page);
            }
            !is_of_group
        });
        let is_named = |position: Position| named >> (position.0 - part.first.0) & 1 != 0;
        let durable = of_group.into_iter().filter(|(position, ..)| is_named(*position));
        let durable: ArrayVec<_, GROUP_PAGES_MAX> = durable.map(|(_, page, lsn)| (page, lsn)).collect();
        let told = DurableGroup { epoch: self.superblocks.epoch, number: group };
        upstream.durable(&durable, Some(told));
    }

    fn scratch_bytes(&self) -> usize {
        self.directory.config.group_pages as usize * self.flash_pages.page_bytes + BLOCK_BYTES
    }

    /// A whole group with its summaries: one sequential write.
    fn write_group(&self, part: &Part, pages: &[WritePage]) -> Result<(u128, bool), TierError> {
        self.superblocks.allow_writes_to(Position(part.first.0 + pages.len() as u64))?;
        self.objects.make_durable()?;
        self.make_clean_pages_durable(pages)?;
        let composed = self.compose_summary(part)?;
        let _work = self.work.start();
        let group = self.staging.group(part.frame);
        self.flash
            .write(self.flash.layout.group_offset(self.directory.group_number(part.first)), group.all())
            .map_err(flash_error)?;
        drop(group);
        self.sync_part(&composed)?;
        Ok((composed.named, composed.has_records))
    }

    /// Changed pages may go around the flash: a policy keeps them out, or their owner writes them past it
    /// (`Writes::write_around`). Then only the disk has them, and not yet durably. Makes these of `pages`
    /// that are clean durable there before they are written here. Otherwise:
    ///
    /// 1. a changed page bypasses the flash: it is written to disk, and not synced;
    /// 2. it is fetched from disk and evicted unchanged. It enters, clean, and its group becomes durable;
    /// 3. the power fails, and the disk loses the write. Recovery serves the page from flash, as a clean one;
    /// 4. the page is dequeued, and dropped because it is clean. Now the disk's older version is served.
    ///
    /// In write-through mode an open copies such pages to disk first ([`super::write_through`]).
    fn make_clean_pages_durable(&self, pages: &[WritePage]) -> Result<(), TierError> {
        let options = &self.options;
        let go_around = options.keeps_changes_out() || self.has_no_log_above;
        match go_around && !options.disk_may_lack() {
            true => self.trouble.make_clean_durable(&self.disk, pages),
            false => Ok(()),
        }
    }

    /// Makes what was written with this summary durable.
    fn sync_part(&self, composed: &Composed) -> Result<(), TierError> {
        self.flash.sync_writes()?;
        self.superblocks.front_is_recorded(composed.front);
        self.superblocks.summary_says(composed.durable);
        let front = self.superblocks.recorded_front();
        Ok(self.table.records_are_durable(composed.records, front)?)
    }

    /// Fills in the summaries of the group that is in the buffer of the part's frame.
    fn compose_summary(&self, part: &Part) -> Result<Composed, Gone> {
        let number = self.directory.group_number(part.first);
        // A group with one summary has it overwritten when it is complete, and a power failure may take it
        // then: until the group is complete, no record in it counts.
        let names_records = part.completes || self.flash.layout.summary_copies() > 1;
        let mut bases = ArrayVec::<Option<StoredBase>, GROUP_PAGES_MAX>::new();
        let ((front, _), durable, present, (waiting, mut records)) = self.directory.with(|partition| {
            if let Some(log) = partition.log().filter(|log| log.keeps_bases()) {
                let places = (0..part.upto).map(|place| Position(part.first.0 + u64::from(place)));
                bases.extend(places.map(|position| log.staged_base(position).map(StoredBase::of)));
            }
            let present = partition.log().map_or(0, |log| log.staged_pages(part.first));
            (
                partition.window(),
                partition.published(),
                present,
                if names_records {
                    partition
                        .log_mut()
                        .map(|log| log.records(part.ticket, log.causes_durable()))
                        .unwrap_or_default()
                } else {
                    Default::default()
                },
            )
        })?;
        // What an earlier summary of the group names, the later ones must name, too.
        let mut stale: Vec<Forgotten> = waiting.to_vec();
        let room = summary::stale_max(self.directory.config.group_pages);
        records -= self.records.name_records(number, &mut stale, room);
        let head = summary::Head {
            version: self.options.version,
            group: number,
            cache: self.superblocks.cache,
            epoch: self.superblocks.epoch,
            durable,
            front,
            ends: 0,
            written: part.upto,
            flushed: part.flushed,
            revision: 0,
            // After what is in it was handed down or forgotten.
            log: self.disk.log().map(OwnersLog::position).unwrap_or_default(),
        };
        let mut group = self.staging.group_mut(part.frame);
        let copy =
            group.compose(&Composition { head, first: part.first, present, stale: &stale, bases: &bases });
        drop(group);
        Ok(Composed { named: present, front, durable, records, has_records: !stale.is_empty(), copy })
    }

    /// Some pages of a group, and a summary if they complete the group or flush what there is of it.
    ///
    /// If nothing of the group was flushed before, a summary that completes it is written to both places.
    /// Otherwise one of them may be the only record of an acknowledged flush: it is overwritten after the
    /// other one is durable.
    fn write_run(
        &self,
        part: &Part,
        pages: &[WritePage],
        one_io: bool,
        scratch: &mut [u8],
    ) -> Result<(u128, bool), TierError> {
        let page_bytes = self.flash_pages.page_bytes;
        let number = self.directory.group_number(part.first);
        self.superblocks
            .allow_writes_to(Position(part.first.0 + u64::from(part.upto.max(part.end(pages)))))?;
        self.objects.make_durable()?;
        self.make_clean_pages_durable(pages)?;
        let composed = part.needs_summary.then(|| self.compose_summary(part)).transpose()?;
        let _work = self.work.start();
        let mut batch = ArrayVec::<Io<'_>, { GROUP_PAGES_MAX + 2 }>::new();
        let (copies, block) = scratch.split_at_mut(self.directory.config.group_pages as usize * page_bytes);
        // Copied out, so that no evictor waits for the device.
        let group = self.staging.group(part.frame);
        let place = |page: &WritePage| (page.position.0 - part.first.0) as usize;
        if let (true, Some(first), Some(last)) = (one_io, pages.first(), pages.last()) {
            let bytes = group.pages(place(first)..place(last) + 1);
            copies[..bytes.len()].copy_from_slice(bytes);
            let data = &copies[..bytes.len()];
            batch.push(Io::Write { offset: self.flash.layout.slot_offset(first.slot), data });
        } else {
            for (page, copy) in pages.iter().zip(copies.chunks_exact_mut(page_bytes)) {
                if page.page.is_some() {
                    copy.copy_from_slice(group.page(place(page)));
                    batch.push(Io::Write { offset: self.flash.layout.slot_offset(page.slot), data: copy });
                }
            }
        }
        block.copy_from_slice(group.summary_block());
        drop(group);
        let summary =
            |copy: u64| Io::Write { offset: self.flash.layout.summary_offset(number, copy), data: block };
        let is_first = part.completes && part.flushed == 0;
        match &composed {
            Some(_) if is_first => batch.extend((0..self.flash.layout.summary_copies()).map(summary)),
            Some(composed) => batch.push(summary(composed.copy)),
            None => {}
        }
        if batch.is_empty() {
            return Ok((0, false));
        }
        self.flash.run(&mut batch).map_err(flash_error)?;
        drop(batch);
        let Some(composed) = composed else { return Ok((0, false)) };
        self.sync_part(&composed)?;
        if part.completes && !is_first && self.flash.layout.summary_copies() > 1 {
            let other = self.flash.layout.summary_offset(number, (composed.copy + 1) % summary::COPIES);
            self.flash.write(other, block).map_err(flash_error)?;
            // Once a later summary says that this group is durable, either of its two must be enough.
            self.flash.sync_writes()?;
        }
        Ok((composed.named, composed.has_records))
    }
}

impl Writes for Writer {
    type Job = Part;

    /// The search may free frames with overtaken versions, and then wakes the evictors.
    fn next(&self, pages: &mut WritePages) -> Result<Option<Part>, Gone> {
        may_preempt();
        let (part, made_room) = self.directory.step(|partition| {
            let published = partition.published();
            let job = partition.take_write(pages);
            let part = job.map(|job| Part::of(partition, job, pages));
            (part, partition.published() > published)
        })?;
        if made_room {
            self.signals.progress.notify_all();
        }
        Ok(part)
    }

    fn carry_out(
        &self,
        part: Part,
        pages: &WritePages,
        scratch: &mut AlignedBuffer,
    ) -> Result<Brought, TierError> {
        let (named, has_records) = self.write_part(&part, pages, scratch)?;
        let (published, named, more) = self.directory.with(|partition| {
            // A page that was forgotten while its group was written will not be in the next segment.
            let named = partition.log().map_or(0, |log| named & log.staged_pages(part.first));
            partition.written(part.ticket, pages);
            (partition.published(), named, partition.another_write_due(part.frame))
        })?;
        if self.segments.is_complete(published) || self.unsure.is_long()? {
            self.segments.look();
        }
        self.tell_durable(&part, pages, named);
        if part.needs_summary {
            self.failures.flushes.notify_one();
        }
        let is_news = part.completes || has_records;
        Ok(Brought { is_news, more: more || is_news })
    }
}

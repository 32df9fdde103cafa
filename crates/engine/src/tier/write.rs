//! Staging → flash. With log placement the write that completes a group is durable before it is reported:
//! from then on the group's pages are served from flash, and older versions may go.

use super::placed::LogParts;
use super::shared::Shared;
use super::slot_directory::SlotDirectory;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::{DurableGroup, TierError};
use arrayvec::ArrayVec;
use entresol_core::{GROUP_PAGES_MAX, Job, Lsn, PageId, Position, WritePage, mutant};
use entresol_device::Io;
use entresol_format::{page, summary};
use entresol_runtime::may_preempt;

impl Shared {
    /// A writer: does write jobs until the tier stops.
    pub(crate) fn writer_task(&self) {
        let mut scratch = AlignedBuffer::new(match self.config.policy.by_group() {
            true => 0,
            false => self.config.group_pages as usize * self.page_bytes() + entresol_format::BLOCK_BYTES,
        });
        loop {
            let seen = self.writes.epoch();
            if self.state.is_stopped() {
                return;
            }
            let Some(job) = self.next_write() else {
                self.writes.wait(seen);
                continue;
            };
            // There may be more: another writer looks.
            self.writes.notify_one();
            let Job::Write { ticket, pages, one_io, completes_group } = job else {
                unreachable!("next_write gives write jobs only");
            };
            if mutant!("valid-before-written") {
                self.with(|partition| partition.written(ticket, &pages));
            }
            if let Some(log) = self.log()
                && mutant!("durable-told-before-written")
            {
                self.tell_durable(log, &pages, completes_group);
            }
            let written = match (self.is_log(), one_io) {
                (true, true) => self.write_group(&pages),
                (true, false) => self.write_run(&pages, completes_group, &mut scratch),
                (false, _) => self
                    .invalidate_slots(&pages)
                    .and_then(|()| self.write_slots(&pages, &mut scratch))
                    .and_then(|()| self.validate_slots(&pages)),
            };
            if let Err(error) = written {
                self.fail(error);
                return;
            }
            let published = self.with(|partition| {
                if !mutant!("valid-before-written") {
                    partition.written(ticket, &pages);
                }
                partition.published()
            });
            if let Some(log) = self.log() {
                if self.segment_is_complete(published) {
                    log.segments.notify_one();
                }
                self.tell_durable(log, &pages, completes_group);
            }
            if let Some(directory) = self.directory() {
                directory.end(&pages);
            }
            self.tallies.flash_writes.add(pages.iter().filter(|page| page.page.is_some()).count());
            self.job_is_done();
        }
    }

    /// Tells the buffer pool which dirty pages are durable with the group that `pages` complete.
    fn tell_durable(&self, log: &LogParts, pages: &[WritePage], completes_group: bool) {
        let Some(upstream) = self.upstream() else { return };
        let group = self.group_number(pages[0].position);
        let dirty = pages.iter().filter(|page| page.dirty).filter_map(|page| Some((page.page?, page.lsn)));
        if !completes_group {
            log.unpublished.lock().extend(dirty.map(|(page, lsn)| (group, page, lsn)));
            return;
        }
        let mut durable: ArrayVec<(PageId, Lsn), GROUP_PAGES_MAX> = dirty.collect();
        log.unpublished.lock().retain(|(of, page, lsn)| {
            if *of == group {
                durable.push((*page, *lsn));
            }
            *of != group
        });
        let told = DurableGroup { epoch: self.superblocks.epoch, number: group };
        upstream.durable(&durable, Some(told));
    }

    /// The next write. Looking for one may already free frames, where newer versions have overtaken what was
    /// in them: then those who wait are told. If there is none since a slot must be emptied first, the
    /// background tasks are told: they may have looked before the page was complete.
    fn next_write(&self) -> Option<Job> {
        may_preempt();
        let motion = self.directory().map(SlotDirectory::motion);
        let found = self.step(|partition| {
            let published = partition.published();
            let job = partition.next_write();
            let waits = job.is_none() && partition.write_waits_for_background();
            (job, partition.published() > published, waits)
        });
        if let (Some(motion), Some(Job::Write { pages, .. })) = (motion, &found.0) {
            motion.begin(pages);
        }
        let (job, made_room, waits) = found;
        if waits {
            self.background.notify_one();
        }
        if made_room {
            self.progress.notify_all();
        }
        job
    }

    /// Tells everybody that a job is complete: there may be room, new jobs, and news for those who wait.
    pub(crate) fn job_is_done(&self) {
        self.progress.notify_all();
        self.background.notify_one();
        self.writes.notify_one();
    }

    /// A whole group with its summary: one sequential write.
    fn write_group(&self, pages: &[WritePage]) -> Result<(), TierError> {
        let (first, frame) = (pages[0].position, pages[0].frame);
        self.allow_writes_to(Position(first.0 + pages.len() as u64))?;
        let front = self.compose_summary(first, frame);
        let group = self.staging.group(frame);
        self.flash
            .write(self.flash.layout.group_offset(self.group_number(first)), group.all())
            .map_err(flash_error)?;
        drop(group);
        if !mutant!("group-not-synced") {
            self.flash.sync_writes()?;
        }
        self.superblocks.front_is_recorded(front);
        Ok(())
    }

    pub(crate) fn group_number(&self, position: Position) -> u64 {
        position.0 / u64::from(self.config.group_pages)
    }

    /// Fills in the summary of the group that starts at `first` and lies in the buffer of `frame`. Returns
    /// the front that it records.
    fn compose_summary(&self, first: Position, frame: entresol_core::FrameId) -> Position {
        let ((front, _), durable) = self.with(|partition| (partition.window(), partition.published()));
        let head = summary::Head {
            group: self.group_number(first),
            cache: self.superblocks.cache,
            epoch: self.superblocks.epoch,
            durable,
            front,
        };
        let mut group = self.staging.group_mut(frame);
        group.compose(first, &head);
        front
    }

    /// Some pages of a group, one write each, and the summary when the group is complete with them.
    fn write_run(&self, pages: &[WritePage], completes: bool, scratch: &mut [u8]) -> Result<(), TierError> {
        let last = pages[pages.len() - 1].position;
        self.allow_writes_to(Position(last.0 + 1))?;
        let number = self.group_number(last);
        let first = Position(number * u64::from(self.config.group_pages));
        let frame = pages[0].frame;
        let front = completes.then(|| self.compose_summary(first, frame));
        let mut batch = ArrayVec::<Io<'_>, { GROUP_PAGES_MAX + 1 }>::new();
        let (copies, block) = scratch.split_at_mut(self.config.group_pages as usize * self.page_bytes());
        // Copied out, so that no evictor waits for the device.
        let group = self.staging.group(frame);
        for (page, copy) in pages.iter().zip(copies.chunks_exact_mut(self.page_bytes())) {
            if page.page.is_some() {
                copy.copy_from_slice(group.page((page.position.0 - first.0) as usize));
                batch.push(Io::Write { offset: self.flash.layout.slot_offset(page.slot), data: copy });
            }
        }
        if completes {
            block.copy_from_slice(group.summary_block());
            batch.push(Io::Write { offset: self.flash.layout.summary_offset(number), data: block });
        }
        drop(group);
        if batch.is_empty() {
            return Ok(());
        }
        self.flash.run(&mut batch).map_err(flash_error)?;
        if completes && !mutant!("group-not-synced") {
            self.flash.sync_writes()?;
        }
        if let Some(front) = front {
            self.superblocks.front_is_recorded(front);
        }
        Ok(())
    }

    /// Pages to any slots. Not synced here: with most policies the directory of slot placement does not
    /// survive a crash.
    fn write_slots(&self, pages: &[WritePage], scratch: &mut [u8]) -> Result<(), TierError> {
        let mut batch = ArrayVec::<Io<'_>, GROUP_PAGES_MAX>::new();
        for (page, copy) in pages.iter().zip(scratch.chunks_exact_mut(self.page_bytes())) {
            let at = page.frame.0 % self.config.group_pages;
            copy.copy_from_slice(self.staging.group(page.frame).page(at as usize));
            // Now that the slot is known, so is the version: the slot and its counter of writes are stamped,
            // too.
            let id = page.page.expect("slot placement writes pages only");
            page::seal(copy, id, self.stamps.stamp_in(page.slot, page.stamp));
            batch.push(Io::Write { offset: self.flash.layout.slot_offset(page.slot), data: copy });
        }
        self.flash.run(&mut batch).map_err(flash_error)
    }
}

//! Staging → flash: each page to its slot.

use super::batches::Batches;
use super::upkeep::Upkeep;
use crate::TierError;
use crate::TierOptions;
use crate::access::{Directory, FlashPages, Signals, Staging};
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::tier::floor::Floor;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::writers::{Brought, Writes};
use arrayvec::ArrayVec;
use entresol_core::{GROUP_PAGES_MAX, WriteJob, WritePage, WritePages};
use entresol_device::Io;
use entresol_format::{PageFormat, page};
use entresol_runtime::may_preempt;
use entresol_shm::Gone;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Writer {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    staging: Arc<Staging>,
    signals: Arc<Signals>,
    flash: Arc<Flash>,
    upkeep: Option<Arc<Upkeep>>,
    failures: Arc<Failures>,
    /// Where slots survive a crash.
    batches: Option<Batches>,
}

impl Writer {
    pub(crate) fn new(floor: &Floor, upkeep: &Option<Arc<Upkeep>>, batches: Option<Batches>) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            staging: floor.access.staging.clone(),
            signals: floor.access.signals.clone(),
            flash: floor.flash.clone(),
            failures: floor.failures.clone(),
            upkeep: upkeep.clone(),
            batches,
        }
    }

    /// Writes pages; where a directory is kept on flash, their entries are valid afterwards.
    fn write(&self, pages: &[WritePage], scratch: &mut [u8]) -> Result<(), TierError> {
        match &self.upkeep {
            None => self.write_slots(pages, scratch),
            Some(upkeep) => {
                upkeep.invalidate_slots(pages)?;
                self.write_slots(pages, scratch)?;
                upkeep.validate_slots(pages)
            }
        }
    }

    /// Pages to any slots. Not synced here: with most policies the directory of slot placement does not
    /// survive a crash.
    fn write_slots(&self, pages: &[WritePage], scratch: &mut [u8]) -> Result<(), TierError> {
        self.copy_out(pages, scratch);
        let mut batch = ArrayVec::<Io<'_>, GROUP_PAGES_MAX>::new();
        for (page, data) in pages.iter().zip(scratch.chunks_exact(self.flash_pages.page_bytes)) {
            batch.push(Io::Write { offset: self.flash.layout.slot_offset(page.slot), data });
        }
        self.flash.run(&mut batch).map_err(flash_error)
    }

    /// Copies pages out of staging, as they are to be on flash.
    fn copy_out(&self, pages: &[WritePage], scratch: &mut [u8]) {
        for (page, copy) in pages.iter().zip(scratch.chunks_exact_mut(self.flash_pages.page_bytes)) {
            let at = page.frame.0 % self.directory.config.group_pages;
            copy.copy_from_slice(self.staging.group(page.frame).page(at as usize));
            // Now that the slot is known, so is the version: the slot and its counter of writes are stamped,
            // too.
            let id = page.page.expect("slot placement writes pages only");
            if self.options.page_format == PageFormat::Native {
                page::seal(copy, id, self.flash_pages.stamps.stamp_in(page.slot, page.stamp));
            }
        }
    }
}

impl Writes for Writer {
    type Job = WriteJob;

    /// The search may free frames with overtaken versions, and then wakes the evictors. If the page waits for
    /// a slot, wakes a background task: its last look may have preceded `staged`.
    fn next(&self, pages: &mut WritePages) -> Result<Option<WriteJob>, Gone> {
        may_preempt();
        let motion = self.upkeep.as_ref().map(|upkeep| upkeep.motion());
        let (job, made_room, waits) = self.directory.step(|partition| {
            let published = partition.published();
            let job = partition.take_write(pages);
            let waits =
                job.is_none() && partition.slots().is_some_and(|slots| slots.write_waits_for_background());
            (job, partition.published() > published, waits)
        })?;
        if let (Some(motion), Some(_)) = (motion, &job) {
            motion.begin(pages);
        }
        if waits {
            self.signals.background.notify_one();
        }
        if made_room {
            self.signals.progress.notify_all();
        }
        Ok(job)
    }

    fn carry_out(
        &self,
        job: WriteJob,
        pages: &WritePages,
        scratch: &mut AlignedBuffer,
    ) -> Result<Brought, TierError> {
        if scratch.is_empty() {
            let of_group = self.directory.config.group_pages as usize * self.flash_pages.page_bytes;
            *scratch = AlignedBuffer::new(self.batches.as_ref().map_or(of_group, Batches::scratch_bytes));
        }
        self.staging.collect(pages, |position| self.flash_pages.stamp(position))?;
        let mut durable = None;
        match &self.batches {
            None => self.write(pages, scratch)?,
            Some(batches) => {
                self.copy_out(pages, scratch);
                durable = Some((batches, batches.write(&job, pages, scratch)?));
            }
        }
        self.directory.with(|partition| partition.written(job.ticket, pages))?;
        if let Some((batches, number)) = durable {
            batches.tell_durable(number, pages);
            self.failures.flushes.notify_one();
        }
        if let Some(upkeep) = &self.upkeep {
            upkeep.writes_end(pages);
        }
        Ok(Brought::ALL)
    }
}

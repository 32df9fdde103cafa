//! Batches of slots that survive a crash: the pages of a write go to free slots together with a summary, and
//! one sync makes both durable ([`entresol_format::batch`]).
//!
//! A summary repeats the one that was composed before it. So each is there twice when the next one is
//! written, and one block may be damaged.

use super::segments::SlotSegments;
use crate::TierError;
use crate::access::{Directory, FlashPages};
use crate::api::DurableGroup;
use crate::buffer::AlignedBuffer;
use crate::disk::{DiskPages, OwnersLog};
use crate::error::flash_error;
use crate::tier::floor::Floor;
use crate::tier::floor::above::Above;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::superblocks::Superblocks;
use arrayvec::ArrayVec;
use entresol_core::{BATCH_PAGES_MAX, BatchView, Lsn, PageId, WriteJob, WritePage};
use entresol_device::Io;
use entresol_format::batch::{self, Changes, Placed};
use entresol_format::{BLOCK_BYTES, PageFormat, page};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Batches {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    trouble: Arc<DiskTrouble>,
    superblocks: Arc<Superblocks>,
    segments: Arc<SlotSegments>,
    upstream: Arc<Above>,
    objects: Arc<ObjectLog>,
    /// What the batch changes whose summary was composed last, with its number.
    newest: TinyMutex<Option<(u64, Changes)>>,
}

impl Batches {
    pub(crate) fn new(floor: &Floor, segments: &Arc<SlotSegments>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            flash: floor.flash.clone(),
            disk: floor.disk.clone(),
            trouble: floor.trouble.clone(),
            superblocks: floor.superblocks.clone(),
            segments: segments.clone(),
            upstream: floor.upstream.clone(),
            objects: floor.objects.clone(),
            newest: TinyMutex::new(Rank::NewestBatch, None),
        }
    }

    /// Bytes of memory that a write needs.
    pub(crate) fn scratch_bytes(&self) -> usize {
        BATCH_PAGES_MAX * self.flash_pages.page_bytes + BLOCK_BYTES
    }

    /// Writes the batch of `job`, durably. Returns its number. `copies` begins with its pages as they are to
    /// be on flash, and has room for a block after [`BATCH_PAGES_MAX`] of them.
    pub(crate) fn write(
        &self,
        job: &WriteJob,
        pages: &[WritePage],
        copies: &mut AlignedBuffer,
    ) -> Result<u64, TierError> {
        let page_bytes = self.flash_pages.page_bytes;
        let (copies, block) = copies.split_at_mut(BATCH_PAGES_MAX * page_bytes);
        self.trouble.make_clean_durable(&self.disk, pages)?;
        // Before a page of an object is on flash, and before a slot of a retired one counts as empty.
        self.objects.make_durable()?;
        let view = self.compose(job, pages, copies, block)?;
        self.segments.make_room(view.number)?;
        let mut io = ArrayVec::<Io<'_>, { BATCH_PAGES_MAX + 1 }>::new();
        for (page, data) in pages.iter().zip(copies.chunks_exact(page_bytes)) {
            io.push(Io::Write { offset: self.flash.layout.slot_offset(page.slot), data });
        }
        io.push(Io::Write { offset: self.flash.layout.batch_offset(view.number), data: block });
        self.flash.run(&mut io).map_err(flash_error)?;
        self.flash.sync_writes()?;
        Ok(view.number)
    }

    /// Tells the buffer pool which dirty pages are durable with the batch of this number.
    pub(crate) fn tell_durable(&self, number: u64, pages: &[WritePage]) {
        let Some(upstream) = self.upstream.get() else { return };
        let dirty = pages.iter().filter(|page| page.dirty).filter_map(|page| Some((page.page?, page.lsn)));
        let dirty: ArrayVec<(PageId, Lsn), BATCH_PAGES_MAX> = dirty.collect();
        upstream.durable(&dirty, Some(DurableGroup { epoch: self.superblocks.epoch, number }));
    }

    /// Fills in the summary of the batch.
    fn compose(
        &self,
        job: &WriteJob,
        pages: &[WritePage],
        copies: &[u8],
        block: &mut [u8],
    ) -> Result<BatchView, TierError> {
        let names_itself = self.flash_pages.format().1 == PageFormat::Native;
        let mut changes = Changes::default();
        let view = self.directory.with(|partition| {
            let slots = partition.slots().expect("the pages are in slots");
            for page in pages {
                let id = page.page.expect("slot placement writes pages only");
                changes.pages.push(Placed {
                    page: id,
                    slot: page.slot,
                    from: slots.moves_from(id),
                    checksum: slots.staged_proof(page),
                    generation: page.stamp.0 as u8,
                    dirty: page.dirty,
                });
            }
            changes.emptied.extend(slots.emptied(job.ticket));
            slots.batch(job.ticket).expect("slots survive")
        })?;
        if names_itself {
            for (placed, copy) in changes.pages.iter_mut().zip(copies.chunks(self.flash_pages.page_bytes)) {
                placed.checksum = page::header(copy).checksum.get();
            }
        }
        let head = batch::Head {
            number: view.number,
            cache: self.superblocks.cache,
            epoch: self.superblocks.epoch,
            durable: view.durable,
            // After what is in it was handed down.
            log: self.disk.log().map(OwnersLog::position).unwrap_or_default(),
        };
        let mut newest = self.newest.lock();
        batch::encode(block, &head, &changes, newest.as_ref().map(|(number, changes)| (*number, changes)));
        *newest = Some((view.number, changes));
        Ok(view)
    }
}

//! Releases the disk from an open cache, in this order: dirty pages are copied to disk, the cache is emptied,
//! the disk's label is changed.

use crate::TierOptions;
use crate::access::{Directory, FlashPages, Staging};
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::destager::Destager;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::superblocks::Superblocks;
use crate::to_disk::{Destages, READS_MAX, named, read_what_is_there};
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::{Generation, Lookup, PageId, SlotId};
use entresol_device::Device;
use entresol_format::superblock::COPIES;
use entresol_format::{PageFormat, Uuid};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Detacher {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    staging: Arc<Staging>,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    objects: Arc<ObjectLog>,
    destager: Arc<Destager>,
    failures: Arc<Failures>,
}

impl Detacher {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            staging: floor.access.staging.clone(),
            flash: floor.flash.clone(),
            disk: floor.disk.clone(),
            superblocks: floor.superblocks.clone(),
            objects: floor.objects.clone(),
            destager: floor.destager.clone(),
            failures: floor.failures.clone(),
        }
    }

    /// Releases the disk. The tasks have ended: no dequeue brings an overtaken version to disk after the
    /// newest, and no page moves. Nearly all is on disk. Dequeues that ran meanwhile may have pulled pages
    /// from DRAM: these are in staging and in slots.
    pub(crate) fn release_disk(&self, accepts_loss: bool) -> Result<(), TierError> {
        if self.directory.keeps_pages() {
            self.objects.drop_dead()?;
            self.destage_staged()?;
            self.destage_slots(accepts_loss)?;
        }
        self.disk.sync()?;
        if self.directory.keeps_pages() {
            // All copies: none that remembers pages may stay.
            for _ in 0..COPIES {
                self.superblocks.write(|superblock| {
                    superblock.front = superblock.durable;
                    superblock.rear = superblock.durable;
                    superblock.clean = true;
                })?;
            }
        }
        self.failures.unbind(Uuid::NIL)?;
        if self.disk.missing.has_lost() {
            // Its owner accepts that.
            self.disk.label.change(|label| label.lost = false)?;
        }
        if self.directory.keeps_pages() {
            // Not before: a cache that is not needed may be given to another disk. If this write is lost, the
            // cache counts as needed, and only this disk takes it.
            for _ in 0..COPIES {
                let _ = self.superblocks.write(|superblock| superblock.released = true);
            }
        }
        Ok(())
    }

    /// Copies the dirty pages in staging to disk.
    fn destage_staged(&self) -> Result<(), TierError> {
        let staged: Vec<PageId> =
            self.directory.collect(|partition, found| partition.staged_dirty_pages().for_each(found))?;
        let mut buffer = AlignedBuffer::new(self.flash_pages.page_bytes);
        for page in staged {
            let Lookup::Staged { frame, position, dirty: true } =
                self.directory.with(|partition| partition.peek(page))?
            else {
                continue;
            };
            if !self.staging.copy_out(frame, page, position, &mut buffer)? {
                return Err(TierError::Refused(format!(
                    "page {page} is being evicted while its cache is detached; stop the database first"
                )));
            }
            points::DETACH_COPIED.reach();
            self.destager.destage(&mut Destages::from_iter([(page, &buffer[..])]))?;
        }
        Ok(())
    }

    /// These pages are lost. Of a page that names itself no older version is left on disk, which a log above
    /// would take for the newest one: it is damaged there, too.
    fn leave_no_older(&self, lost: &[PageId]) -> Result<(), TierError> {
        if self.options.page_format != PageFormat::Native || lost.is_empty() {
            return Ok(());
        }
        let mut damaged = AlignedBuffer::new(self.flash_pages.page_bytes);
        damaged.fill(0xee);
        lost.iter().try_for_each(|page| self.disk.write(*page, &damaged))
    }

    /// Copies the dirty pages on flash to disk, but for those with a newer version in staging.
    fn destage_slots(&self, accepts_loss: bool) -> Result<(), TierError> {
        let mut dirty: Vec<(PageId, SlotId, Generation)> = self.directory.collect(|partition, found| {
            let slots = partition.dirty_slots().map(|(_, page)| page);
            let newest = |page| match partition.peek(page) {
                Lookup::Flash { slot, generation, dirty: true } => Some((page, slot, generation)),
                _ => None,
            };
            slots.filter_map(newest).for_each(found);
        })?;
        dirty.sort_unstable_by_key(|(page, ..)| *page);
        dirty.dedup_by_key(|(page, ..)| *page);
        let mut buffer = AlignedBuffer::new(READS_MAX * self.flash_pages.page_bytes);
        for pages in dirty.chunks(READS_MAX) {
            let wanted: ArrayVec<(PageId, SlotId), READS_MAX> =
                pages.iter().map(|(page, slot, _)| (*page, *slot)).collect();
            let proofs: ArrayVec<u32, READS_MAX> =
                self.directory.proofs(pages.iter().map(|(_, slot, _)| *slot))?;
            let prove = |at: usize, data: &[u8]| {
                self.flash_pages.prove(data, pages[at].0, pages[at].1, pages[at].2, proofs[at])
            };
            points::DETACH_COPIED.reach();
            let flash: &dyn Device = &**self.flash;
            let (mut read, faults) =
                read_what_is_there(&flash, self.flash_pages.format(), &wanted, &mut buffer, prove)?;
            if let Some(fault) = faults.first().filter(|_| !accepts_loss) {
                return Err(fault.clone());
            }
            let refused = self.destager.destage_some(&mut read)?;
            if let Some((_, error)) = refused.into_iter().next().filter(|_| !accepts_loss) {
                return Err(error);
            }
            self.leave_no_older(&named(&faults))?;
        }
        Ok(())
    }
}

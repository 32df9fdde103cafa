//! Releasing the disk from its cache: everything newer than disk is copied there, the cache is emptied, and
//! only then is the disk's label changed.

use super::FlashTier;
use super::shared::Shared;
use crate::api::Layer;
use crate::buffer::AlignedBuffer;
use crate::disk::binding::{expect_label, foreign};
use crate::error::flash_error;
use crate::{TierError, TierOptions, examine, points, unreadable};
use entresol_core::{Lookup, PageId};
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::superblock::COPIES;
use std::sync::Arc;

/// What detaching came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachReport {
    /// The cache that the disk was released from.
    pub cache: Uuid,
    /// Pages newer than disk that were copied there.
    pub pages_written: u64,
    /// What the owner should know, in sentences.
    pub notices: Vec<String>,
}

/// Releases `disk` from the cache on `flash`, which nobody has open: opens it as it was opened last, after a
/// shutdown or a crash, and detaches it.
///
/// # Errors
/// [`TierError::Refused`] if there is no cache on `flash`, or if the two do not belong together (another
/// disk's cache; a disk that was written without it, or detached from it): then nothing was written.
/// [`TierError::Damaged`] if a page that only flash has is damaged: then the disk stays bound to the cache.
pub fn detach(flash: Arc<dyn Device>, disk: Arc<dyn Device>) -> Result<DetachReport, TierError> {
    let superblock = examine::newest(&examine::superblocks(&*flash)?)?;
    let label = expect_label(&*disk, superblock.page_bytes)?.newest;
    if let Some(why) = foreign(&superblock, &label) {
        return Err(TierError::Refused(format!(
            "{why}; nothing was changed: a cache is detached from the disk that is bound to it"
        )));
    }
    let (tier, opened) = FlashTier::open(flash, disk, TierOptions::of(&superblock))?;
    tier.detach()?;
    let notices = opened.notices.into_iter().chain(tier.notice()).collect();
    Ok(DetachReport { cache: superblock.cache, pages_written: tier.metrics().disk_writes, notices })
}

impl Shared {
    /// Brings everything that is in staging to flash. False if the disk alone serves.
    pub(crate) fn prepare_to_detach(&self) -> Result<bool, TierError> {
        self.checkpoint()?;
        self.check_running()
    }

    /// Releases the disk. The tasks have ended: no dequeue brings an overtaken version to disk after the
    /// newest, and no page moves. Staging may hold what was getting its second chance, and what was pulled
    /// for it.
    pub(crate) fn release_disk(&self) -> Result<(), TierError> {
        if self.is_log() {
            let mut dirty: Vec<PageId> = self.with(|partition| {
                partition.dirty_slots().map(|(_, page)| page).chain(partition.staged_dirty_pages()).collect()
            });
            dirty.sort_unstable();
            dirty.dedup();
            let mut buffer = AlignedBuffer::new(self.page_bytes());
            for page in dirty {
                self.destage_one(page, &mut buffer)?;
            }
        }
        self.disk.sync()?;
        if self.is_log() {
            // All copies: none that remembers pages may stay.
            for _ in 0..COPIES {
                self.write_superblock(|superblock| {
                    superblock.front = superblock.durable;
                    superblock.rear = superblock.durable;
                    superblock.clean = true;
                })?;
            }
        }
        self.unbind(Uuid::NIL)?;
        if self.is_log() {
            // Not before: a cache that is not needed may be given to another disk. If this write is lost, the
            // cache counts as needed, and only this disk takes it.
            for _ in 0..COPIES {
                let _ = self.write_superblock(|superblock| superblock.released = true);
            }
        }
        Ok(())
    }

    /// Copies the newest version of `page` to disk, if the disk does not have it.
    fn destage_one(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        match self.with(|partition| partition.peek(page)) {
            Lookup::Staged { frame, position, dirty: true } => {
                if !self.staging.copy_out(frame, page, self.stamps.stamp(position), buffer) {
                    return Err(TierError::Refused(format!(
                        "page {page} is being handed down while its cache is detached; stop the database first"
                    )));
                }
            }
            Lookup::Flash { slot, generation, dirty: true } => {
                unreadable::read(&*self.flash, self.layout.slot_offset(slot), buffer).map_err(flash_error)?;
                self.prove(buffer, page, slot, generation).map_err(|fault| TierError::Damaged {
                    page,
                    place: format!("flash slot {}", slot.0),
                    fault: unreadable::fault_of(buffer, fault),
                })?;
            }
            _ => return Ok(()),
        }
        points::DETACH_COPIED.reach();
        self.disk.write(page, buffer)?;
        self.tallies.disk_writes.add(1);
        Ok(())
    }
}

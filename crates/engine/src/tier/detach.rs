//! Releasing the disk from its cache: everything newer than disk is copied there, the cache is emptied, and only then is
//! the disk's label changed.

use super::shared::{Shared, flash_error};
use crate::buffer::AlignedBuffer;
use crate::{TierError, points};
use entresol_core::{Lookup, PageId};
use entresol_format::superblock::COPIES;

impl Shared {
    /// Brings everything that is in staging to flash. False if the disk alone serves.
    pub(crate) fn prepare_to_detach(&self) -> Result<bool, TierError> {
        self.checkpoint()?;
        self.check_running()
    }

    /// Releases the disk. The tasks have ended: no dequeue brings an overtaken version to disk after the newest, and no page
    /// moves. Staging may hold what was getting its second chance, and what was pulled for it.
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
        self.unbind()
    }

    /// Copies the newest version of `page` to disk, if the disk does not have it.
    fn destage_one(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        match self.with(|partition| partition.peek(page)) {
            Lookup::Staged { frame, position, dirty: true } => {
                if !self.staging.copy_out(frame, page, self.stamp(position), buffer) {
                    return Err(TierError::Refused(format!(
                        "page {page} is being handed down while its cache is detached; stop the database first"
                    )));
                }
            }
            Lookup::Flash { slot, generation, dirty: true } => {
                self.flash.read(self.layout.slot_offset(slot), buffer).map_err(flash_error)?;
                self.prove(buffer, page, generation).map_err(|fault| TierError::Damaged {
                    page,
                    place: format!("flash slot {}", slot.0),
                    fault: fault.to_string(),
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

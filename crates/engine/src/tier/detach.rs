//! Releasing the disk from its cache: everything newer than disk is copied there, the cache is emptied, and only then is
//! the disk's label changed.

use super::shared::{Shared, flash_error};
use crate::buffer::AlignedBuffer;
use crate::{TierError, points};
use entresol_core::{Lookup, PageId};
use entresol_format::superblock::COPIES;
use entresol_runtime::yield_now;

impl Shared {
    /// Brings everything that is in staging to flash. False if the disk alone serves.
    pub(crate) fn prepare_to_detach(&self) -> Result<bool, TierError> {
        self.checkpoint()?;
        self.check_running()
    }

    /// Releases the disk. The tasks have ended: no dequeue brings an overtaken version to disk after the newest, and no page
    /// moves. What is getting a second chance is valid in its old slot, too.
    pub(crate) fn release_disk(&self) -> Result<(), TierError> {
        if self.is_log() {
            let mut dirty: Vec<PageId> =
                self.with(|partition| partition.dirty_slots().map(|(_, page)| page).collect());
            dirty.sort_unstable();
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

    /// Copies `page` to disk from wherever it is by now.
    fn destage_one(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        loop {
            let lookup = self.with(|partition| partition.peek(page));
            match lookup {
                Lookup::Staged { frame, position, dirty: true } => {
                    if !self.staging.copy_out(frame, page, self.stamp(position), buffer) {
                        points::DETACH_MOVED.reach();
                        yield_now();
                        continue;
                    }
                }
                Lookup::Flash { slot, generation, dirty: true } => {
                    self.flash.read(self.layout.slot_offset(slot), buffer).map_err(flash_error)?;
                    if let Err(fault) = self.prove(buffer, page, generation) {
                        if self.with(|partition| partition.peek(page)) != lookup {
                            points::DETACH_MOVED.reach();
                            continue;
                        }
                        let place = format!("flash slot {}", slot.0);
                        return Err(TierError::Damaged { page, place, fault: fault.to_string() });
                    }
                }
                // Destaged in the background.
                _ => return Ok(()),
            }
            points::DETACH_COPIED.reach();
            self.disk.write(page, buffer)?;
            self.tallies.disk_writes.add(1);
            return Ok(());
        }
    }
}

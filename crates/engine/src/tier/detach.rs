//! Releasing the disk from its cache: everything newer than disk is copied there, the cache is emptied, and only then is
//! the disk's label changed.

use super::shared::{Shared, flash_error};
use crate::TierError;
use crate::buffer::AlignedBuffer;
use entresol_core::{Lookup, PageId};
use entresol_format::superblock::COPIES;

impl Shared {
    pub(crate) fn detach(&self) -> Result<(), TierError> {
        self.checkpoint()?;
        if !self.check_running()? {
            return Ok(());
        }
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

    fn destage_one(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        // Dequeues go on in the background: what is not on flash any more, or clean there, is on disk.
        let Lookup::Flash { slot, generation, dirty: true } = self.with(|partition| partition.peek(page))
        else {
            return Ok(());
        };
        self.flash.read(self.layout.slot_offset(slot), buffer).map_err(flash_error)?;
        self.prove(buffer, page, generation).map_err(|fault| TierError::Damaged {
            page,
            place: format!("flash slot {}", slot.0),
            fault: fault.to_string(),
        })?;
        self.disk.write(page, buffer)?;
        self.tallies.disk_writes.add(1);
        Ok(())
    }
}

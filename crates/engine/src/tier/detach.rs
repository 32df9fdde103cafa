//! Releasing the disk from its cache: everything newer than disk is copied there, the cache is emptied, and only then is
//! the disk's label changed.

use super::shared::{Shared, flash_error};
use crate::buffer::AlignedBuffer;
use crate::{TierError, points};
use entresol_core::{Lookup, PageId, mutant};
use entresol_format::superblock::COPIES;
use entresol_runtime::yield_now;

impl Shared {
    pub(crate) fn detach(&self) -> Result<(), TierError> {
        self.checkpoint()?;
        if !self.check_running()? {
            return Ok(());
        }
        if self.is_log() {
            if !mutant!("detach-beside-older-destages") {
                self.wait_for_dequeues()?;
            }
            let mut dirty = self.all_dirty()?;
            dirty.sort_unstable();
            let mut buffer = AlignedBuffer::new(self.page_bytes());
            for page in dirty {
                self.destage_one(page, &mut buffer)?;
            }
            // Those that took a page on its way out before it was copied here.
            self.wait_for_dequeues()?;
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

    /// Waits until the dequeues under way have ended. One may be copying to disk a version that was overtaken since, and if
    /// that came last, the disk would have it. Later ones copy only what is the newest.
    fn wait_for_dequeues(&self) -> Result<(), TierError> {
        let started = self.with(|partition| partition.dequeues_started());
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? || self.with(|partition| partition.dequeues_have_ended(started)) {
                return Ok(());
            }
            self.progress.wait(seen);
        }
    }

    /// Every page that is newer than disk. Second chances are given meanwhile: a page that gets one is in staging for a
    /// while, so the slots tell all only when nothing is there.
    fn all_dirty(&self) -> Result<Vec<PageId>, TierError> {
        loop {
            let dirty = self.with(|partition| {
                let dirty = partition.dirty_slots().map(|(_, page)| page);
                partition.staging_is_empty().then(|| dirty.collect())
            });
            match dirty {
                Some(dirty) => return Ok(dirty),
                None => drop(self.drain()?),
            }
        }
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

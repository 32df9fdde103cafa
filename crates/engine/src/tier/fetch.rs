//! A fetch: from staging, from flash, else from disk.
//!
//! Invariants: a served page was proved by checksum, id and generation, and is the newest version. After a
//! version was served, no older one is, also after a power failure.

use super::shared::Shared;
use crate::api::{Fetched, Source, Victim};
use crate::{TierError, points};
use entresol_core::{Lookup, PageId, Taken, mutant};
use entresol_runtime::yield_now;
use std::sync::atomic::Ordering::SeqCst;

/// Reads of a slot that give something else, with the directory unchanged, before the page is called damaged:
/// a slot that is overwritten while it is read is told apart by one more look.
const READS_MAX: u32 = 3;

impl Shared {
    pub(crate) fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.disk.check_length(buffer)?;
        if !self.check_running()? {
            points::OFF_FETCH.reach();
            return self.fetch_from_disk(page, buffer);
        }
        let mut lookup = self.with(|partition| partition.fetch(page));
        let mut reads = 0;
        loop {
            match lookup {
                Lookup::Absent => return self.fetch_from_disk(page, buffer),
                Lookup::Staged { frame, position, dirty } => {
                    if self.staging.copy_out(frame, page, self.stamps.stamp(position), buffer) {
                        self.tallies.staging_hits.add(1);
                        return Ok(self.went_up(page, Source::Staging, dirty));
                    }
                    // Written and reused meanwhile, or still being copied in.
                    yield_now();
                    lookup = self.with(|partition| partition.peek(page));
                }
                Lookup::Flash { slot, generation, dirty } => {
                    let fault = match self.flash.read(self.flash.layout.slot_offset(slot), buffer) {
                        Err(error) => error.to_string(),
                        Ok(()) => match self.prove(buffer, page, slot, generation) {
                            Err(fault) => fault.to_string(),
                            Ok(()) => {
                                self.tallies.flash_hits.add(1);
                                return Ok(self.went_up(page, Source::Flash, dirty));
                            }
                        },
                    };
                    let now = self.with(|partition| partition.peek(page));
                    reads = if now == lookup { reads + 1 } else { 0 };
                    if now != lookup {
                        points::FETCH_MOVED.reach();
                    }
                    lookup = now;
                    if reads < READS_MAX {
                        continue;
                    }
                    if dirty && !mutant!("damaged-dirty-page-read-from-disk") {
                        points::FETCH_DAMAGED_DIRTY.reach();
                        return Err(TierError::Damaged {
                            page,
                            place: format!("flash slot {}", slot.0),
                            fault,
                        });
                    }
                    points::FETCH_DAMAGED_CLEAN.reach();
                    self.tallies.damaged_clean.add(1);
                    return self.fetch_past_damage(page, buffer);
                }
            }
        }
    }

    fn fetch_from_disk(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.disk.read(page, buffer)?;
        self.tallies.disk_reads.add(1);
        self.populate(page, buffer);
        Ok(Fetched { source: Source::Disk, dirty: false, fdirty: false })
    }

    /// The clean copy on flash cannot be read: the disk serves. In write-through mode it may even be newer:
    /// when power fails between the write of a page to disk and that of its group, the copy before comes back
    /// as clean. So that it never follows what is served now, should it become readable again, the page
    /// enters the flash anew, durably.
    fn fetch_past_damage(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        let fetched = self.fetch_from_disk(page, buffer)?;
        if self.is_log() {
            let victim = Victim { page, lsn: entresol_format::page::lsn(buffer), dirty: false, fdirty: true };
            self.take(victim, buffer)?;
            self.drain()?;
        }
        Ok(fetched)
    }

    /// The page was read and proved: an exclusive policy gives up its copy. Not of a dirty page while a
    /// checkpoint is under way: DRAM may have evicted all that the checkpoint needs, and the sweep would
    /// not meet it any more.
    fn went_up(&self, page: PageId, source: Source, dirty: bool) -> Fetched {
        if !self.config.policy.exclusive() {
            return Fetched { source, dirty, fdirty: false };
        }
        let taken = self.with(|partition| {
            let stays = dirty && self.checkpoints.load(SeqCst) > 0;
            if stays || !self.state.is_running() { Taken::Copied } else { partition.taken(page) }
        });
        match taken {
            Taken::Copied => Fetched { source, dirty, fdirty: false },
            Taken::Moved { dirty } => {
                self.tallies.moved_up.add(1);
                self.job_is_done();
                Fetched { source, dirty, fdirty: dirty }
            }
        }
    }
}

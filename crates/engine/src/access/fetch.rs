//! A fetch: from staging, or from flash.
//!
//! Invariants: a served page was proved by checksum, id and generation, and is the newest version. After a
//! version was served, no older one is. After a power failure that holds for versions that are durable on
//! flash: a staged one may be lost.

use super::Access;
use super::objects::living;
use super::order::ReadTicket;
use crate::api::{Fetched, Source};
use crate::{TierError, points};
use entresol_core::{Generation, Lookup, PageId, Partition, Position, Taken};
use entresol_runtime::yield_now;
use entresol_shm::Gone;
use std::sync::atomic::Ordering::SeqCst;

/// Reads of a slot that give something else, with the directory unchanged, before the page is called damaged:
/// a slot that is overwritten while it is read is told apart by one more look.
const READS_MAX: u32 = 3;

/// Looks at a frame that another process fills, before a fetch sleeps.
const LOOKS_MAX: u32 = 100;

/// What a fetch has found.
pub(crate) enum FetchResult {
    /// The page is in the caller's buffer.
    Here(Fetched),
    /// The disk has it. With the ticket it may enter the flash ([`Access::populate`]).
    OnDisk(ReadTicket),
    /// Its copy on flash is damaged; unless it is dirty, the disk has it, too.
    Damaged { place: String, fault: String, dirty: bool, ticket: ReadTicket, copy: Lookup },
}

/// The checksum that is kept for the page, if it is on flash.
fn proof_of(partition: &Partition<'_>, lookup: &Lookup) -> u32 {
    match lookup {
        Lookup::Flash { slot, .. } => partition.proof(*slot),
        Lookup::Staged { .. } | Lookup::Absent => 0,
    }
}

impl Access {
    /// Fetches `page` if it is in the cache; `buffer` has its length.
    pub(crate) fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<FetchResult, TierError> {
        if !self.check_running()? {
            points::OFF_FETCH.reach();
            return Ok(FetchResult::OnDisk(self.order.read_begins(page)));
        }
        let mut found = self.with_objects(|partition, objects| {
            let lookup = living(partition, objects, page, |partition| {
                let lookup = partition.fetch(page);
                if lookup == Lookup::Absent && self.config.policy.learns_from_misses() {
                    partition.missed(page);
                }
                lookup
            });
            (lookup, proof_of(partition, &lookup), self.order.read_begins(page))
        })?;
        self.shadow.fetch(page);
        let look_again = || {
            self.with_objects(|partition, objects| {
                let lookup = living(partition, objects, page, |partition| partition.peek(page));
                (lookup, proof_of(partition, &lookup), self.order.read_begins(page))
            })
        };
        let (mut reads, mut looks) = (0, 0);
        loop {
            match found.0 {
                Lookup::Absent => return Ok(FetchResult::OnDisk(found.2)),
                Lookup::Staged { frame, position, dirty } => {
                    if self.staging.copy_out(frame, page, position, buffer)? {
                        self.tallies().staging_hits.add(1);
                        return Ok(FetchResult::Here(self.went_up(page, Source::Staging, dirty)?));
                    }
                    // Written and reused meanwhile, or still being copied in.
                    found = self.look_when_filled(found, &mut looks, look_again)?;
                }
                Lookup::Flash { slot, generation, dirty } => {
                    let fault = match self.flash.read(self.layout.slot_offset(slot), buffer) {
                        Err(error) => error.to_string(),
                        Ok(()) => match self.prove(buffer, page, slot, generation, found.1) {
                            Err(fault) => fault.to_string(),
                            Ok(()) => {
                                self.options.page_format.unseal(buffer, page);
                                self.tallies().flash_hits.add(1);
                                return Ok(FetchResult::Here(self.went_up(page, Source::Flash, dirty)?));
                            }
                        },
                    };
                    let now = look_again()?;
                    reads = if now == found { reads + 1 } else { 0 };
                    if now != found {
                        points::FETCH_MOVED.reach();
                    }
                    found = now;
                    if reads < READS_MAX {
                        continue;
                    }
                    let place = format!("flash slot {}", slot.0);
                    return Ok(FetchResult::Damaged { place, fault, dirty, ticket: found.2, copy: found.0 });
                }
            }
        }
    }

    /// Looks again for a page whose frame is, or was, being filled. In another process that may take for
    /// ever: it was killed, and so was the back.
    fn look_when_filled<T: PartialEq>(
        &self,
        before: T,
        looks: &mut u32,
        look_again: impl Fn() -> Result<T, Gone>,
    ) -> Result<T, TierError> {
        yield_now();
        *looks += 1;
        if self.seat.is_none() || *looks < LOOKS_MAX {
            return Ok(look_again()?);
        }
        let seen = self.progress.epoch();
        let found = look_again()?;
        if found == before {
            self.await_progress(seen)?;
        }
        Ok(found)
    }

    /// Whether the disk may lack the newest version of `page`: its copy in the cache is dirty, or entered at
    /// or after `sure`, if that is given.
    pub(crate) fn may_be_newer(&self, page: PageId, sure: Option<Position>) -> Result<bool, Gone> {
        let found = self.with_objects(|partition, objects| {
            living(partition, objects, page, |partition| partition.peek(page))
        })?;
        let is_unsure = |position| sure.is_some_and(|sure| position >= sure);
        Ok(match found {
            Lookup::Absent => false,
            Lookup::Staged { dirty, position, .. } => dirty || is_unsure(position),
            Lookup::Flash { dirty, generation: Generation::Exact(position), .. } => {
                dirty || is_unsure(position)
            }
            Lookup::Flash { dirty, .. } => dirty,
        })
    }

    /// Whether the cache has `page`.
    pub(crate) fn has(&self, page: PageId) -> Result<bool, Gone> {
        self.with_objects(|partition, objects| {
            living(partition, objects, page, |partition| partition.peek(page)) != Lookup::Absent
        })
    }

    /// Whether `page` is newer in the cache than on disk.
    pub(crate) fn is_dirty(&self, page: PageId) -> Result<bool, Gone> {
        self.with_objects(|partition, objects| {
            match living(partition, objects, page, |partition| partition.peek(page)) {
                Lookup::Staged { dirty, .. } | Lookup::Flash { dirty, .. } => dirty,
                Lookup::Absent => false,
            }
        })
    }

    /// The position of `page`'s copy on flash, if that is newer than the disk's. It counts as used, as if it
    /// had been fetched.
    pub(crate) fn dirty_position(&self, page: PageId) -> Result<Option<Position>, Gone> {
        self.with_objects(|partition, objects| {
            match living(partition, objects, page, |partition| partition.fetch(page)) {
                Lookup::Flash { dirty, generation: Generation::Exact(position), .. } if dirty => {
                    Some(position)
                }
                Lookup::Flash { .. } | Lookup::Staged { .. } | Lookup::Absent => None,
            }
        })
    }

    /// The page was read and proved: an exclusive policy gives up its copy. Not of a dirty page while a
    /// checkpoint is under way: DRAM may have evicted all that the checkpoint needs, and the sweep would
    /// not meet it any more.
    fn went_up(&self, page: PageId, source: Source, dirty: bool) -> Result<Fetched, Gone> {
        if !self.config.policy.exclusive() {
            return Ok(Fetched { source, dirty, fdirty: false });
        }
        let taken = self.with(|partition| {
            let stays = dirty && self.board.checkpoints.load(SeqCst) > 0;
            if stays || !self.state.is_running() {
                Taken::Copied
            } else {
                partition.slots_mut().map_or(Taken::Copied, |slots| slots.taken(page))
            }
        })?;
        Ok(match taken {
            Taken::Copied => Fetched { source, dirty, fdirty: false },
            Taken::Moved { dirty } => {
                self.tallies().moved_up.add(1);
                self.job_is_done();
                Fetched { source, dirty, fdirty: dirty }
            }
        })
    }
}

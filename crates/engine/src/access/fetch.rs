//! A fetch: from staging, or from flash.
//!
//! A page is looked up without the latch first, where the policy allows it. Such a hit is served if it is
//! still current after its read. Whatever else it is (absent, staged, moved, damaged, in the middle of a
//! change) is asked again under the latch. A page that is absent is always asked there, with the ticket of
//! its read from disk in the same step: one that was missed during a change would be read in an older
//! version.
//!
//! Invariants: a served page was proved by checksum, id and generation, and is the newest version. After a
//! version was served, no older one is. After a power failure that holds for versions that are durable on
//! flash: a staged one may be lost.

use super::Base;
use super::board::BoardRef;
use super::dead::living;
use super::directory::Directory;
use super::flash_pages::FlashPages;
use super::order::{PageOrder, ReadTicket};
use super::run_state::RunState;
use super::seat::Seat;
use super::signals::Signals;
use super::staging::Staging;
use crate::api::{Fetched, Source};
use crate::shadow::Shadow;
use crate::{TierError, points};
use entresol_core::{Generation, Hit, Lookup, PageId, Partition, Taken};
use entresol_objects::Objects;
use entresol_runtime::yield_now;
use entresol_shm::Gone;
use std::sync::Arc;
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
    /// The disk has it. With the ticket it may enter the flash ([`super::Offers::populate`]).
    OnDisk(ReadTicket),
    /// Its copy on flash is damaged; unless it is dirty, the disk has it, too.
    Damaged { place: String, fault: String, dirty: bool, ticket: ReadTicket, copy: Lookup },
}

/// What was found of a page under the latch: its checksum, if one is kept, and the ticket of a read of it
/// from disk that begins then.
type Found = (Lookup, u32, ReadTicket);

/// What became of a look-up without the latch.
enum Unlatched {
    /// Nothing: the latch is to be taken.
    Not,
    /// The page is in the caller's buffer.
    Here(Fetched),
    /// The page was on flash. It has moved since, or its read gave something else, or that is not known.
    Unsure { hit: Hit, is_read: bool },
}

/// The checksum that is kept for the page, if it is on flash.
fn proof_of(partition: &Partition<'_>, lookup: &Lookup) -> u32 {
    match lookup {
        Lookup::Flash { slot, .. } => partition.proof(*slot),
        Lookup::Staged { .. } | Lookup::Absent => 0,
    }
}

/// Fetches of single pages.
pub(crate) struct Fetches {
    directory: Arc<Directory>,
    staging: Arc<Staging>,
    flash_pages: Arc<FlashPages>,
    signals: Arc<Signals>,
    state: Arc<RunState>,
    /// Frames may be filled by other processes.
    seat: Option<Arc<Seat>>,
    order: PageOrder,
    shadow: Arc<Shadow>,
    board: BoardRef,
}

impl Fetches {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            directory: base.directory.clone(),
            staging: base.staging.clone(),
            flash_pages: base.flash_pages.clone(),
            signals: base.signals.clone(),
            state: base.state.clone(),
            seat: base.seat.clone(),
            order: base.order.clone(),
            shadow: base.shadow.clone(),
            board: base.board.clone(),
        }
    }

    /// Fetches `page` if it is in the cache; `buffer` has its length.
    pub(crate) fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<FetchResult, TierError> {
        let mut unlatched = Unlatched::Not;
        if self.state.is_running() {
            entresol_runtime::may_preempt();
            unlatched = self.fetch_unlatched(page, buffer);
        }
        if let Unlatched::Here(fetched) = unlatched {
            return Ok(FetchResult::Here(fetched));
        }
        self.fetch_latched(page, buffer, unlatched)
    }

    /// As [`Fetches::fetch`], of a page that was not served without the latch.
    #[inline(never)]
    fn fetch_latched(
        &self,
        page: PageId,
        buffer: &mut [u8],
        unlatched: Unlatched,
    ) -> Result<FetchResult, TierError> {
        if !self.signals.check_running()? {
            points::OFF_FETCH.reach();
            return Ok(FetchResult::OnDisk(self.order.read_begins(page)));
        }
        let (found, reads) = match unlatched {
            Unlatched::Here(fetched) => return Ok(FetchResult::Here(fetched)),
            Unlatched::Not => (self.look_up(page)?, 0),
            Unlatched::Unsure { hit, is_read } => {
                if !is_read {
                    entresol_runtime::may_preempt();
                }
                let now = self.directory.step_with_objects(|partition, objects| {
                    self.found(partition, objects, page, |partition| partition.peek(page))
                })?;
                let is_same = (now.0, now.1) == (hit.lookup(), hit.proof);
                if is_same && is_read {
                    return Ok(FetchResult::Here(self.is_hit(hit.dirty)));
                }
                if !is_same {
                    points::FETCH_MOVED.reach();
                }
                (now, u32::from(is_same))
            }
        };
        self.serve(page, buffer, found, reads)
    }

    /// A page was served from flash, and stays there.
    fn is_hit(&self, dirty: bool) -> Fetched {
        self.board.count_flash_hits(1);
        Fetched { source: Source::Flash, dirty, fdirty: false }
    }

    /// Looks `page` up without the latch, and reads it if it is on flash.
    fn fetch_unlatched(&self, page: PageId, buffer: &mut [u8]) -> Unlatched {
        let Some(index) = self.directory.unlatched() else { return Unlatched::Not };
        let Some(hit) = index.fetch(page) else { return Unlatched::Not };
        self.shadow.fetch(page);
        let generation = Generation::Exact(hit.position);
        let is_read = self.flash_pages.read(buffer, page, hit.slot, generation, hit.proof).is_ok();
        #[cfg(feature = "hooks")]
        if self.seat.is_some() {
            crate::hooks::pass("hit");
        }
        if is_read && self.directory.is_current(&index, page, &hit) {
            return Unlatched::Here(self.is_hit(hit.dirty));
        }
        Unlatched::Unsure { hit, is_read }
    }

    /// What `look_up` finds of `page`.
    fn found(
        &self,
        partition: &mut Partition<'_>,
        objects: Option<&mut Objects<'_>>,
        page: PageId,
        look_up: impl FnOnce(&mut Partition<'_>) -> Lookup,
    ) -> Found {
        let lookup = living(partition, objects, page, look_up);
        (lookup, proof_of(partition, &lookup), self.order.read_begins(page))
    }

    /// Looks `page` up under the latch. It counts as fetched.
    fn look_up(&self, page: PageId) -> Result<Found, Gone> {
        let found = self.directory.step_with_objects(|partition, objects| {
            self.found(partition, objects, page, |partition| {
                let lookup = partition.fetch(page);
                if lookup == Lookup::Absent && self.directory.config.policy.learns_from_misses() {
                    partition.missed(page);
                }
                lookup
            })
        })?;
        self.shadow.fetch(page);
        Ok(found)
    }

    /// Serves what was found under the latch. `reads`: of the page, there, that gave something else.
    fn serve(
        &self,
        page: PageId,
        buffer: &mut [u8],
        mut found: Found,
        mut reads: u32,
    ) -> Result<FetchResult, TierError> {
        let look_again = || {
            self.directory.with_objects(|partition, objects| {
                self.found(partition, objects, page, |partition| partition.peek(page))
            })
        };
        let mut looks = 0;
        loop {
            match found.0 {
                Lookup::Absent => return Ok(FetchResult::OnDisk(found.2)),
                Lookup::Staged { frame, position, dirty } => {
                    if self.staging.copy_out(frame, page, position, buffer)? {
                        self.board.tallies.staging_hits.add(1);
                        return Ok(FetchResult::Here(self.went_up(page, Source::Staging, dirty)?));
                    }
                    // Written and reused meanwhile, or still being copied in.
                    found = self.look_when_filled(found, &mut looks, look_again)?;
                }
                Lookup::Flash { slot, generation, dirty } => {
                    let Err(fault) = self.flash_pages.read(buffer, page, slot, generation, found.1) else {
                        self.board.count_flash_hits(1);
                        return Ok(FetchResult::Here(self.went_up(page, Source::Flash, dirty)?));
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
                    let (place, fault) = (format!("flash slot {}", slot.0), fault.to_string());
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
        let seen = self.signals.progress.epoch();
        let found = look_again()?;
        if found == before {
            self.signals.await_progress(seen)?;
        }
        Ok(found)
    }

    /// The page was read and proved: an exclusive policy gives up its copy. Not of a dirty page while a
    /// checkpoint is under way: DRAM may have evicted all that the checkpoint needs, and the sweep would
    /// not meet it any more.
    fn went_up(&self, page: PageId, source: Source, dirty: bool) -> Result<Fetched, Gone> {
        if !self.directory.config.policy.exclusive() {
            return Ok(Fetched { source, dirty, fdirty: false });
        }
        let taken = self.directory.with(|partition| {
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
                self.board.tallies.moved_up.add(1);
                self.signals.job_is_done();
                Fetched { source, dirty, fdirty: dirty }
            }
        })
    }
}

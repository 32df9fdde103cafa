//! A fetch: from staging, or from flash.
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
use entresol_core::{Lookup, PageId, Partition, Taken};
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
        if !self.signals.check_running()? {
            points::OFF_FETCH.reach();
            return Ok(FetchResult::OnDisk(self.order.read_begins(page)));
        }
        let mut found = self.directory.with_objects(|partition, objects| {
            let lookup = living(partition, objects, page, |partition| {
                let lookup = partition.fetch(page);
                if lookup == Lookup::Absent && self.directory.config.policy.learns_from_misses() {
                    partition.missed(page);
                }
                lookup
            });
            (lookup, proof_of(partition, &lookup), self.order.read_begins(page))
        })?;
        self.shadow.fetch(page);
        let look_again = || {
            self.directory.with_objects(|partition, objects| {
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
                        self.board.tallies.staging_hits.add(1);
                        return Ok(FetchResult::Here(self.went_up(page, Source::Staging, dirty)?));
                    }
                    // Written and reused meanwhile, or still being copied in.
                    found = self.look_when_filled(found, &mut looks, look_again)?;
                }
                Lookup::Flash { slot, generation, dirty } => {
                    let Err(fault) = self.flash_pages.read(buffer, page, slot, generation, found.1) else {
                        self.board.tallies.flash_hits.add(1);
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

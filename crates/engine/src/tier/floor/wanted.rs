//! Dirty pages that their owner wants on disk now: before files are copied or removed, for a backup, or to
//! stop using the cache. They stay in the cache, as clean pages.
//!
//! Invariants: a copy is reported clean only when the disk has it durably. No version of a page follows a
//! newer one to disk, since no dequeue of a group begins while a page of it is copied
//! ([`entresol_core::Cleaning`]).

use super::Floor;
use super::destager::Destager;
use super::disk_trouble::DiskTrouble;
use super::failures::{Failures, PanicGuard};
use super::flash::Flash;
use super::renewals::Renewals;
use super::staged::StagedPages;
use crate::access::{BoardRef, Directory, FlashPages, ObjectTable, Signals};
use crate::api::{PageSet, Progress};
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::names::Names;
use crate::to_disk::{Destages, READS_MAX, named, read_what_is_there};
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::{CleanPage, Cleaning, PageId, Partition, Position, SlotId};
use entresol_device::Device;
use entresol_objects::{ObjectId, Objects};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now, sleep, spawn};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Most pages that are copied between two syncs of the disk; [`READS_MAX`] of them at once.
pub(crate) const BATCH: usize = 4 * READS_MAX;

/// How long pages are waited for that are on their way to a disk that takes none.
const BUSY_MAX: Duration = Duration::from_secs(3);

type Copies = ArrayVec<CleanPage, BATCH>;

/// What became of pages that were to be copied.
pub(crate) struct Copied {
    pub copied: u64,
    /// Others have these in hand.
    pub busy: ArrayVec<PageId, BATCH>,
    /// The first page for which there was no time.
    pub next: Option<PageId>,
    /// When the last of them were read, before the sync.
    pub begun: Time,
}

/// Copies that were tried.
struct Tried {
    count: usize,
    begun: Time,
}

/// How pages are copied behind clients: few at a time, with pauses, and one sync of the disk for all. A sync
/// costs clients more than a copy.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Pages that are read, and written, at once.
    pub at_once: usize,
    /// The pause after them, in thousandths of the time that they took.
    pub pause_permille: u32,
    /// From then on none is begun. Until the sync no dequeue of their groups begins.
    pub until: Time,
}

/// Those of `pages` of which the copy on flash is to be on disk. `objects` says what is dead.
fn begin(
    partition: &mut Partition<'_>,
    objects: Option<&Objects<'_>>,
    pages: &[PageId],
) -> (Copies, ArrayVec<PageId, BATCH>) {
    let (mut copies, mut busy) = (Copies::new(), ArrayVec::new());
    for page in pages {
        if let (Some(objects), Some(log)) = (objects, partition.log_mut()) {
            let is_dead = |page: PageId, position: Position| objects.is_dead(page, position);
            log.drop_dead_copies(*page, is_dead);
        }
        match partition.clean(*page) {
            Cleaning::Clean => {}
            Cleaning::Busy => busy.push(*page),
            Cleaning::Copy(copy) => copies.push(copy),
        }
    }
    (copies, busy)
}

/// Which dirty pages are wanted.
enum Wanted<'a> {
    /// Of these.
    Set(&'a PageSet),
    /// Those with a base before this checkpoint of their owner.
    Behind(u64),
}

/// Tasks that copy pages for one caller: one writes while the disk is synced for another.
const COPIERS: usize = 2;

/// Pages that several tasks copy.
struct Round {
    pages: Vec<PageId>,
    /// The next batch.
    next: AtomicUsize,
    /// It ends early.
    is_over: AtomicBool,
    outcome: TinyMutex<Outcome>,
}

/// What became of them so far.
#[derive(Default)]
struct Outcome {
    copied: u64,
    busy: Vec<PageId>,
    stays: Vec<TierError>,
    /// The tier does not run any more.
    has_ended: bool,
    failed: Option<TierError>,
}

impl Round {
    fn begin(pages: Vec<PageId>) -> Arc<Self> {
        let outcome = TinyMutex::new(Rank::WantedPages, Outcome::default());
        Arc::new(Self { pages, next: AtomicUsize::new(0), is_over: AtomicBool::new(false), outcome })
    }

    /// The next pages, each to be taken once.
    fn take(&self) -> Option<&[PageId]> {
        let batch = self.next.fetch_add(1, SeqCst);
        self.pages.chunks(BATCH).nth(batch).filter(|_| !self.is_over.load(SeqCst))
    }
}

/// See the module's header.
#[derive(Clone)]
pub(crate) struct WantedPages {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    table: Arc<ObjectTable>,
    signals: Arc<Signals>,
    board: BoardRef,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    staged: Arc<StagedPages>,
    destager: Arc<Destager>,
    renewals: Arc<Renewals>,
    failures: Arc<Failures>,
    trouble: Arc<DiskTrouble>,
}

impl WantedPages {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            table: floor.access.objects.clone(),
            signals: floor.access.signals.clone(),
            board: floor.access.board.clone(),
            flash: floor.flash.clone(),
            disk: floor.disk.clone(),
            staged: floor.staged.clone(),
            destager: floor.destager.clone(),
            renewals: floor.renewals.clone(),
            failures: floor.failures.clone(),
            trouble: floor.trouble.clone(),
        }
    }

    /// Copies the newest versions of these pages to disk, where the cache has newer ones. When it returns,
    /// those handed down before it began are durable there. Returns how many were copied.
    pub(crate) fn destage(&self, wanted: &PageSet) -> Result<u64, TierError> {
        self.destage_watched(wanted, &mut |_| ControlFlow::Continue(()))
    }

    /// As [`WantedPages::destage`]; `watch` is told how far it is, and may end it early.
    pub(crate) fn destage_watched(
        &self,
        wanted: &PageSet,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64, TierError> {
        let mut stays = Vec::new();
        let copied = self.destage_found(wanted, &mut stays, watch)?;
        stays.into_iter().next().map_or(Ok(copied), Err)
    }

    /// As [`WantedPages::destage_watched`]; pages that are damaged or that the disk does not take stay where
    /// they are, with an error each in `stays`.
    pub(crate) fn destage_found(
        &self,
        wanted: &PageSet,
        stays: &mut Vec<TierError>,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64, TierError> {
        self.destage_all(&Wanted::Set(wanted), stays, watch)
    }

    /// As [`WantedPages::destage_watched`], of the dirty pages with a base before this checkpoint of their
    /// owner.
    pub(crate) fn destage_behind(
        &self,
        number: u64,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64, TierError> {
        let (wanted, mut stays) = (Wanted::Behind(number), Vec::new());
        let copied = self.destage_all(&wanted, &mut stays, watch)?;
        stays.into_iter().next().map_or(Ok(copied), Err)
    }

    fn destage_all(
        &self,
        wanted: &Wanted<'_>,
        stays: &mut Vec<TierError>,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64, TierError> {
        if !self.signals.check_running()? {
            return self.destage_without_flash(wanted, 0);
        }
        // What is staged is in slots then.
        let mut drained = self.staged.drain()?;
        let entered = || self.directory.with(|partition| Position(partition.occupancy().entered));
        let (mut copied, mut busy_since) = (0, None);
        let mut left = self.dirty_of(wanted)?;
        let total = left.len() as u64;
        while !left.is_empty() {
            let seen = self.signals.progress.epoch();
            let before = left.len();
            let done = total - before as u64;
            let round = Round::begin(std::mem::take(&mut left));
            let is_cancelled = self.copy_round(&round, &mut |copied| {
                watch(Progress { done: (done + copied).min(total), total })
            });
            let Outcome { copied: some, mut busy, stays: damaged, has_ended, failed } =
                std::mem::take(&mut *round.outcome.lock());
            copied += some;
            stays.extend(damaged);
            if let Some(error) = failed {
                return Err(error);
            }
            if has_ended && !self.signals.check_running()? {
                return self.destage_without_flash(wanted, copied);
            }
            if is_cancelled {
                return Ok(copied);
            }
            busy.sort_unstable();
            if busy.len() < before {
                busy_since = None;
            } else {
                points::WANTED_BUSY.reach();
                let since = *busy_since.get_or_insert_with(now);
                let is_long = now().since(since) > BUSY_MAX && self.trouble.is_long(since);
                if let Some(error) = self.trouble.error().filter(|_| is_long) {
                    // Their dequeues wait for the disk.
                    let not_taken =
                        |page: &PageId| TierError::NotTaken { page: *page, why: error.to_string() };
                    stays.extend(busy.iter().map(not_taken));
                    break;
                }
                // Second chances of their dequeues may wait in a group that is not full: not if none has
                // entered since.
                if entered()? != drained {
                    // Those that enter meanwhile are after this.
                    drained = self.staged.drain()?;
                } else {
                    self.signals.background.notify_one();
                    self.signals.await_progress(seen)?;
                }
            }
            left = busy;
        }
        // Pages that went to disk past the flash are durable there, too.
        self.disk.sync().inspect_err(|error| self.failures.fail(error.clone()))?;
        Ok(copied)
    }

    /// Copies the pages of a round, with the help of other tasks. True: `watch`, which is told how many were
    /// copied, has ended it.
    fn copy_round(&self, round: &Arc<Round>, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> bool {
        let helpers = COPIERS.min(round.pages.len().div_ceil(BATCH)).saturating_sub(1);
        let helpers: Vec<_> = (0..helpers)
            .map(|_| {
                let (this, round) = (self.clone(), round.clone());
                spawn("flash copies", move || {
                    _ = this.copy_batches(&round, &mut |_| ControlFlow::Continue(()))
                })
            })
            .collect();
        let is_cancelled = self.copy_batches(round, watch);
        // One that has panicked has poisoned the tier.
        helpers.into_iter().for_each(|helper| drop(helper.join_or_panic()));
        is_cancelled
    }

    fn copy_batches(&self, round: &Round, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> bool {
        let _guard = PanicGuard(&self.failures);
        let mut buffer = self.buffer();
        while let Some(pages) = round.take() {
            let mut stays = Vec::new();
            let done = self.copy_some(pages, None, &mut buffer, &mut stays);
            let copied = {
                let mut outcome = round.outcome.lock();
                outcome.stays.extend(stays);
                match done {
                    Ok(Some(done)) => {
                        outcome.copied += done.copied;
                        outcome.busy.extend(done.busy);
                    }
                    Ok(None) => outcome.has_ended = true,
                    Err(error) => outcome.failed = Some(error),
                }
                if outcome.has_ended || outcome.failed.is_some() {
                    round.is_over.store(true, SeqCst);
                }
                outcome.copied
            };
            if watch(copied).is_break() {
                round.is_over.store(true, SeqCst);
                return true;
            }
        }
        false
    }

    /// Memory for [`WantedPages::copy_some`].
    pub(crate) fn buffer(&self) -> AlignedBuffer {
        AlignedBuffer::new(BATCH * self.flash_pages.page_bytes)
    }

    /// Copies the newest versions of these pages, at most [`BATCH`], to disk, durably, as far as no dequeue
    /// or other copy has them in hand, and as there is time. `None`: the tier does not run any more.
    pub(crate) fn copy_some(
        &self,
        pages: &[PageId],
        pace: Option<Pace>,
        buffer: &mut [u8],
        stays: &mut Vec<TierError>,
    ) -> Result<Option<Copied>, TierError> {
        let Some(_under_way) = self.failures.begin_job() else { return Ok(None) };
        let before = stays.len();
        let (copies, busy) =
            self.directory.with_objects(|partition, objects| begin(partition, objects.as_deref(), pages))?;
        let tried = self.copy_wanted(&copies, pace, buffer, stays)?;
        let next = copies.get(tried.count).map(|page| page.page);
        Ok(Some(Copied {
            copied: (tried.count - (stays.len() - before)) as u64,
            busy,
            next,
            begun: tried.begun,
        }))
    }

    /// The flash has failed: the disk has everything, or lacks pages that it gets as far as they can be read.
    fn destage_without_flash(&self, wanted: &Wanted<'_>, copied: u64) -> Result<u64, TierError> {
        self.disk.sync()?;
        let lacking = self.disk.missing.since_failure().map_or(0, |missing| match *wanted {
            Wanted::Set(PageSet::Range(first, last)) => missing.within(*first, *last).len() as u64,
            Wanted::Set(PageSet::Named { .. }) | Wanted::Behind(_) => missing.count().0,
        });
        if lacking == 0 {
            return Ok(copied);
        }
        Err(TierError::Refused(format!(
            "the flash has failed, and {lacking} pages that only it has are not on disk yet; they are copied as far as they can \
             be read"
        )))
    }

    /// The pages among `wanted` that are dirty in slots, in the order of their places on disk.
    fn dirty_of(&self, wanted: &Wanted<'_>) -> Result<Vec<PageId>, TierError> {
        let mut dirty: Vec<PageId> = Vec::new();
        loop {
            // In memory that is taken before the latch.
            let count = self.directory.with(|partition| partition.occupancy().dirty)?;
            dirty.reserve(count as usize);
            let is_all = self.directory.with(|partition| {
                let has_room = partition.occupancy().dirty as usize <= dirty.capacity();
                match (has_room, wanted, partition.log()) {
                    (true, Wanted::Behind(number), Some(log)) => {
                        dirty.extend(log.dirty_based_before(0..u32::MAX, *number));
                    }
                    (true, ..) => dirty.extend(partition.dirty_slots().map(|(_, page)| page)),
                    (false, ..) => {}
                }
                has_room
            })?;
            if is_all {
                break;
            }
        }
        dirty.sort_unstable();
        match *wanted {
            Wanted::Behind(_) => {}
            Wanted::Set(PageSet::Range(first, last)) => dirty.retain(|page| (*first..=*last).contains(page)),
            Wanted::Set(PageSet::Named { name, length }) => {
                let name = &name[..(*length).min(name.len())];
                let mut named = Vec::with_capacity(dirty.len());
                for of_object in dirty.chunk_by(|a, b| a.object() == b.object()) {
                    let locator = self.table.locator(ObjectId(of_object[0].object()));
                    if locator.is_some_and(|locator| locator.starts_with(name)) {
                        named.extend_from_slice(of_object);
                    }
                }
                return Ok(named);
            }
        }
        Ok(dirty)
    }

    /// Copies pages to disk, durably, and reports them.
    fn copy_wanted(
        &self,
        copies: &Copies,
        pace: Option<Pace>,
        buffer: &mut [u8],
        stays: &mut Vec<TierError>,
    ) -> Result<Tried, TierError> {
        if copies.is_empty() {
            return Ok(Tried { count: 0, begun: now() });
        }
        let before = stays.len();
        let written = self.write_wanted(copies, pace, buffer, stays);
        let stay = named(&stays[before..]);
        let count = written.as_ref().map_or(0, |tried| tried.count);
        self.directory.with(|partition| {
            for (at, page) in copies.iter().enumerate() {
                // Its owner is told of a page that stays.
                match at < count && !stay.contains(&page.page) {
                    true => partition.cleaned(page),
                    false => partition.clean_failed(page),
                }
            }
        })?;
        self.signals.job_is_done();
        // A failed write or sync may have lost those of other tasks.
        written.inspect_err(|error| self.failures.fail(error.clone()))
    }

    /// Writes copies to disk, durably, as long as there is time.
    fn write_wanted(
        &self,
        copies: &Copies,
        pace: Option<Pace>,
        buffer: &mut [u8],
        stays: &mut Vec<TierError>,
    ) -> Result<Tried, TierError> {
        let at_once = pace.map_or(READS_MAX, |pace| pace.at_once.clamp(1, READS_MAX));
        let mut written = Vec::with_capacity(copies.len().div_ceil(at_once));
        let mut tried = Tried { count: 0, begun: now() };
        let parts = buffer.chunks_mut(at_once * self.flash_pages.page_bytes);
        for (some, buffer) in copies.chunks(at_once).zip(parts) {
            tried.begun = now();
            written.push(self.write_some(some, buffer, stays)?);
            tried.count += some.len();
            let Some(pace) = pace.filter(|_| tried.count < copies.len()) else { continue };
            if now() >= pace.until {
                break;
            }
            sleep(now().since(tried.begun) * pace.pause_permille / 1000);
        }
        self.disk.sync()?;
        // Before they count as clean.
        self.renewals.renew()?;
        written.iter().for_each(|pages| self.destager.tell(pages));
        Ok(tried)
    }

    /// Writes pages from flash to disk, at most [`READS_MAX`]. Returns those that the disk has taken.
    fn write_some<'a>(
        &self,
        copies: &[CleanPage],
        buffer: &'a mut [u8],
        stays: &mut Vec<TierError>,
    ) -> Result<Destages<'a>, TierError> {
        let wanted: ArrayVec<(PageId, SlotId), READS_MAX> =
            copies.iter().map(|page| (page.page, page.slot)).collect();
        let proofs: ArrayVec<u32, READS_MAX> = self.directory.proofs(wanted.iter().map(|(_, slot)| *slot))?;
        let prove = |at: usize, data: &[u8]| {
            let page = &copies[at];
            self.flash_pages.prove(data, page.page, page.slot, page.generation, proofs[at])
        };
        let flash: &dyn Device = &**self.flash;
        let (mut pages, faults) =
            read_what_is_there(&flash, self.flash_pages.format(), &wanted, buffer, prove)?;
        stays.extend(faults);
        self.board.tallies.dequeue_reads.add(copies.len());
        points::WANTED_COPIED.reach();
        for ((page, _), error) in self.destager.destage_some(&mut pages)? {
            stays.push(TierError::NotTaken { page, why: error.to_string() });
        }
        Ok(pages)
    }
}

//! The flash has failed while it had pages that the disk lacks, and no log stands above: the tier goes on
//! from disk, and only reads the flash (docs/DESIGN.md, "Degraded").
//!
//! Invariants:
//!
//! - Before a request is answered from disk again, the label says that the flash has failed, and which pages
//!   the disk lacks. No job that moves pages is under way then.
//! - From then on nothing is written to flash.

use super::FlashTier;
use super::back::Back;
use crate::buffer::AlignedBuffer;
use crate::disk::binding::begin_epoch;
use crate::disk::{Missing, PageRanges, RANGES_AT_FIRST};
use crate::front::State;
use crate::rescue::Rescue;
use crate::signal::Signal;
use crate::to_disk::READS_MAX;
use crate::{TierError, events, points};
use arrayvec::ArrayVec;
use entresol_core::{Lookup, PageId, mutant};
use entresol_runtime::sleep;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Times that pages which could not be read are tried again, and the pause before the first time. Each pause
/// is twice as long as the one before.
const RETRIES: u32 = 9;
const PAUSE: Duration = Duration::from_secs(1);
/// The task looks so often whether the tier ends.
const SLICE: Duration = Duration::from_millis(50);

/// What a tier has that can become degraded.
#[derive(Default)]
pub(crate) struct Degradable {
    /// Why the flash has failed, until that is dealt with.
    failure: Failure,
    /// For the task that deals with it.
    wakes: Signal,
    /// The tier ends.
    ends: AtomicBool,
    /// Jobs under way that move pages.
    jobs: AtomicU32,
}

struct Failure(TinyMutex<Option<TierError>>);

impl Default for Failure {
    fn default() -> Self {
        Self(TinyMutex::new(Rank::Failure, None))
    }
}

impl Degradable {
    /// The task is to look again: the tier ends, or has failed in another way.
    pub(super) fn wake(&self, ends: bool) {
        self.ends.fetch_or(ends, SeqCst);
        self.wakes.notify_all();
    }
}

/// A job that moves pages is under way, until dropped.
pub(super) struct Job<'a>(&'a Back);

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Some(degradable) = &self.0.degradable
            && degradable.jobs.fetch_sub(1, SeqCst) == 1
            && self.0.front.state.is_stopped()
        {
            degradable.wakes.notify_all();
        }
    }
}

impl Back {
    /// A job may begin that moves pages. `None`: the tier does not run any more.
    pub(super) fn begin_job(&self) -> Option<Job<'_>> {
        // Counted first: whoever has changed the state waits for it, or it sees the state.
        if let Some(degradable) = &self.degradable {
            degradable.jobs.fetch_add(1, SeqCst);
        }
        let job = Job(self);
        (!self.front.state.is_stopped()).then_some(job)
    }

    /// Whether the tier can go on without its flash after this error, though pages on it are newer.
    pub(super) fn can_degrade(&self, error: &TierError) -> bool {
        let is_of_flash =
            matches!(error, TierError::Device { role: "flash", .. } | TierError::Damaged { .. });
        self.degradable.is_some() && is_of_flash && !mutant!("failed-flash-stops-all")
    }

    /// Leaves the rest to the task that waits for it. The tier runs no more, and requests wait.
    pub(super) fn begin_to_degrade(&self, error: &TierError) {
        if let Some(degradable) = &self.degradable {
            *degradable.failure.0.lock() = Some(error.clone());
        }
    }

    /// Waits until the flash fails. Then makes the tier degraded, and copies to disk what it lacks.
    pub(super) fn degrade_task(&self) {
        let Some(degradable) = &self.degradable else { return };
        loop {
            let seen = degradable.wakes.epoch();
            let failure = degradable.failure.0.lock().take();
            if let Some(error) = failure {
                if let Err(error) = self.degrade(&error) {
                    return self.cannot_degrade(&error);
                }
                self.wake_all();
                break;
            }
            if self.is_degraded() {
                break;
            }
            // A tier in state `Leaving` enters its final state soon.
            if degradable.ends.load(SeqCst) && self.front.state.now() != State::Leaving {
                return;
            }
            degradable.wakes.wait(seen);
        }
        let mut pause = PAUSE;
        for _ in 0..=RETRIES {
            match self.salvage_all(&degradable.ends) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => events::not_salvaged(&error),
            }
            let until = entresol_runtime::now() + pause;
            while entresol_runtime::now() < until {
                if degradable.ends.load(SeqCst) {
                    return;
                }
                sleep(SLICE);
            }
            pause *= 2;
        }
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.front.state.now() == State::Degraded
    }

    /// The flash has failed with `error`. Requests wait meanwhile.
    fn degrade(&self, error: &TierError) -> Result<(), TierError> {
        self.await_jobs();
        let (durable, staged) = self.what_disk_lacks()?;
        let lost = self.disk.lost().map_or(0, |missing| missing.count().1.len());
        let durable = self.make_few(durable, staged.ranges() + lost)?;
        self.disk.flash_fails(self.front.clone(), (durable, staged), |label| {
            (label.failed_epoch, label.failed_nonce) = (label.epoch, label.epoch_nonce);
            begin_epoch(label);
            (label.dirty_possible, label.lost) = (true, false);
        })?;
        // What is in memory alone, so that a flush has nothing to do.
        let mut buffer = AlignedBuffer::new(READS_MAX * self.front.page_bytes());
        let (mut from, missing) = (PageId(0), self.disk.missing());
        while missing.is_some_and(Missing::has_staged) {
            let next = self.disk.salvage(from, &mut buffer)?;
            from = next.ok_or_else(|| TierError::Refused("pages in memory cannot be read".to_owned()))?;
        }
        points::DEGRADED.reach();
        let notice = format!(
            "the flash has failed, the disk serves; {} pages that only the flash has are read from there while that is possible, \
             and copied to disk: {error}",
            missing.map_or(0, |missing| missing.count().0)
        );
        events::degraded(&notice);
        self.front.state.degrade(notice);
        Ok(())
    }

    fn cannot_degrade(&self, error: &TierError) {
        let unsaved = self.front.with(|partition| partition.unsaved()).unwrap_or_default();
        self.front.state.poison(super::failure::poison(error, unsaved));
        self.wake_all();
    }

    /// Waits until no job is under way that moves pages: none begins any more.
    fn await_jobs(&self) {
        let Some(degradable) = &self.degradable else { return };
        loop {
            let seen = degradable.wakes.epoch();
            if degradable.jobs.load(SeqCst) == 0 {
                return;
            }
            degradable.wakes.wait(seen);
        }
    }

    /// The pages of which flash has a newer version than the disk, and those of which memory has one.
    fn what_disk_lacks(&self) -> Result<(PageRanges, PageRanges), TierError> {
        let mut slots: Vec<PageId> = self.collect(|partition, found| {
            let lacking = partition.dirty_slots().filter(|(slot, _)| !partition.is_destaged(*slot));
            lacking.for_each(|(_, page)| found(page));
        })?;
        let staged: Vec<PageId> =
            self.collect(|partition, found| partition.staged_dirty_pages().for_each(found))?;
        slots.sort_unstable();
        let (mut durable, mut in_memory) = (PageRanges::default(), PageRanges::default());
        slots.into_iter().for_each(|page| durable.insert(page));
        for page in staged {
            let found = self.front.with(|partition| partition.peek(page))?;
            if matches!(found, Lookup::Staged { dirty: true, .. }) {
                in_memory.insert(page);
            }
        }
        Ok((durable, in_memory))
    }

    /// Copies pages of `durable` to disk until so few ranges are left that they can be recorded.
    fn make_few(&self, mut durable: PageRanges, others: usize) -> Result<PageRanges, TierError> {
        let page_bytes = self.front.page_bytes();
        let mut buffer = AlignedBuffer::new(READS_MAX * page_bytes);
        let mut from = PageId(0);
        while durable.ranges() + others > RANGES_AT_FIRST {
            let pages = durable.next(from, READS_MAX);
            let Some(last) = pages.last() else { break };
            from = PageId(last.0 + 1);
            let mut copied: ArrayVec<(PageId, &[u8]), READS_MAX> = ArrayVec::new();
            for (page, bytes) in pages.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
                // One that is in memory, too, is newer there, and the disk gets that later.
                if self.front.rescue(*page, bytes).is_ok() {
                    copied.push((*page, bytes));
                }
            }
            points::DEGRADED_MADE_FEW.reach();
            self.disk.write_all::<READS_MAX>(copied.iter().copied())?;
            self.disk.sync()?;
            copied.iter().for_each(|(page, _)| durable.remove(*page));
        }
        Ok(durable)
    }

    /// Copies to disk what it lacks, as far as that can be read. True: it lacks nothing any more, and the
    /// flash is not needed. False: it does, or `ends` was set.
    pub(super) fn salvage_all(&self, ends: &AtomicBool) -> Result<bool, TierError> {
        let Some(missing) = self.disk.missing() else { return Ok(true) };
        let mut buffer = AlignedBuffer::new(READS_MAX * self.front.page_bytes());
        let mut from = PageId(0);
        while let Some(next) = self.disk.salvage(from, &mut buffer)? {
            from = next;
            if ends.load(SeqCst) {
                return Ok(false);
            }
        }
        if missing.count().0 > 0 {
            missing.name_lost();
            return Ok(false);
        }
        points::MISSING_NONE.reach();
        self.unbind(self.superblocks.cache)?;
        let notice = "the flash has failed, and the disk has all pages again: the disk alone serves";
        events::switched_off(notice);
        self.front.state.switch_off(notice.to_owned());
        Ok(true)
    }

    /// A degraded tier whose tasks have ended releases its disk, with what it may lose. The label goes on
    /// naming the cache ([`Back::unbind`]): its flash may come back.
    pub(super) fn release_degraded(&self) -> Result<(), TierError> {
        if self.is_degraded() { self.unbind(self.superblocks.cache) } else { Ok(()) }
    }
}

impl FlashTier {
    /// Those of the pages from `first` to `last` that are in the cache, in order, each with whether it is, or
    /// may be, newer there than on disk. A long range costs by the pages of the cache, a short one by its
    /// own. Of a degraded tier: the pages that the disk lacks.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError> {
        match self.back.disk.missing() {
            Some(missing) => Ok(missing.within(first, last).into_iter().map(|page| (page, true)).collect()),
            None => self.back.front.cached_among((first, last)),
        }
    }

    /// The epoch of the cache in which its flash failed, if the disk lacked pages then.
    pub fn failed_epoch(&self) -> Option<u64> {
        self.back.disk.missing()?.failed_epoch()
    }
}

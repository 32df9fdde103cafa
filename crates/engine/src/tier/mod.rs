//! The flash tier: the core's partition with a flash device, a disk and background tasks.
//!
//! | room | what is in it |
//! |---|---|
//! | `floor` | the devices and the access to the cache, and what a ring and slots both need |
//! | `ring`, `slots` | the two placements of pages on flash |
//! | `room` | one or the other |
//! | `leaver`, `degrader` | the flash of a cache of raw pages has failed: the disk serves alone, and gets what only flash had |
//! | `requests` | requests of users that `access` cannot answer alone |
//! | `serve` | what is done for fronts in other processes |
//! | `life` | opening, closing, and releasing the disk |
//! | `parts` | all of it, put together |
//!
//! The files here are [`FlashTier`], the door: what users call.
//!
//! Each part names in its `new` what it works with. Arrows point one way: `life`, `serve` → `requests` →
//! `room` (`ring` or `slots`) → `floor`.
//!
//! Invariant: under the partition's latch there is no I/O, no wait, no other lock and no allocation
//! (docs/LOCKING.md; `tests/allocation.rs`).

mod ahead;
mod budget;
mod degrader;
mod deletes;
mod detach;
mod floor;
mod leaver;
mod life;
mod page_cache;
mod parts;
mod requests;
mod ring;
mod room;
mod serve;
mod shared;
mod slots;
mod tasks;

use crate::api::{
    Binding, Evicted, Fetched, Layer, Materialised, PageSet, Progress, Survivors, TierMetrics, Upstream,
    Victim,
};
use crate::disk::{Home, WholeDisk};
use crate::{OpenReport, TierError, TierOptions, events};
pub(crate) use ahead::FlashRead;
use entresol_core::{Directory, Lsn, Mode, PageId};
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, spawn};
use floor::Floor;
use floor::failures::PanicGuard;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

pub use detach::{DetachReport, detach, detach_with_loss};
use life::assembly::Base;
use life::open;
use life::open_failed::NoFlash;
pub use life::open_failed::flash_has_failed;
pub use life::release::{
    FoundCache, cache_on, check_new_flash, disown, give_up_cache, give_up_lost, lost_on, marks_on,
    renewals_that_differ, renounce,
};
use parts::Parts;
pub(crate) use requests::writes::Around;

/// A flash tier between a buffer pool and a disk.
///
/// Dropped without [`Layer::close`], it stops its tasks and leaves the flash as after a crash.
pub struct FlashTier {
    parts: Arc<Parts>,
    tasks: TinyMutex<Vec<JoinHandle>>,
}

impl FlashTier {
    /// Makes a new, empty cache on `flash` for `disk`. A disk without a label gets one; a labelled one keeps
    /// its pages.
    ///
    /// # Errors
    /// [`TierError::Config`] for impossible options or a flash device that is too small;
    /// [`TierError::Refused`] if the disk or the flash device belongs to another cache that may hold pages
    /// newer than their disk.
    pub fn create(
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
        options: TierOptions,
    ) -> Result<Arc<Self>, TierError> {
        let home = WholeDisk::new(disk, options.page_bytes);
        Self::create_at(flash, home, options)
    }

    /// As [`FlashTier::create`], for pages that live in `home`.
    ///
    /// # Errors
    /// As [`FlashTier::create`].
    pub fn create_at(
        flash: Arc<dyn Device>,
        home: Arc<dyn Home>,
        options: TierOptions,
    ) -> Result<Arc<Self>, TierError> {
        let base = Base { flash, home, options, sharing: None };
        let parts = open::create(base).inspect_err(events::refused)?;
        Ok(Self::begin(parts, &OpenReport::default()))
    }

    /// Opens the cache on `flash` for the disk it belongs to, after a shutdown or a crash. With log placement
    /// it is warm.
    ///
    /// # Errors
    /// [`TierError::Refused`] if flash and disk do not belong together and one of them needs the other, or if
    /// the content of the flash does not fit `options`; [`TierError::Config`] for impossible options.
    pub fn open(
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
        options: TierOptions,
    ) -> Result<(Arc<Self>, OpenReport), TierError> {
        let home = WholeDisk::new(disk, options.page_bytes);
        Self::open_at(flash, home, options)
    }

    /// As [`FlashTier::open`], for pages that live in `home`.
    ///
    /// # Errors
    /// As [`FlashTier::open`].
    pub fn open_at(
        flash: Arc<dyn Device>,
        home: Arc<dyn Home>,
        options: TierOptions,
    ) -> Result<(Arc<Self>, OpenReport), TierError> {
        let base = Base { flash, home, options, sharing: None };
        let (parts, report) = open::open(base).inspect_err(events::refused)?;
        Ok((Self::begin(parts, &report), report))
    }

    /// Opens a disk that lacks pages since its flash failed, without that flash. Such pages cannot be read
    /// until they are written again. If the flash can be read: [`FlashTier::open_at`].
    ///
    /// # Errors
    /// As [`FlashTier::open_at`]; of a disk whose flash has not failed, too ([`flash_has_failed`]).
    pub fn open_without_flash(
        home: Arc<dyn Home>,
        options: TierOptions,
    ) -> Result<(Arc<Self>, OpenReport), TierError> {
        Self::open_at(Arc::new(NoFlash), home, options)
    }

    /// Starts the tasks of a tier that was opened as `report` says.
    fn begin(parts: Parts, report: &OpenReport) -> Arc<Self> {
        let Floor { superblocks, access, .. } = &parts.floor;
        events::opened(superblocks.cache, &access.options, report);
        Self::start(parts)
    }

    pub(super) fn end(&self) {
        self.parts.floor.failures.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        // One that has panicked has poisoned the tier.
        tasks.into_iter().for_each(|task| drop(task.join_or_panic()));
    }

    /// Dirty pages that need the owner's log from before its checkpoint `number` if the flash is lost; 0 if
    /// no bases are kept.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn pages_behind(&self, number: u64) -> Result<u64, TierError> {
        self.parts.horizon.as_ref().map_or(Ok(0), |horizon| horizon.behind(number))
    }

    /// As [`Layer::bring_to_disk_before`]; `watch` is told how far it is, and may end it early.
    ///
    /// # Errors
    /// As there.
    pub fn bring_to_disk_watched(
        &self,
        number: u64,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64, TierError> {
        let _guard = self.guard();
        match &self.parts.horizon {
            Some(horizon) => horizon.bring_to(number, watch),
            // Nothing is known of dirty pages.
            None if self.parts.floor.access.options.dirty_possible() => Ok(0),
            None => Ok(u64::MAX),
        }
    }

    /// Why the tier has failed, if it did and cannot go on.
    pub fn failure(&self) -> Option<TierError> {
        self.parts.floor.access.state.failure()
    }

    fn start(parts: Parts) -> Arc<Self> {
        let parts = Arc::new(parts);
        let start = |(name, work): (String, tasks::Work)| {
            let parts = parts.clone();
            spawn(&name, move || {
                let _guard = PanicGuard(&parts.floor.failures);
                work(&parts);
            })
        };
        let tasks = tasks::of(&parts).into_iter().map(start).collect();
        Arc::new(Self { parts, tasks: TinyMutex::new(Rank::Tasks, tasks) })
    }

    fn guard(&self) -> PanicGuard<'_> {
        PanicGuard(&self.parts.floor.failures)
    }
}

impl FlashTier {
    /// Whether `page` is, or may be, newer in the cache than on disk.
    pub fn is_dirty(&self, page: PageId) -> bool {
        match self.parts.floor.disk.missing.since_failure() {
            Some(missing) => missing.has(page),
            None => self.parts.floor.access.cached.is_dirty(page).unwrap_or(true),
        }
    }

    /// Records how far the owner is, durably: see [`SharedFront::checkpoint_at`](crate::SharedFront).
    ///
    /// # Errors
    /// What failed.
    pub fn mark(&self, marks: [u64; 2]) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.floor.superblocks.mark(marks)
    }

    /// Copies the pages among `pages` that are newer in the cache than on disk there, all versions that were
    /// handed down before. They are durable on disk when it returns, and stay in the cache. Returns how many
    /// were copied. Slow: it takes as long as the disk does to write them.
    ///
    /// # Errors
    /// [`TierError::Damaged`]: a page that only flash has is damaged; some of the others were copied. Else
    /// what failed: the tier's.
    pub fn destage(&self, pages: &PageSet) -> Result<u64, TierError> {
        let _guard = self.guard();
        self.parts.wanted.destage(pages)
    }
}

impl Layer for FlashTier {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.parts.reads.fetch(page, buffer)
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.parts.floor.access.cached.has(page).unwrap_or(false)
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let _guard = self.guard();
        self.parts.writes.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        let _guard = self.guard();
        self.parts.writes.try_evict(victim, data)
    }

    fn checkpoint_begins(&self) {
        // If the cache was given up, the checkpoint says so.
        let _ = self.parts.room.checkpointer().begins();
    }

    fn moves_pages_up(&self) -> bool {
        self.parts.floor.access.directory.config.policy.exclusive()
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.room.checkpointer().checkpoint()
    }

    fn resume_checkpoints(&self, number: u64) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.horizon.as_ref().map_or(Ok(()), |horizon| horizon.resume(number))
    }

    fn checkpoint_complete(&self, number: u64) -> Result<(), TierError> {
        let _guard = self.guard();
        self.parts.horizon.as_ref().map_or(Ok(()), |horizon| horizon.complete(number))
    }

    fn bring_to_disk_before(&self, number: u64) -> Result<u64, TierError> {
        self.bring_to_disk_watched(number, &mut |_| ControlFlow::Continue(()))
    }

    fn clean_behind(&self, number: u64) {
        self.parts.writeback.iter().for_each(|writeback| writeback.clean_behind(number));
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        self.parts.floor.upstream.attach(upstream);
    }

    fn survivors(&self) -> Option<&Survivors> {
        self.parts.room.survivors()
    }

    fn capacity_pages(&self) -> u64 {
        self.parts.floor.disk.capacity_pages
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.parts.floor.disk.label.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.parts.floor.disk.label.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        self.parts.floor.access.metrics()
    }

    fn close(&self) -> Result<(), TierError> {
        let guard = self.guard();
        let result = self.parts.closer.finish();
        drop(guard);
        self.end();
        self.parts.floor.failures.give_up_memory();
        events::ended(self.parts.floor.superblocks.cache, "closed", &result);
        result
    }

    fn can_materialise(&self) -> bool {
        let options = &self.parts.floor.access.options;
        options.mode == Mode::WriteBack && options.policy.directory() == Directory::AtShutdown
    }

    fn materialise(&self, end: Lsn) -> Result<(), TierError> {
        if !self.can_materialise() {
            self.checkpoint()?;
            return self.close();
        }
        let guard = self.guard();
        let drained = self.parts.closer.drain();
        drop(guard);
        self.end();
        let result = drained.and_then(|()| self.parts.closer.materialise(end));
        self.parts.floor.failures.give_up_memory();
        events::ended(self.parts.floor.superblocks.cache, "closed with dirty pages", &result);
        result
    }

    fn materialised(&self) -> Materialised {
        self.parts.room.materialised()
    }
}

impl Drop for FlashTier {
    fn drop(&mut self) {
        self.parts.floor.failures.stop();
        self.parts.floor.failures.give_up_memory();
    }
}

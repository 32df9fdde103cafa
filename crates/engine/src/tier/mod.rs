//! The flash tier: the core's partition with a flash device, a disk and background tasks.
//!
//! | file | what it does |
//! |---|---|
//! | `open` | creating and opening |
//! | `plan` | what an open does, decided without reading or writing |
//! | `back` | the state that the tasks share, with the front |
//! | `flash`, `superblock_copies`, `slot_directory`, `destaged` | parts of that state |
//! | `placed` | what only log placement has, or only slot placement |
//! | `fetch`, `evict`, `flush` | what the front leaves to its caller: the disk, damage, durability |
//! | `objects` | the table of objects on flash |
//! | `causes` | what makes forgotten pages dead |
//! | `through` | changed pages to disk, when no log stands above |
//! | `around` | reads and writes past the flash |
//! | `ahead` | reads that the caller carries out, many at once |
//! | `runs` | adjacent pages, for owners without a buffer pool |
//! | `write` | staging → flash |
//! | `directory` | the slot directory on flash: invalidate, write, validate (TAC) |
//! | `background`, `dequeue`, `clean`, `destage` | flash → disk, second chances, pulls |
//! | `trim` | pages that leave the cache for good, and are kept out of it |
//! | `wanted` | flash → disk before its turn, for the owner |
//! | `confirm` | telling a flush from a torn one, when there is time |
//! | `checkpoint` | making all of it durable; closing |
//! | `materialise` | what slot placement leaves on flash at checkpoints and shutdowns |
//! | `superblock`, `segment` | writing superblocks and directory segments |
//! | `detach` | releasing the disk from the cache |
//! | `shared` | what the back does for fronts in other processes, and when they die |
//! | `failure`, `degrade` | what happens when a device fails |
//! | `lost` | pages whose only copy on flash cannot be read |
//!
//! Invariant: under the partition's latch there is no I/O, no wait, no other lock and no allocation
//! (docs/LOCKING.md; `tests/allocation.rs`).

mod ahead;
mod around;
mod back;
mod background;
mod causes;
mod checkpoint;
mod clean;
mod confirm;
mod degrade;
mod dequeue;
mod destage;
mod destaged;
mod detach;
mod directory;
mod evict;
mod failure;
mod fetch;
mod flash;
mod flush;
mod lost;
mod materialise;
mod objects;
mod open;
mod open_failed;
mod placed;
mod plan;
mod renewal;
mod runs;
mod segment;
mod shared;
mod slot_directory;
mod superblock;
mod superblock_copies;
mod thrift;
mod through;
mod trim;
mod wanted;
mod write;

use crate::api::{
    Binding, Evicted, Fetched, Layer, Pages, Reading, Served, Survivors, TierMetrics, Upstream, Victim,
};
use crate::disk::{Home, WholeDisk};
use crate::{OpenReport, TierError, TierOptions, events};
pub use ahead::FlashRead;
use back::Back;
use entresol_core::PageId;
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_objects::{Locator, ObjectId, Usage};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, spawn};
use failure::PanicGuard;
use std::sync::{Arc, Weak};

pub use detach::{
    DetachReport, cache_on, detach, detach_with_loss, disown, give_up_lost, lost_on, marks_on,
    renewals_that_differ, renounce,
};
pub use open_failed::flash_has_failed;

/// A flash tier between a buffer pool and a disk.
///
/// Dropped without [`Layer::close`], it stops its tasks and leaves the flash as after a crash.
pub struct FlashTier {
    back: Arc<Back>,
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
        let back = open::create(flash, home, options).inspect_err(events::refused)?;
        events::opened(back.superblocks.cache, &back.front.options, &OpenReport::default());
        Ok(Self::start(back))
    }

    /// Opens the cache on `flash` for the disk it belongs to, after a shutdown or a crash. With log placement
    /// it is warm.
    ///
    /// # Errors
    /// [`TierError::Refused`] if flash and disk do not belong together and one of them needs the other, or if
    /// what lies on flash does not fit `options`; [`TierError::Config`] for impossible options.
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
        let (back, report) = open::open(flash, home, options).inspect_err(events::refused)?;
        events::opened(back.superblocks.cache, &back.front.options, &report);
        Ok((Self::start(back), report))
    }

    pub(super) fn end(&self) {
        self.back.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        // One that has panicked has poisoned the tier.
        tasks.into_iter().for_each(|task| drop(task.join_or_panic()));
    }

    /// Why the tier switched itself off and goes on from disk alone, if it did.
    pub fn notice(&self) -> Option<String> {
        self.back.front.state.notice()
    }

    /// Why the tier has failed, if it did and cannot go on.
    pub fn failure(&self) -> Option<TierError> {
        self.back.front.state.failure()
    }

    fn start(back: Back) -> Arc<Self> {
        let back = Arc::new(back);
        let task = |name: &str, work: fn(&Back)| {
            let back = back.clone();
            spawn(name, move || {
                let _guard = PanicGuard(&back);
                work(&back);
            })
        };
        let writers = (0..back.front.options.write_workers)
            .map(|at| task(&format!("flash writer {at}"), Back::writer_task));
        let background = (0..back.front.options.background_workers)
            .map(|at| task(&format!("flash background {at}"), Back::background_task));
        let mut tasks: Vec<JoinHandle> = writers.chain(background).collect();
        if back.is_log() {
            tasks.push(task("flash directory", Back::segment_task));
            if back.flash.layout.summary_copies() > 1 {
                tasks.push(task("flash confirmer", Back::confirm_task));
            }
        }
        if back.degradable.is_some() {
            tasks.push(task("flash failures", Back::degrade_task));
        }
        if back.served.is_some() {
            tasks.push(task("flash fronts", Back::watch_task));
            tasks.push(task("flash flushes", Back::flush_task));
            tasks.push(task("flash checkpoints", Back::checkpoint_task));
            tasks.push(task("flash orders", Back::order_task));
        }
        Arc::new(Self { back, tasks: TinyMutex::new(Rank::Tasks, tasks) })
    }
}

impl FlashTier {
    /// Reads adjacent pages from `first` on, for a caller that has no memory of its own for pages: as
    /// [`Layer::fetch`] of each. What enters the cache, `how` says. That never waits, and a page that is
    /// written meanwhile does not enter. Returns where the pages came from.
    ///
    /// # Errors
    /// As [`Layer::fetch`]; [`TierError::Config`] if `buffer` does not have whole pages.
    pub fn read_pages(&self, first: PageId, buffer: &mut [u8], how: Reading) -> Result<Served, TierError> {
        let _guard = PanicGuard(&self.back);
        match how {
            Reading::Populates => self.back.read_pages(first, buffer, true),
            Reading::StaysOut => self.back.read_pages(first, buffer, false),
            Reading::Around => self.back.read_around(first, buffer),
        }
    }

    /// As [`FlashTier::write_pages`], past the flash: pages go to disk alone, except those that are dirty in
    /// the cache. Returns how many went to disk alone. Nobody else may write these pages meanwhile.
    ///
    /// # Errors
    /// As [`FlashTier::write_pages`].
    pub fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.write_around(first, data)
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.back.front.page_bytes() as u64
    }

    /// Whether pages lie on flash in a log.
    pub fn is_log(&self) -> bool {
        self.back.is_log()
    }

    /// Writes adjacent pages from `first` on, newer than any other copy: as [`Layer::evict`] of each. In
    /// write-through mode they share a flush of flash.
    ///
    /// # Errors
    /// As [`Layer::evict`]; some of the pages may have been written.
    pub fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.write_pages(first, data)
    }

    /// Pages that are newer in the cache than on disk, those in staging included.
    pub fn dirty_pages(&self) -> u64 {
        if let Some(missing) = self.back.disk.missing() {
            return missing.count().0;
        }
        self.back.front.with(|partition| partition.unsaved()).map_or(0, |unsaved| unsaved.pages.into())
    }

    /// Whether `page` is, or may be, newer in the cache than on disk.
    pub fn is_dirty(&self, page: PageId) -> bool {
        match self.back.disk.missing() {
            Some(missing) => missing.has(page),
            None => self.back.front.is_dirty(page).unwrap_or(true),
        }
    }

    /// Makes everything that was handed down before durable: evicted pages and forgotten ones. For callers
    /// without a log.
    ///
    /// # Errors
    /// What failed. Then nothing is known of pages handed down since the last flush.
    pub fn flush(&self) -> Result<(), TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.flush()
    }

    /// Syncs the disk, for an owner who has written to it past the cache. If the sync fails, what the cache
    /// has written there may be lost, and is not read any more.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync_disk(&self) -> Result<(), TierError> {
        self.back.disk.sync()
    }

    /// Records how far the owner is, durably: see [`SharedFront::checkpoint_at`](crate::SharedFront).
    ///
    /// # Errors
    /// What failed.
    pub fn mark(&self, marks: [u64; 2]) -> Result<(), TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.mark(marks)
    }

    /// Forgets the pages from `first` to `last`, which are dead: readers get what is on disk from now on, and
    /// after the next flush or checkpoint that stays so after a crash. When it returns, no older version is
    /// on its way to disk. Returns the number of copies that were in the cache.
    ///
    /// # Errors
    /// What failed: the tier's.
    pub fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.forget_range(first, last)
    }

    /// Forgets the pages from `first` to `last` for something that makes them dead and is not durable yet: a
    /// write of them to disk past the cache, a record in their owner's log. `make_dead` does it, durably. It
    /// is called when all copies are forgotten in memory, and none is on its way to disk. No record of that
    /// is written to flash, and no slot released, before `make_dead` has returned. A crash before that finds
    /// the copies again, and a crash before the next flush or checkpoint may; later ones do not. Flushes and
    /// checkpoints wait for `make_dead`, those that have begun before, too, so it makes none; and it hands no
    /// pages down, since these may wait for a slot. A reader that populates meanwhile would bring the disk's
    /// version in: where that may be, wrap it in [`FlashTier::keep_out`]. Only with log placement.
    ///
    /// # Errors
    /// Those of `make_dead`, and the tier's. Then the tier has failed, since a forgotten page may be the
    /// newest version there is: the next open finds it.
    pub fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _guard = PanicGuard(&self.back);
        self.back.forget_for(first, last, make_dead)
    }

    /// Copies the pages among `pages` that are newer in the cache than on disk there, all versions that were
    /// handed down before. They are durable on disk when it returns, and stay in the cache. Returns how many
    /// were copied. Slow: it takes as long as the disk does to write them.
    ///
    /// # Errors
    /// [`TierError::Damaged`]: a page that only flash has is damaged; some of the others were copied. Else
    /// what failed: the tier's.
    pub fn destage(&self, pages: &Pages) -> Result<u64, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.destage_wanted(pages)
    }

    /// The object with this name, defined now if there is none. `None`: the table is full; the object's pages
    /// must stay out of the cache. Objects are for caches made with [`TierOptions::objects`].
    ///
    /// # Errors
    /// [`TierError::Config`]: the cache has no table of objects.
    pub fn define(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.back.front.define(locator)
    }

    /// The live object with this name.
    ///
    /// # Errors
    /// As [`FlashTier::define`].
    pub fn object(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.back.front.object(locator)
    }

    /// All pages of `object` are dead, for ever: as [`FlashTier::forget`] of all of them, at a cost that
    /// does not depend on their number. Its name is free at once, but give it to another object only after
    /// the next flush or checkpoint: a crash before that brings this one back. Nobody may evict its pages
    /// any more. False: it was no live object.
    ///
    /// # Errors
    /// As [`FlashTier::forget`] and [`FlashTier::define`].
    pub fn retire(&self, object: ObjectId) -> Result<bool, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.front.retire(object)
    }

    /// Retires all objects whose names `matches` accepts: a whole database, say. Returns their number.
    ///
    /// # Errors
    /// As [`FlashTier::retire`].
    pub fn retire_matching(&self, matches: impl FnMut(&Locator) -> bool) -> Result<u32, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.front.retire_matching(matches)
    }

    /// The pages of `object` from `number` on are dead, as if forgotten; such pages that are evicted later
    /// live. Four cuts of an object that matter cost nothing that depends on the number of pages, further
    /// ones as much as [`FlashTier::forget`].
    ///
    /// # Errors
    /// As [`FlashTier::retire`].
    pub fn cut(&self, object: ObjectId, number: u32) -> Result<(), TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.front.cut(object, number)
    }

    /// How full the table of objects is; `None`: there is none.
    pub fn objects(&self) -> Option<Usage> {
        self.back.front.objects_usage()
    }
}

impl Layer for FlashTier {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.back.fetch(page, buffer)
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.back.front.has(page).unwrap_or(false)
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.try_evict(victim, data)
    }

    fn checkpoint_begins(&self) {
        // If the cache was given up, the checkpoint says so.
        let _ = self.back.checkpoint_begins();
    }

    fn moves_pages_up(&self) -> bool {
        self.back.front.config.policy.exclusive()
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        let _guard = PanicGuard(&self.back);
        self.back.checkpoint()
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        *self.back.upstream.lock() = Some(upstream);
    }

    fn survivors(&self) -> Option<&Survivors> {
        self.back.log()?.survivors.as_ref()
    }

    fn capacity_pages(&self) -> u64 {
        self.back.disk.capacity_pages
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.back.disk.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.back.disk.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        self.back.metrics()
    }

    fn close(&self) -> Result<(), TierError> {
        let guard = PanicGuard(&self.back);
        let result = self.back.finish();
        drop(guard);
        self.end();
        self.back.give_up_memory();
        events::ended(self.back.superblocks.cache, "closed", &result);
        result
    }
}

impl Drop for FlashTier {
    fn drop(&mut self) {
        self.back.stop();
        self.back.give_up_memory();
    }
}

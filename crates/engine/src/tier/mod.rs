//! The flash tier: the core's partition with a flash device, a disk and background tasks.
//!
//! | file | what it does |
//! |---|---|
//! | `open` | creating and opening |
//! | `plan` | what an open does, decided without reading or writing |
//! | `shared` | the state that all tasks share, and the partition's latch |
//! | `flash`, `run_state`, `superblock_copies`, `slot_directory`, `destaged` | parts of that state |
//! | `placed` | what only log placement has, or only slot placement |
//! | `staging` | the memory between DRAM and flash |
//! | `fetch`, `evict` | the buffer pool's side |
//! | `write` | staging → flash |
//! | `directory` | the slot directory on flash: invalidate, write, validate (TAC) |
//! | `background`, `dequeue`, `clean`, `destage` | flash → disk, second chances, pulls |
//! | `checkpoint` | making all of it durable; closing |
//! | `materialise` | what slot placement leaves on flash at checkpoints and shutdowns |
//! | `superblock`, `segment` | writing superblocks and directory segments |
//! | `detach` | releasing the disk from the cache |
//! | `failure` | what happens when a device fails |
//!
//! Invariant: under the partition's latch there is no I/O, no wait, no other lock and no allocation
//! (docs/LOCKING.md; `tests/allocation.rs`).

mod background;
mod checkpoint;
mod clean;
mod dequeue;
mod destage;
mod destaged;
mod detach;
mod directory;
mod evict;
mod failure;
mod fetch;
mod flash;
mod materialise;
mod open;
mod placed;
mod plan;
mod run_state;
mod segment;
mod shared;
mod slot_directory;
mod staging;
mod superblock;
mod superblock_copies;
mod write;

use crate::api::{Binding, Evicted, Fetched, Layer, Survivors, TierMetrics, Upstream, Victim};
use crate::{OpenReport, TierError, TierOptions, events};
use entresol_core::{Lookup, PageId, mutant};
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, spawn};
use failure::PanicGuard;
use shared::Shared;
use std::sync::{Arc, Weak};

pub use detach::{DetachReport, detach};

/// A flash tier between a buffer pool and a disk.
///
/// Dropped without [`Layer::close`], it stops its tasks and leaves the flash as after a crash.
pub struct FlashTier {
    shared: Arc<Shared>,
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
        let shared = open::create(flash, disk, options).inspect_err(events::refused)?;
        events::opened(shared.superblocks.cache, &shared.options, &OpenReport::default());
        Ok(Self::start(shared))
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
        let (shared, report) = open::open(flash, disk, options).inspect_err(events::refused)?;
        events::opened(shared.superblocks.cache, &shared.options, &report);
        Ok((Self::start(shared), report))
    }

    /// Copies everything that is newer than disk there, empties the cache, releases the disk from it, and
    /// ends. From then on [`crate::DiskLayer::open`] takes the disk. Nobody else may use the tier meanwhile.
    pub fn detach(&self) -> Result<(), TierError> {
        let prepared = self.shared.prepare_to_detach();
        if !mutant!("detach-beside-older-destages") {
            self.end();
        }
        // A task may have failed meanwhile.
        let result = match (prepared, self.shared.state.failure()) {
            (Err(error), _) | (Ok(_), Some(error)) => Err(error),
            (Ok(false), None) => Ok(()),
            (Ok(true), None) if self.shared.state.notice().is_some() => Ok(()),
            (Ok(true), None) => self.shared.release_disk(),
        };
        self.end();
        events::ended(self.shared.superblocks.cache, "detached", &result);
        result
    }

    fn end(&self) {
        self.shared.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        // One that has panicked has poisoned the tier.
        tasks.into_iter().for_each(|task| drop(task.join_or_panic()));
    }

    /// Why the tier switched itself off and goes on from disk alone, if it did.
    pub fn notice(&self) -> Option<String> {
        self.shared.state.notice()
    }

    fn start(shared: Shared) -> Arc<Self> {
        let shared = Arc::new(shared);
        let task = |name: &str, work: fn(&Shared)| {
            let shared = shared.clone();
            spawn(name, move || {
                let _guard = PanicGuard(&shared);
                work(&shared);
            })
        };
        let writers = (0..shared.options.write_workers)
            .map(|at| task(&format!("flash writer {at}"), Shared::writer_task));
        let background = (0..shared.options.background_workers)
            .map(|at| task(&format!("flash background {at}"), Shared::background_task));
        let mut tasks: Vec<JoinHandle> = writers.chain(background).collect();
        if shared.is_log() {
            tasks.push(task("flash directory", Shared::segment_task));
        }
        Arc::new(Self { shared, tasks: TinyMutex::new(Rank::Tasks, tasks) })
    }
}

impl Layer for FlashTier {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.shared.fetch(page, buffer)
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.shared.with(|partition| partition.peek(page)) != Lookup::Absent
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let _guard = PanicGuard(&self.shared);
        self.shared.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        let _guard = PanicGuard(&self.shared);
        self.shared.try_evict(victim, data)
    }

    fn checkpoint_begins(&self) {
        self.shared.checkpoint_begins();
    }

    fn moves_pages_up(&self) -> bool {
        self.shared.config.policy.exclusive()
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        let _guard = PanicGuard(&self.shared);
        self.shared.checkpoint()
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        *self.shared.upstream.lock() = Some(upstream);
    }

    fn survivors(&self) -> Option<&Survivors> {
        self.shared.log()?.survivors.as_ref()
    }

    fn capacity_pages(&self) -> u64 {
        self.shared.disk.capacity_pages
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.shared.disk.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.shared.disk.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        self.shared.metrics()
    }

    fn close(&self) -> Result<(), TierError> {
        let guard = PanicGuard(&self.shared);
        let result = self.shared.finish();
        drop(guard);
        self.end();
        events::ended(self.shared.superblocks.cache, "closed", &result);
        result
    }
}

impl Drop for FlashTier {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

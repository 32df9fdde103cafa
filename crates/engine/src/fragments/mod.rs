//! SCE's cache below a database (Kim et al., INFLOW 2014, §3): the core's [`Fragments`] with devices.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | sizes and knobs |
//! | `open` | checks of devices, and making the cache |
//! | `shared` | the state that all tasks share, and the core's latch |
//! | `fetch` | reading, from flash or disk |
//! | `write` | staging → disk, and flash if the page's fragment is mapped |
//! | `ahead` | look-ups of pages that the caller reads from flash |
//! | `runs` | reads and writes of adjacent pages, for a caller without memory of its own for pages |
//! | `populate` | disk → flash, in the background |
//! | `versions` | the expected stamps of pages |
//!
//! Invariants:
//! - Flash is never newer than disk, and the directory is in memory only. Every open begins with an empty
//!   cache, and a loss of the flash at any time loses no data.
//! - A page is served from flash only if its checksum, its id, the number of its population and the count of
//!   its writes-through are as expected.
//! - The latch is never held across an I/O or a wait.

mod ahead;
mod fetch;
mod open;
mod options;
mod page_cache;
mod points;
mod populate;
mod runs;
mod shared;
mod versions;
mod write;

use crate::TierError;
use crate::api::{Binding, Evicted, Fetched, Layer, TierMetrics, Upstream, Victim};
use entresol_core::{Fragments, PageId};
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, spawn};
use shared::Shared;
use std::sync::{Arc, Weak};

pub(crate) use ahead::FragmentRead;
pub use options::FragmentOptions;
pub use points::POINTS;

/// A cache of fragments between a buffer pool and a disk.
///
/// If dropped without [`Layer::close`], it stops its tasks and leaves the disk as after a crash.
pub struct FragmentTier {
    shared: Arc<Shared>,
    tasks: TinyMutex<Vec<JoinHandle>>,
}

impl FragmentTier {
    /// Opens a labelled disk with an empty cache on `flash`. The content of `flash` is lost.
    ///
    /// # Errors
    /// [`TierError::Config`] for impossible options or a flash device that is too small;
    /// [`TierError::Refused`] if the disk has no label, or if the disk or the flash device belongs to a cache
    /// that may hold dirty pages.
    pub fn open(
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
        options: FragmentOptions,
    ) -> Result<Arc<Self>, TierError> {
        let shared = Arc::new(open::open(flash, disk, options)?);
        let writer = shared.clone();
        let mut tasks = shared.behind.start_writers(move |pages| writer.write(pages));
        for at in 0..options.workers {
            let shared = shared.clone();
            tasks.push(spawn(&format!("population worker {at}"), move || shared.population_task()));
        }
        Ok(Arc::new(Self { shared, tasks: TinyMutex::new(Rank::Tasks, tasks) }))
    }
}

impl Layer for FragmentTier {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.shared.fetch(page, buffer)
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.shared.look(page, |state| Fragments::peek(&state.cache, page)).is_some()
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.shared.expects_native()?;
        self.shared.behind.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.shared.expects_native()?;
        self.shared.behind.try_evict(victim, data)
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        self.shared.behind.checkpoint()
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        self.shared.behind.attach(upstream);
    }

    fn capacity_pages(&self) -> u64 {
        self.shared.behind.disk.capacity_pages
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.shared.behind.disk.label.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.shared.behind.disk.label.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        self.shared.metrics()
    }

    fn close(&self) -> Result<(), TierError> {
        if self.tasks.lock().is_empty() {
            return Ok(());
        }
        let result = self.shared.behind.checkpoint();
        self.shared.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(JoinHandle::join);
        result
    }
}

impl Drop for FragmentTier {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

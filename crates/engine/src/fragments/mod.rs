//! SCE's cache below a database (Kim et al., INFLOW 2014, §3): the core's [`Fragments`] with devices.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | sizes and knobs |
//! | `open` | checks of devices, and making the cache |
//! | `mapping` | which fragments are on flash: the core, and its latch |
//! | `copies` | where copies of pages are on flash, and what proves them |
//! | `reads` | reads, from flash or disk |
//! | `write` | staging → disk, and flash if the page's fragment is mapped |
//! | `ahead` | look-ups of pages that the caller reads from flash |
//! | `populate` | disk → flash, in the background |
//! | `proofs` | the expected versions of pages, in memory and on flash |
//!
//! Invariants:
//! - Flash is never newer than disk, and the directory is in memory only. Every open begins with an empty
//!   cache, and a loss of the flash at any time loses no data.
//! - A page is served from flash only if its checksum, its id, and the population or write that wrote it are
//!   as expected.
//! - The latch is never held across an I/O or a wait.

mod ahead;
mod copies;
mod mapping;
mod open;
mod options;
mod page_cache;
mod points;
mod populate;
mod proofs;
mod reads;
mod write;

use crate::TierError;
use crate::api::{Binding, Evicted, Fetched, Layer, TierMetrics, Upstream, Victim};
use crate::disk::WriteBehind;
use copies::FlashCopies;
use entresol_core::{Fragments, PageId};
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::Session;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, spawn};
use mapping::Mapping;
use populate::Populations;
use reads::FragmentReads;
use std::sync::{Arc, Weak};
use write::FragmentWrites;

pub(crate) use ahead::FragmentRead;
pub use options::FragmentOptions;
pub use points::POINTS;

/// A cache of fragments between a buffer pool and a disk.
///
/// If dropped without [`Layer::close`], it stops its tasks and leaves the disk as after a crash.
pub struct FragmentTier {
    mapping: Arc<Mapping>,
    copies: Arc<FlashCopies>,
    /// The disk, and staging for it.
    behind: Arc<WriteBehind>,
    reads: FragmentReads,
    writes: Arc<FragmentWrites>,
    tasks: TinyMutex<Vec<JoinHandle>>,
}

/// What all parts work on.
#[derive(Clone)]
struct Base {
    mapping: Arc<Mapping>,
    copies: Arc<FlashCopies>,
    behind: Arc<WriteBehind>,
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
        let base = open::open(flash, disk, options)?;
        let (reads, writes) = (FragmentReads::new(&base), Arc::new(FragmentWrites::new(&base)));
        let writer = writes.clone();
        let mut tasks = base.behind.start_writers(move |pages| writer.write(pages));
        for at in 0..options.workers {
            let populations = Populations::new(&base);
            tasks.push(spawn(&format!("population worker {at}"), move || populations.run()));
        }
        let Base { mapping, copies, behind } = base;
        let tasks = TinyMutex::new(Rank::Tasks, tasks);
        Ok(Arc::new(Self { mapping, copies, behind, reads, writes, tasks }))
    }

    fn stop(&self) {
        self.mapping.stop();
        self.behind.stop();
    }
}

impl Layer for FragmentTier {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.reads.fetch(page, buffer)
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.mapping.look(page, |state| Fragments::peek(&state.cache, page)).is_some()
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.copies.options.expects_native()?;
        self.behind.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.copies.options.expects_native()?;
        self.behind.try_evict(victim, data)
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        self.behind.checkpoint()
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        self.behind.attach(upstream);
    }

    fn capacity_pages(&self) -> u64 {
        self.behind.disk.capacity_pages
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.behind.disk.label.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.behind.disk.label.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        let (occupancy, decision_hash) =
            self.mapping.with(|state| (state.cache.occupancy(), state.cache.decision_hash()));
        let pages = |fragments: u32| u64::from(fragments) * u64::from(self.mapping.config.fragment_pages);
        TierMetrics {
            slots: pages(occupancy.slots),
            slots_valid: pages(occupancy.mapped),
            decision_hash,
            ..self.behind.tallies.read()
        }
    }

    fn close(&self) -> Result<(), TierError> {
        if self.tasks.lock().is_empty() {
            return Ok(());
        }
        let result = self.behind.checkpoint();
        self.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(JoinHandle::join);
        result
    }
}

impl Drop for FragmentTier {
    fn drop(&mut self) {
        self.stop();
    }
}

//! The state that all tasks of a tier share, and the only way to the core: [`Shared::with`], one step under
//! the partition's latch.

use super::destaged::Destaged;
use super::flash::Flash;
use super::placed::{LogParts, Placed};
use super::run_state::RunState;
use super::slot_directory::SlotDirectory;
use super::staging::Staging;
use super::superblock_copies::Superblocks;
use crate::TierOptions;
use crate::api::{TierMetrics, Upstream};
use crate::buffer::PageBuffers;
use crate::disk::DiskPages;
use crate::metrics::Tallies;
use crate::signal::Signal;
use entresol_core::{Config, Generation, PageId, Partition, Position, SlotId, mutant};
use entresol_format::page::{self, PageFault};
use entresol_format::stamps::Stamps;
use entresol_runtime::sync::{Semaphore, TinyMutex, allowing_allocation};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use zerocopy::IntoBytes;

/// Largest partition whose invariants are checked after every step in debug builds.
const CHECKED_SLOTS_MAX: u32 = 1024;

pub(crate) struct Shared {
    pub flash: Flash,
    pub disk: DiskPages,
    pub options: TierOptions,
    pub config: Config,
    /// What only log placement has, or only slot placement.
    pub placed: Placed,
    /// What is stamped into pages.
    pub stamps: Stamps,
    /// The core's region, and the latch around it.
    pub region: TinyMutex<Vec<u64>>,
    pub staging: Staging,
    /// For pages on their way to disk.
    pub buffers: PageBuffers,
    pub superblocks: Superblocks,
    pub state: RunState,
    pub tallies: Tallies,
    pub destaged: Destaged,
    pub upstream: TinyMutex<Option<Weak<dyn Upstream>>>,
    /// For the writers: a write job may be there.
    pub writes: Signal,
    /// For the background tasks: another job may be there.
    pub background: Signal,
    /// For tasks that wait for room, or until something is durable: a job is complete.
    pub progress: Signal,
    /// Database checkpoints under way.
    pub checkpoints: AtomicUsize,
    /// Of the pages written to disk, how many are known to be durable there.
    pub disk_synced: AtomicU64,
    /// Evictors that wait for room.
    pub waiting: AtomicUsize,
    /// Whose turn it is among them, first come, first served.
    pub turn: Semaphore,
}

impl Shared {
    /// One step of the core, under the latch: it touches the region and the tier's flags, takes no other lock
    /// and allocates nothing.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        entresol_runtime::may_preempt();
        self.step(step)
    }

    /// As [`Shared::with`], for a caller that holds a lock under which no task may be preempted.
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        let mut region = self.region.lock();
        let mut partition =
            Partition::attach(region.as_mut_bytes()).expect("the region holds this tier's partition");
        let result = step(&mut partition);
        if cfg!(debug_assertions) && self.config.slots <= CHECKED_SLOTS_MAX {
            allowing_allocation(|| partition.check())
                .expect("the directory's invariants hold after every step");
        }
        result
    }

    pub(crate) fn is_log(&self) -> bool {
        self.log().is_some()
    }

    pub(crate) fn log(&self) -> Option<&LogParts> {
        match &self.placed {
            Placed::Log(log) => Some(log),
            Placed::Slots(_) => None,
        }
    }

    /// The slot directory on flash, of a policy that keeps it up with every page.
    pub(crate) fn directory(&self) -> Option<&SlotDirectory> {
        match &self.placed {
            Placed::Log(_) => None,
            Placed::Slots(slots) => slots.directory.as_ref(),
        }
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.options.page_bytes as usize
    }

    /// Proves that `bytes`, read from `slot`, are the version of `id` that the directory means.
    pub(crate) fn prove(
        &self,
        bytes: &[u8],
        id: PageId,
        slot: SlotId,
        generation: Generation,
    ) -> Result<(), PageFault> {
        page::verify(bytes, id, None)?;
        let found = self.stamps.position_in(slot, Position(page::header(bytes).generation.get()));
        let possible = match &self.placed {
            Placed::Log(_) => true,
            Placed::Slots(slots) => slots.may_hold(slot, id, found),
        };
        if possible && generation.matches(found) || mutant!("generation-not-checked") {
            return Ok(());
        }
        let expected = match generation {
            Generation::Exact(position) => position,
            Generation::LowByte(byte) => Position(byte.into()),
        };
        Err(PageFault::Generation { expected, found })
    }

    pub(crate) fn upstream(&self) -> Option<Arc<dyn Upstream>> {
        self.upstream.lock().as_ref().and_then(Weak::upgrade)
    }

    pub(crate) fn metrics(&self) -> TierMetrics {
        let (occupancy, decision_hash) =
            self.with(|partition| (partition.occupancy(), partition.decision_hash()));
        TierMetrics {
            slots: occupancy.slots.into(),
            slots_valid: occupancy.valid.into(),
            slots_superseded: occupancy.superseded.into(),
            slots_dirty: occupancy.dirty.into(),
            decision_hash,
            ..self.tallies.read()
        }
    }
}

//! What all tasks of a tier share.

use super::destaged::Destaged;
use super::directory::SlotDirectory;
use super::failure::State;
use super::staging::Staging;
use super::superblock::Superblocks;
use crate::api::{Survivors, TierMetrics, Upstream};
use crate::buffer::PageBuffers;
use crate::disk::{DiskPages, DurableNotes};
use crate::error::flash_error;
use crate::metrics::Tallies;
use crate::signal::Signal;
use crate::syncs::Syncs;
use crate::{TierError, TierOptions};
use entresol_core::{Config, Generation, Lsn, PageId, Partition, Placement, Position, SlotId, mutant};
use entresol_device::Device;
use entresol_format::Layout;
use entresol_format::page::{self, PageFault};
use entresol_format::stamps::Stamps;
use entresol_runtime::sync::Semaphore;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use zerocopy::IntoBytes;

/// Largest partition whose invariants are checked after every step in debug builds.
const CHECKED_SLOTS_MAX: u32 = 1024;

pub(crate) struct Shared {
    pub flash: Arc<dyn Device>,
    pub flash_syncs: Syncs,
    pub disk: DiskPages,
    pub options: TierOptions,
    pub config: Config,
    pub layout: Layout,
    /// What the open has found of the log.
    pub survivors: Option<Survivors>,
    /// What is stamped into pages.
    pub stamps: Stamps,
    /// Slot placement: among these are the positions of all pages that are served from flash. The directory
    /// keeps a byte of each; what an earlier open, or another cache, has left in a slot lies outside.
    pub positions: Range<u64>,
    /// The core's region, and the latch around it.
    pub region: Mutex<Vec<u64>>,
    pub staging: Staging,
    /// For pages on their way to disk.
    pub buffers: PageBuffers,
    pub superblocks: Superblocks,
    pub state: State,
    pub tallies: Tallies,
    pub destaged: Destaged,
    /// Slot placement: pages written to disk, for the buffer pool's log.
    pub notes: DurableNotes,
    /// Pages written page by page to groups that are not complete, with their groups' numbers.
    pub unpublished: Mutex<Vec<(u64, PageId, Lsn)>>,
    pub upstream: Mutex<Option<Weak<dyn Upstream>>>,
    /// For the writers: a write job may be there.
    pub writes: Signal,
    /// For the chores' tasks: another job may be there.
    pub chores: Signal,
    /// For the directory's task: a segment may be complete.
    pub segments: Signal,
    /// For whoever waits for room, or for something to become durable: a job is complete.
    pub progress: Signal,
    /// Database checkpoints under way.
    pub checkpoints: AtomicUsize,
    /// The slot directory on flash, of a policy that keeps it up all the time.
    pub directory: Option<SlotDirectory>,
    /// Copies of the temperatures written, ever.
    pub temperatures_written: AtomicU64,
    /// Of the pages written to disk, how many are known to be durable there.
    pub disk_synced: AtomicU64,
    /// Evictors that wait for room.
    pub waiting: AtomicUsize,
    /// Whose turn it is among them, first come, first served.
    pub turn: Semaphore,
}

impl Shared {
    /// One step of the core, under the latch.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        entresol_runtime::may_preempt();
        let mut region = self.region.lock();
        let mut partition =
            Partition::attach(region.as_mut_bytes()).expect("the region holds this tier's partition");
        let result = step(&mut partition);
        if cfg!(debug_assertions) && self.config.slots <= CHECKED_SLOTS_MAX {
            partition.check().expect("the directory's invariants hold after every step");
        }
        result
    }

    /// Makes all completed writes to flash durable.
    pub(crate) fn sync_flash(&self) -> Result<(), TierError> {
        self.flash_syncs.sync(&*self.flash).map_err(flash_error)
    }

    pub(crate) fn is_log(&self) -> bool {
        self.config.policy.placement() == Placement::Log
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
        let listed = || self.directory.as_ref().is_none_or(|directory| directory.admits(slot, id, found));
        let possible = match generation {
            Generation::Exact(_) => true,
            Generation::LowByte(_) => self.positions.contains(&found.0) && listed(),
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

//! Access to a cache: what a user's thread or process does. It fetches pages that are in the cache, offers
//! pages to staging, and forgets. Everything else is written by the folder `tier`: groups, dequeues,
//! checkpoints, recovery, and the disk.
//!
//! | file | what it does |
//! |---|---|
//! | `board` | the words that a front and the back share: run state, counters, the order of pages |
//! | `staging` | the memory between DRAM and flash |
//! | `run_state` | whether the cache runs, and why it does not |
//! | `order` | which reads from disk may still enter the flash |
//! | `fetch`, `offer`, `forget` | the three things that a user does |
//! | `fetch_run` | pages side by side |
//! | `rescue` | pages of a flash that has failed |
//! | `objects` | what dies as a whole: the table of objects |
//! | `segment` | all this memory in one segment, for fronts in other processes |
//! | `seat`, `frames` | which process holds what there; staging there |
//! | `bell` | notifications, also between processes |
//! | `listed` | what the slot directory on flash says, for fetches (TAC) |
//!
//! Invariants:
//!
//! - It touches the core's region, staging, the board and the signals, and it reads the flash; nothing else.
//! - It allocates nothing, and takes no lock but the partition's latch and that of a group of staging frames.
//!   A hit makes one system call, the read.
//! - Its memory is this process's own, or one segment that the back and other processes share
//!   (docs/DESIGN.md, "Fronts in other processes"). In a segment a front may die at any instruction.
//! - What it cannot do it gives back to its caller: a page that is only on disk, damage, a page that must go
//!   to disk first.

mod bell;
mod board;
mod content;
mod destage_requests;
mod fetch;
mod fetch_run;
mod forget;
mod frames;
mod listed;
mod objects;
mod offer;
mod order;
mod rescue;
mod run_state;
mod seat;
mod segment;
mod staging;
mod survey;

pub(crate) use bell::{Bell, Seen};
pub(crate) use board::{Answer, BoardRef, Request};
pub(crate) use fetch::FetchResult;
pub(crate) use fetch_run::Run;
pub(crate) use listed::Listed;
pub(crate) use offer::{Offered, Read};
pub(crate) use order::{PageOrder, ReadTicket};
pub(crate) use run_state::{RunState, State};
pub(crate) use seat::Seat;
pub(crate) use segment::{
    Opened, ServedSegment, attach, check as check_shareable, segment_bytes, serve, supersede,
};
pub(crate) use staging::{Composition, Incoming, Staging};

use crate::metrics::Tallies;
use crate::region::{Region, RegionMemory};
use crate::shadow::Shadow;
use crate::{TierError, TierMetrics, TierOptions};
use arrayvec::ArrayVec;
use entresol_core::{Config, Generation, Log, PageId, Partition, Placement, Position, Shape, SlotId};
use entresol_device::Device;
use entresol_format::page::{self, PageFault};
use entresol_format::stamps::Stamps;
use entresol_format::superblock::POSITIONS_OF_AN_OPEN;
use entresol_format::{Layout, PageFormat};
use entresol_objects::Objects;
use entresol_runtime::sync::{Rank, Semaphore, allowing_allocation};
use entresol_shm::Gone;
use std::ops::Range;
use std::sync::Arc;

/// Largest partition whose invariants are checked after every step in debug builds.
const CHECKED_SLOTS_MAX: u32 = 1024;

/// See the module's header.
pub(crate) struct Access {
    pub options: TierOptions,
    pub config: Config,
    pub layout: Layout,
    /// The flash device, to read.
    flash: Arc<dyn Device>,
    /// What is stamped into pages.
    pub stamps: Stamps,
    /// What the core's region was proved to hold.
    shape: Shape,
    /// What the table of objects was proved to be, if there is one.
    objects: Option<entresol_objects::Shape>,
    /// The core's region and the table of objects, and the latch around them.
    region: RegionMemory,
    pub staging: Staging,
    pub board: BoardRef,
    pub state: RunState,
    pub order: PageOrder,
    /// For the writers: a write job may be there.
    pub writes: Bell,
    /// For the background tasks: another job may be there.
    pub background: Bell,
    /// For tasks that wait for room, or until something is durable: a job is complete.
    pub progress: Bell,
    /// Whose turn it is among the evictors that wait for room, first come, first served. Processes that share
    /// a cache have no order: one of them may die while it is its turn.
    turn: Semaphore,
    /// Slot placement: the positions of all pages that are served from flash. The directory keeps one byte of
    /// each; pages of an earlier open, or of another cache, have positions outside.
    positions: Range<u64>,
    /// Of a policy that keeps the slot directory on flash up with every page.
    listed: Option<Arc<Listed>>,
    /// This process's place among those that share the cache, if any do.
    pub seat: Option<Seat>,
    /// What other policies and sizes would make of the load.
    pub shadow: Shadow,
}

/// What a front has in memory, its own or shared.
struct Memory {
    region: RegionMemory,
    staging: Staging,
    board: BoardRef,
    writes: Bell,
    background: Bell,
    progress: Bell,
    seat: Option<Seat>,
}

/// What fronts of one cache have in common, whatever their memory.
struct Common {
    options: TierOptions,
    flash: Arc<dyn Device>,
    stamps: Stamps,
    positions: Range<u64>,
    listed: Option<Arc<Listed>>,
}

impl Access {
    /// The front of a cache that is not in use yet: its directory is in `region`, and no page that is served
    /// from flash has a position below `first`.
    pub(crate) fn new(
        options: TierOptions,
        flash: Arc<dyn Device>,
        stamps: Stamps,
        mut region: Region,
        first: u64,
        listed: Option<Arc<Listed>>,
    ) -> Self {
        let entered = region.partition().occupancy().entered;
        let positions = first..entered.saturating_add(POSITIONS_OF_AN_OPEN);
        let memory = Memory {
            region: RegionMemory::private(region),
            staging: Staging::new(&options),
            board: BoardRef::Private(Arc::default()),
            writes: Bell::default(),
            background: Bell::default(),
            progress: Bell::default(),
            seat: None,
        };
        Self::over(memory, Common { options, flash, stamps, positions, listed })
            .expect("nobody gives up memory of this process")
    }

    /// A front over memory that holds a whole cache.
    fn over(memory: Memory, common: Common) -> Result<Self, Gone> {
        let Memory { region, staging, board, writes, background, progress, seat } = memory;
        let Common { options, flash, stamps, positions, listed } = common;
        let (shape, objects) = region.with(|partition, objects| {
            let shape = Shape::of(partition).expect("the region holds this tier's partition");
            let table = (!objects.is_empty())
                .then(|| entresol_objects::Shape::of(objects).expect("the region holds this tier's objects"));
            (shape, table)
        })?;
        Ok(Self {
            config: options.config(),
            layout: options.layout(),
            flash,
            stamps,
            shape,
            objects,
            region,
            staging,
            state: RunState::new(board.clone()),
            order: PageOrder::new(board.clone(), options.page_format.has_no_owner_with_a_log()),
            board,
            writes,
            background,
            progress,
            turn: Semaphore::new(Rank::EvictionTurn, 1),
            positions,
            listed,
            shadow: match &seat {
                Some(_) => Shadow::none("is shared by processes, which no shadow follows yet"),
                None if !options.shadows => Shadow::none("was opened without shadows"),
                None => Shadow::new(&options.config(), options.mode, &options.costs),
            },
            seat,
            options,
        })
    }

    /// One step of the core, under the latch: it touches the region and the board, takes no other lock and
    /// allocates nothing.
    ///
    /// # Errors
    /// [`Gone`]: processes share the region, and one of them died in the middle of a step.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> Result<R, Gone> {
        entresol_runtime::may_preempt();
        self.step(step)
    }

    /// As [`Access::with`], for a caller whose pages are in a log.
    pub(crate) fn in_log<R>(&self, step: impl FnOnce(&mut Log<'_>) -> R) -> Result<R, Gone> {
        self.with(|partition| step(partition.log_mut().expect("the pages are in a log")))
    }

    /// As [`Access::with`], for a caller that holds a lock under which no task may be preempted.
    #[inline]
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> Result<R, Gone> {
        let result = self.region.with(|partition, _| {
            let mut partition = Partition::attach_to(partition, &self.shape);
            let result = step(&mut partition);
            self.check(&partition);
            result
        });
        result.inspect_err(|_| self.state.give_up())
    }

    /// As [`Access::with`], with the table of objects, if there is one.
    pub(crate) fn with_objects<R>(
        &self,
        step: impl FnOnce(&mut Partition<'_>, Option<&mut Objects<'_>>) -> R,
    ) -> Result<R, Gone> {
        entresol_runtime::may_preempt();
        let result = self.region.with(|partition, objects| {
            let mut partition = Partition::attach_to(partition, &self.shape);
            let mut objects = self.objects.as_ref().map(|shape| Objects::attach_to(objects, shape));
            let result = step(&mut partition, objects.as_mut());
            self.check(&partition);
            result
        });
        result.inspect_err(|_| self.state.give_up())
    }

    /// In debug builds, of a small cache: the directory's invariants hold after every step.
    fn check(&self, partition: &Partition<'_>) {
        if cfg!(debug_assertions) && self.config.slots <= CHECKED_SLOTS_MAX {
            allowing_allocation(|| partition.check())
                .expect("the directory's invariants hold after every step");
        }
    }

    /// As [`Access::step`], for a destructor: never waits. `None`: the latch is held or gone.
    pub(crate) fn try_step<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> Option<R> {
        self.region.try_with(|partition| Some(step(&mut Partition::attach(partition).ok()?)))?
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.board.tallies
    }

    /// All counters, and the present numbers of slots. Of a cache that was given up, the counters alone.
    pub(crate) fn metrics(&self) -> TierMetrics {
        let (occupancy, decision_hash) =
            self.with(|partition| (partition.occupancy(), partition.decision_hash())).unwrap_or_default();
        TierMetrics {
            slots: occupancy.slots.into(),
            slots_valid: occupancy.valid.into(),
            slots_superseded: occupancy.superseded.into(),
            slots_dirty: occupancy.dirty.into(),
            decision_hash,
            forecasts: self.shadow.forecasts(),
            ..self.tallies().read()
        }
    }

    /// All that `visit` finds in the core, in memory that is taken before the latch. Nothing changes
    /// meanwhile: the tasks have ended.
    pub(crate) fn collect<T>(
        &self,
        visit: impl Fn(&Partition<'_>, &mut dyn FnMut(T)),
    ) -> Result<Vec<T>, TierError> {
        let mut count = 0;
        self.with(|partition| visit(partition, &mut |_| count += 1))?;
        let mut found = Vec::with_capacity(count);
        self.with(|partition| visit(partition, &mut |one| found.push(one)))?;
        Ok(found)
    }

    /// How pages are laid out on flash.
    pub(crate) fn flash_format(&self) -> (&Layout, PageFormat) {
        (&self.layout, self.options.page_format)
    }

    pub(crate) fn is_log(&self) -> bool {
        self.config.policy.placement() == Placement::Log
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.options.page_bytes as usize
    }

    pub(crate) fn group_number(&self, position: Position) -> u64 {
        position.0 / u64::from(self.config.group_pages)
    }

    /// What is stamped into a page, or into its checksum, when it enters at `position`.
    pub(crate) fn stamp(&self, position: Position) -> Position {
        if self.config.proofs && !self.is_log() { Position(0) } else { self.stamps.stamp(position) }
    }

    /// The checksums that the directory keeps for pages in these slots; zeros if it keeps none.
    pub(crate) fn proofs<const N: usize>(
        &self,
        slots: impl Iterator<Item = SlotId>,
    ) -> Result<ArrayVec<u32, N>, Gone> {
        if !self.config.proofs {
            return Ok(slots.map(|_| 0).collect());
        }
        let mut proofs = ArrayVec::new();
        self.with(|partition| proofs.extend(slots.map(|slot| partition.proof(slot))))?;
        Ok(proofs)
    }

    /// Proves that `bytes`, read from `slot`, are the version of `id` that the directory means; `proof` is
    /// the checksum that it keeps, if it keeps one.
    pub(crate) fn prove(
        &self,
        bytes: &[u8],
        id: PageId,
        slot: SlotId,
        generation: Generation,
        proof: u32,
    ) -> Result<(), PageFault> {
        if self.config.proofs {
            let stamp = match generation {
                Generation::Exact(position) => self.stamps.stamp(position),
                Generation::LowByte(_) => Position(0),
            };
            return self.options.page_format.verify(bytes, id, stamp, proof);
        }
        if let (false, Generation::Exact(position)) = (self.options.page_format.names_itself(), generation) {
            return self.options.page_format.verify_alone(bytes, id, self.stamps.stamp(position));
        }
        page::verify(bytes, id, None)?;
        let found = self.stamps.position_in(slot, Position(page::header(bytes).generation.get()));
        let possible = self.is_log() || self.may_hold(slot, id, found);
        if possible && generation.matches(found) {
            return Ok(());
        }
        let expected = match generation {
            Generation::Exact(position) => position,
            Generation::LowByte(byte) => Position(byte.into()),
        };
        Err(PageFault::Generation { expected, found })
    }

    /// Slot placement: whether the version of `page` that entered at `position` may be served from `slot`.
    fn may_hold(&self, slot: SlotId, page: PageId, position: Position) -> bool {
        let is_listed = || self.listed.as_ref().is_none_or(|listed| listed.admits(slot, page, position));
        self.positions.contains(&position.0) && is_listed()
    }

    /// Wakes all waiters after a job is complete: there may be room, new jobs, and news for them.
    pub(crate) fn job_is_done(&self) {
        self.progress.notify_all();
        self.background.notify_one();
        self.writes.notify_one();
    }

    /// True if the cache runs, false if it is switched off and the disk alone serves.
    pub(crate) fn check_running(&self) -> Result<bool, TierError> {
        loop {
            let seen = self.progress.epoch();
            match self.state.now() {
                State::Running => return Ok(true),
                State::Off | State::Degraded => return Ok(false),
                State::Leaving => self.await_progress(seen)?,
                // Why, the back has said in its own process.
                State::Poisoned => return Err(self.state.failure().unwrap_or_else(failed_elsewhere)),
                State::Gone => return Err(Gone.into()),
                State::Closed if self.seat.is_some() => {
                    return Err(TierError::Gone("the process that serves the cache has closed it"));
                }
                State::Closed => {
                    return Err(TierError::Refused("the flash tier is closed; open it again".to_owned()));
                }
            }
        }
    }

    /// Waits for progress after the epoch `seen`. May return early.
    pub(crate) fn await_progress(&self, seen: Seen) -> Result<(), TierError> {
        let was_notified = self.progress.wait(seen);
        self.seat.as_ref().map_or(Ok(()), |seat| seat.after_wait(was_notified))
    }
}

fn failed_elsewhere() -> TierError {
    TierError::Refused(
        "the flash tier has failed, as the log of the process that serves the cache says; repair the flash device and restart"
            .to_owned(),
    )
}

//! Access to a cache: what a user's thread or process does. It fetches pages that are in the cache, offers
//! pages to staging, and forgets. Everything else is written by the folder `tier`: groups, dequeues,
//! checkpoints, recovery, and the disk.
//!
//! | file | what it does |
//! |---|---|
//! | `directory` | the core's partition and the table of objects, under one latch |
//! | `flash_pages` | pages on flash, and what proves them |
//! | `staging` | the memory between DRAM and flash |
//! | `board` | the words that a front and the back share: run state, counters, the order of pages |
//! | `signals` | what tasks wait for: notifications, the end of the cache, turns |
//! | `run_state` | whether the cache runs, and why it does not |
//! | `order` | which reads from disk may still enter the flash |
//! | `fetch`, `offer`, `forget` | the three things that a user does |
//! | `fetch_run` | fetches of adjacent pages |
//! | `cached` | which pages are in the cache |
//! | `places` | where on flash pages are, for callers that read them themselves |
//! | `rescue` | pages of a flash that has failed |
//! | `objects` | what dies as a whole: the table of objects |
//! | `dead` | pages that are dead by this table |
//! | `segment` | all this memory in one segment, for fronts in other processes |
//! | `seat`, `frames` | which process holds what there; staging there |
//! | `bell` | notifications, also between processes |
//! | `listed` | what the slot directory on flash says, for fetches (TAC) |
//!
//! A part owns its state, or names the parts that it works on. [`Access`] is all of them put together; a
//! caller names the part that it means.
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
mod cached;
mod content;
mod dead;
mod destage_requests;
mod directory;
mod fetch;
mod fetch_run;
mod flash_pages;
mod forget;
mod frames;
mod listed;
mod objects;
mod offer;
mod order;
mod places;
mod rescue;
mod run_state;
mod seat;
mod segment;
mod signals;
mod staging;

pub(crate) use bell::Bell;
pub(crate) use board::{Answer, BoardRef, Request};
pub(crate) use cached::CachedPages;
pub(crate) use dead::drop_dead_of_next_dequeue;
pub(crate) use directory::Directory;
pub(crate) use fetch::{FetchResult, Fetches};
pub(crate) use fetch_run::Run;
pub(crate) use flash_pages::FlashPages;
pub(crate) use forget::Forgets;
pub(crate) use listed::Listed;
pub(crate) use objects::ObjectTable;
pub(crate) use offer::{Offered, Offers, RUN_PAGES_MAX, Read};
pub(crate) use order::{PageOrder, ReadTicket};
pub use places::Place;
pub(crate) use places::Places;
pub(crate) use rescue::Rescuer;
pub(crate) use run_state::{RunState, State};
pub(crate) use seat::Seat;
pub(crate) use segment::{
    Opened, ServedSegment, attach, check as check_shareable, segment_bytes, serve, supersede,
};
pub(crate) use signals::Signals;
pub(crate) use staging::{Composition, Incoming, Staging};

use crate::region::{Region, RegionMemory};
use crate::shadow::{Shadow, plan_of};
use crate::{TierMetrics, TierOptions};
use entresol_device::Device;
use entresol_format::stamps::Stamps;
use entresol_format::superblock::POSITIONS_OF_AN_OPEN;
use entresol_shm::Gone;
use fetch_run::Runs;
use std::ops::Range;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Access {
    pub options: Arc<TierOptions>,
    pub directory: Arc<Directory>,
    pub flash_pages: Arc<FlashPages>,
    pub staging: Arc<Staging>,
    pub board: BoardRef,
    pub state: Arc<RunState>,
    pub order: PageOrder,
    pub signals: Arc<Signals>,
    /// This process's place among those that share the cache, if any do.
    pub seat: Option<Arc<Seat>>,
    /// What other policies and sizes would make of the load.
    pub shadow: Arc<Shadow>,
    pub fetches: Fetches,
    pub runs: Runs,
    pub offers: Arc<Offers>,
    pub forgets: Arc<Forgets>,
    pub objects: Arc<ObjectTable>,
    pub cached: Arc<CachedPages>,
    pub places: Places,
    /// For a flash that has failed.
    pub rescuer: Arc<Rescuer>,
}

/// What a front has in memory, its own or shared.
struct Memory {
    region: RegionMemory,
    staging: Staging,
    board: BoardRef,
    writes: Bell,
    background: Bell,
    progress: Bell,
    shadow: Shadow,
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

/// What the verbs of an access work on.
struct Base {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    staging: Arc<Staging>,
    board: BoardRef,
    state: Arc<RunState>,
    order: PageOrder,
    signals: Arc<Signals>,
    seat: Option<Arc<Seat>>,
    shadow: Arc<Shadow>,
}

impl Base {
    fn new(memory: Memory, common: Common) -> Result<Self, Gone> {
        let Memory { region, staging, board, writes, background, progress, shadow, seat } = memory;
        let options = &common.options;
        let (seat, state) = (seat.map(Arc::new), Arc::new(RunState::new(board.clone())));
        Ok(Self {
            directory: Arc::new(Directory::new(region, options.config(), &state)?),
            staging: Arc::new(staging),
            order: PageOrder::new(board.clone(), options.page_format.has_no_owner_with_a_log()),
            signals: Arc::new(Signals::new(writes, background, progress, &board, &state, &seat)),
            flash_pages: Arc::new(FlashPages::new(common)),
            shadow: Arc::new(shadow),
            board,
            state,
            seat,
        })
    }
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
            shadow: Shadow::private(plan_of(&options), &options.costs),
            seat: None,
        };
        let own = "nobody gives up memory of this process";
        let access = Self::over(memory, Common { options, flash, stamps, positions, listed }).expect(own);
        access.directory.note_objects().expect(own);
        access
    }

    /// A front over memory that holds a whole cache.
    fn over(memory: Memory, common: Common) -> Result<Self, Gone> {
        let options = Arc::new(common.options.clone());
        let base = Base::new(memory, common)?;
        let cached = Arc::new(CachedPages::new(&base));
        let forgets = Arc::new(Forgets::new(&base, &cached));
        let objects = Arc::new(ObjectTable::new(&base, &forgets));
        let offers = Arc::new(Offers::new(&base, options.mode, options.takes_changes));
        let (fetches, runs, places) = (Fetches::new(&base), Runs::new(&base), Places::new(&base));
        let rescuer = Arc::new(Rescuer::new(&base));
        let Base { directory, flash_pages, staging, board, state, order, signals, seat, shadow } = base;
        Ok(Self {
            options,
            directory,
            flash_pages,
            staging,
            board,
            state,
            order,
            signals,
            seat,
            shadow,
            fetches,
            runs,
            offers,
            forgets,
            objects,
            cached,
            places,
            rescuer,
        })
    }

    /// All counters, and the present numbers of slots. Of a cache that was given up, the counters alone.
    pub(crate) fn metrics(&self) -> TierMetrics {
        let (occupancy, decision_hash) = self
            .directory
            .with(|partition| (partition.occupancy(), partition.decision_hash()))
            .unwrap_or_default();
        TierMetrics {
            slots: occupancy.slots.into(),
            slots_valid: occupancy.valid.into(),
            slots_superseded: occupancy.superseded.into(),
            slots_dirty: occupancy.dirty.into(),
            decision_hash,
            forecasts: self.shadow.forecasts(),
            ..self.board.tallies.read()
        }
    }
}

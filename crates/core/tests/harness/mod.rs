//! A driver that plays the engine against a partition: a buffer pool above, staging memory, a flash device
//! and a disk below, with several jobs in flight that advance in any order. After every step it asserts the
//! partition's invariants, that every page would be served in its newest version, and that a crash now would
//! lose nothing.
#![allow(dead_code)] // each test binary uses a part

pub mod choices;
pub mod crash;
pub mod lc_order;
pub mod log_cleanings;
pub mod log_fates;
pub mod log_model;
pub mod log_records;
pub mod orders;
pub mod reuse_classes;
pub mod reuse_evidence;
pub mod reuse_order;
pub mod reuse_regions;
pub mod s3_fifo_order;
pub mod slots_model;
pub mod world;

pub use choices::Choices;
pub use world::World;

use entresol_core::{
    Admission, CleanPage, Cleaning, Config, Costs, DequeuePage, Flush, Forget, Forgotten, Job, Lookup,
    Occupancy, PageId, Placement, PolicyKind, Position, SlotId, Taken, WritePage,
};
use std::ops::Range;

/// A naive model of a policy: it is told of all events, and asserts the answers.
pub trait Model {
    /// What the devices cost from now on.
    fn cost(&mut self, costs: &Costs);
    /// A checkpoint begins.
    fn close_group(&mut self) {}
    fn fetch(&mut self, page: PageId, found: &Lookup);
    fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool, got: Admission);
    /// Changed pages enter from now on, even those that the policy would keep out.
    fn take_changes(&mut self) {}
    /// A page has been read from disk.
    fn arrived(&mut self, _page: PageId, got: Admission) {
        assert_eq!(got, Admission::Bypass { stale: false });
    }
    /// The driver kept a changed page out.
    fn bypassed(&mut self, _page: PageId, _got: Admission) {
        unreachable!("only slot placement takes copies back")
    }
    /// A fetched page is in DRAM.
    fn taken(&mut self, _page: PageId, got: Taken) {
        assert_eq!(got, Taken::Copied);
    }
    /// Called with the answer of `next_job`, `None` included.
    fn job(&mut self, job: Option<&Job>, flush: Option<&Flush>, writes_only: bool);
    fn staged(&mut self, frame: u32);
    fn written(&mut self, pages: &[WritePage], flush: Option<&Flush>);
    fn restage(&mut self, page: &DequeuePage, got: Admission);
    /// The disk refuses some of these pages. They are restaged, if `got`.
    fn keep(&mut self, _pages: &[DequeuePage], _got: bool) {
        unreachable!("only a log keeps what the disk refuses")
    }
    /// Those of these pages that leave are durable on disk.
    fn left(&mut self, _pages: &[DequeuePage]) {}
    /// All second chances of these pages are restaged.
    fn restaged(&mut self, _pages: &[DequeuePage]) {}
    fn dequeued(&mut self, pages: &[DequeuePage]);
    /// The page is to be copied to disk.
    /// A page is not to leave.
    fn hold(&mut self, _page: PageId, got: bool) {
        assert!(!got, "slots hold no page");
    }
    fn let_go(&mut self, _page: PageId) {}
    fn clean(&mut self, page: PageId, got: &Cleaning);
    fn cleaned(&mut self, page: &CleanPage);
    /// A job that came from a sweep.
    fn swept(&mut self, from: SlotId, got: &Option<Result<CleanPage, SlotId>>);
    /// After a crash: the entries that recovery found, oldest first, and the ring's front and rear.
    fn restored(
        &mut self,
        entries: &[(Position, PageId, bool)],
        records: &[Forgotten],
        front: Position,
        rear: Position,
    );
    /// A flush begins.
    fn flush(&mut self, got: Option<Position>);
    /// The pages from the first to the last are forgotten.
    fn forget(&mut self, pages: (PageId, PageId), after: u64, got: &Forget);
    /// Pages are to be forgotten in steps.
    fn forget_begin(&mut self, _pages: (PageId, PageId), _after: u64, _got: Option<Position>) {
        unreachable!("only log placement forgets in steps")
    }
    fn forget_entries(
        &mut self,
        _pages: (PageId, PageId),
        _below: Position,
        _entries: Range<u32>,
        _got: &Forget,
    ) {
        unreachable!("only log placement forgets in steps")
    }
    fn forget_below(&mut self, _pages: (PageId, PageId), _below: Position, _got: &Forget) {
        unreachable!("only log placement forgets in steps")
    }
    /// Records of forgotten pages are written with the group that ends at a position; everything up to
    /// `durable` is durable.
    fn records(&mut self, _durable: u64, _group_end: u64, _got: &[Forgotten], _end: u64) {
        unreachable!("only log placement has groups")
    }
    fn recorded(&mut self, _end: u64) {}
    fn front_is_durable(&mut self, _front: u64) {}
    /// Called after every step.
    fn verify(&mut self, occupancy: &Occupancy, window: (Position, Position), published: Position);
}

/// The naive model of the policy.
pub fn model_of(config: &Config) -> Box<dyn Model> {
    match config.policy.placement() {
        Placement::Slots => Box::new(slots_model::SlotsModel::new(config)),
        Placement::Log => Box::new(log_model::LogModel::new(config)),
    }
}

/// A small partition: groups of `group_pages`, as few slots as possible and `more` groups on top.
pub fn small(policy: PolicyKind, group_pages: u32, staging_groups: u32, more: u32) -> Config {
    let mut config = Config::new(policy, 4096);
    config.group_pages = group_pages;
    config.staging_groups = staging_groups;
    config.slots = config.slots_min() + more * group_pages;
    config.history = policy.history(config.slots / 2);
    // Several sets, so that the last one is larger.
    config.set_slots = 12;
    config
}

/// A seeded run of `reuse` in which many pages are used once only, so that it keeps pages out.
pub fn run_that_keeps_out(seed: u64, steps: usize) -> World {
    let mut choices = Choices::from_seed(seed * 104_729);
    let config = small(PolicyKind::Reuse, 4, 2, choices.below(8) as u32);
    let mut world = World::new(config, 1200, 8);
    world.settle_every = 8;
    world.crash_often = seed % 3 == 1; // a restart learns anew
    world.front_lags = seed.is_multiple_of(2);
    world.forgets_and_flushes = seed % 3 == 2;
    println!("seed {seed}: {config:?}");
    for used in [60, 1200, 200, 1200] {
        world.pages_used = used;
        world.run(&mut choices, steps / 4);
    }
    world
}

/// A seeded run of `reuse` in which most pages of the ring stay, and those that leave go to disk first.
pub fn run_that_stays(seed: u64, steps: usize) -> World {
    let mut choices = Choices::from_seed(seed * 104_729);
    let [group_pages, staging_groups] = [[2, 4], [3, 3], [4, 2], [4, 4]][choices.below(4)];
    let is_cheap = |config: &Config| {
        let costs = reuse_evidence::costs(config);
        costs.are_known() && costs.flash_write_in_row_ns < 10 && costs.write_worth_permille == 0
    };
    let rings =
        (choices.below(20) as u32..).map(|more| small(PolicyKind::Reuse, group_pages, staging_groups, more));
    let config = rings.into_iter().find(is_cheap).expect("costs differ with the size");
    let mut world = World::new(config, config.slots * 5 / 4, 3);
    world.settle_every = usize::MAX;
    world.crash_often = seed % 4 == 1;
    world.front_lags = seed.is_multiple_of(2);
    world.forgets_and_flushes = seed % 4 == 3;
    println!("seed {seed}: {config:?}");
    for used in [1, 2, 4, 5] {
        world.pages_used = (config.slots * used / 4) as usize;
        world.run(&mut choices, steps / 4);
    }
    world
}

/// A seeded run with forgotten pages and flushes; every other run keeps proofs.
pub fn run_with_forgets_and_flushes(policy: PolicyKind, mode: world::Mode, seed: u64) -> World {
    let mut choices = Choices::from_seed(seed * 104_729 + policy as u64);
    let group_pages = [2, 3, 4, 8][choices.below(4)];
    let staging_groups = 2 + choices.below(3) as u32;
    let mut config = small(policy, group_pages, staging_groups, choices.below(8) as u32);
    config.dirty_permille_max = [0, 100, 500, 900, 1000][choices.below(5)];
    config.proofs = seed.is_multiple_of(2);
    let pages = config.slots / 2 + choices.below(2 * config.slots as usize) as u32;
    let mut world = World::new(config, pages, 4 + choices.below(pages as usize / 4));
    world.settle_every = [usize::MAX, 16][choices.below(2)];
    world.mode = mode;
    world.forgets_and_flushes = true;
    // In some runs the disk is slow to make writes durable, so that many records wait.
    if seed % 5 == 4 {
        world.dead.sync_one_in = 200;
        world.crash_often = false;
        world.settle_every = usize::MAX;
    }
    println!("seed {seed}: {config:?}, {pages} pages");
    world.run(&mut choices, 4000);
    world
}

/// A seeded run in which pages are held: they do not leave, whatever the policy says.
pub fn run_that_holds(policy: PolicyKind, seed: u64) -> World {
    let mut choices = Choices::from_seed(seed * 104_729 + policy as u64);
    let config = small(policy, [2, 3, 4, 8][choices.below(4)], 2, choices.below(8) as u32);
    let pages = config.slots + choices.below(2 * config.slots as usize) as u32;
    let mut world = World::new(config, pages, 4);
    world.settle_every = [usize::MAX, 16][choices.below(2)];
    world.holds = true;
    world.crash_often = seed % 4 == 1;
    world.forgets_and_flushes = seed % 4 == 3;
    println!("seed {seed}: {config:?}, {pages} pages");
    world.run(&mut choices, 4000);
    world
}

/// A seeded run with a disk that refuses pages, now these and now those, at most an eighth of the ring.
pub fn run_that_refuses(policy: PolicyKind, seed: u64) -> World {
    let mut choices = Choices::from_seed(seed * 104_729 + policy as u64);
    let staging_groups = [2, 2, 3, 4][choices.below(4)];
    let mut config = small(policy, [2, 3, 4, 8][choices.below(4)], staging_groups, choices.below(8) as u32);
    config.refusals = true;
    let pages = config.slots + choices.below(2 * config.slots as usize) as u32;
    let mut world = World::new(config, pages, 4);
    world.settle_every = [usize::MAX, 16][choices.below(2)];
    world.refuses = true;
    world.crash_often = seed % 4 == 1;
    world.holds = seed % 8 == 2;
    world.forgets_and_flushes = seed % 4 == 3;
    println!("seed {seed}: {config:?}, {pages} pages");
    world.run(&mut choices, 4000);
    world
}

//! A driver that plays the engine against a partition: a buffer pool above, staging memory, a flash device
//! and a disk below, several jobs in flight that advance in any order. After every step it asserts the
//! partition's invariants, that every page would be served in its newest version, and that a crash now would
//! lose nothing.
#![allow(dead_code)] // each test binary uses a part

pub mod choices;
pub mod crash;
pub mod lc_order;
pub mod log_model;
pub mod orders;
pub mod slots_model;
pub mod world;

pub use choices::Choices;
pub use world::World;

use entresol_core::{
    Admission, CleanPage, Config, DequeuePage, Job, Lookup, Occupancy, PageId, Placement, PolicyKind,
    Position, SlotId, Taken, WritePage,
};

/// What a naive model of a policy is told, and asserts.
pub trait Model {
    /// A checkpoint begins.
    fn close_group(&mut self) {}
    fn fetch(&mut self, page: PageId, found: &Lookup);
    fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool, got: Admission);
    /// A page has come from disk.
    fn arrived(&mut self, _page: PageId, got: Admission) {
        assert_eq!(got, Admission::Bypass { stale: false });
    }
    /// A changed page was kept out by the driver.
    fn bypassed(&mut self, _page: PageId, _got: Admission) {
        unreachable!("only slot placement takes copies back")
    }
    /// A fetched page is in DRAM.
    fn taken(&mut self, _page: PageId, got: Taken) {
        assert_eq!(got, Taken::Copied);
    }
    /// Called with what `next_job` gave, `None` included.
    fn job(&mut self, job: Option<&Job>, writes_only: bool);
    fn staged(&mut self, frame: u32);
    fn written(&mut self, pages: &[WritePage]);
    fn restage(&mut self, page: &DequeuePage, got: Admission);
    fn dequeued(&mut self, pages: &[DequeuePage]);
    fn cleaned(&mut self, page: &CleanPage);
    /// A job that came from a sweep.
    fn swept(&mut self, from: SlotId, got: &Option<Result<CleanPage, SlotId>>);
    /// After a crash: what recovery found, oldest first, and the ring's rear.
    fn restored(&mut self, entries: &[(Position, PageId, bool)], front: Position, rear: Position);
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

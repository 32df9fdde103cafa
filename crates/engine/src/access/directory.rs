//! The directory of a cache: the core's partition, and the table of objects if there is one, under one latch.
//!
//! Invariants:
//! - A step touches the region and the board, takes no other lock and allocates nothing. Where processes
//!   share the region and one of them dies in a step, the cache is given up: no step follows.
//! - A hit that was looked up without the latch counts if, after the read of its page, the index has not
//!   changed there, the object of the page lives, and the cache runs. The state is looked at last: a cache
//!   that does not run never runs again, and its index may be out of date from then on.
//! - Of each object there is a word: its pages at that position, and at later ones, live, unless they are
//!   below the table's front, which is a word, too. They are written under the latch, in the step that
//!   changes what they say.

use super::run_state::RunState;
use crate::TierError;
use crate::region::RegionMemory;
use arrayvec::ArrayVec;
use entresol_core::{Config, Hit, Log, PageId, Partition, Placement, Position, Shape, SlotId, Unlatched};
use entresol_objects::{ObjectId, Objects};
use entresol_runtime::sync::allowing_allocation;
use entresol_shm::Gone;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Of an object that does not live, or of which only the table says which pages do.
const ASK_THE_TABLE: u64 = u64::MAX;

/// Largest partition whose invariants are checked after every step in debug builds.
const CHECKED_SLOTS_MAX: u32 = 1024;

/// See the module's header.
pub(crate) struct Directory {
    pub config: Config,
    /// What the core's region was proved to hold.
    shape: Shape,
    /// What the table of objects was proved to be, if there is one.
    objects: Option<entresol_objects::Shape>,
    /// The core's region and the table of objects, and the latch around them.
    region: RegionMemory,
    /// To give the cache up.
    state: Arc<RunState>,
}

impl Directory {
    /// The directory in `region`, which holds a partition of `config`.
    pub(super) fn new(region: RegionMemory, config: Config, state: &Arc<RunState>) -> Result<Self, Gone> {
        let (shape, objects) = region.with(|partition, objects| {
            let shape =
                Shape::of_parts(partition, &region.index).expect("the region holds this tier's partition");
            let table = (!objects.is_empty())
                .then(|| entresol_objects::Shape::of(objects).expect("the region holds this tier's objects"));
            (shape, table)
        })?;
        Ok(Self { config, shape, objects, region, state: state.clone() })
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

    /// As [`Directory::with`], for a caller whose pages are in a log.
    pub(crate) fn in_log<R>(&self, step: impl FnOnce(&mut Log<'_>) -> R) -> Result<R, Gone> {
        self.with(|partition| step(partition.log_mut().expect("the pages are in a log")))
    }

    /// As [`Directory::with`], for a caller that holds a lock under which no task may be preempted.
    #[inline]
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> Result<R, Gone> {
        let result = self.region.with(|partition, _| {
            let mut partition = Partition::attach_parts(partition, &self.region.index, &self.shape);
            let result = step(&mut partition);
            self.check(&partition);
            result
        });
        result.inspect_err(|_| self.state.give_up())
    }

    /// As [`Directory::with`], with the table of objects, if there is one.
    pub(crate) fn with_objects<R>(
        &self,
        step: impl FnOnce(&mut Partition<'_>, Option<&mut Objects<'_>>) -> R,
    ) -> Result<R, Gone> {
        entresol_runtime::may_preempt();
        self.step_with_objects(step)
    }

    /// As [`Directory::with_objects`], for a caller at which a task may have been preempted just now.
    pub(crate) fn step_with_objects<R>(
        &self,
        step: impl FnOnce(&mut Partition<'_>, Option<&mut Objects<'_>>) -> R,
    ) -> Result<R, Gone> {
        let result = self.region.with(|partition, objects| {
            let mut partition = Partition::attach_parts(partition, &self.region.index, &self.shape);
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

    /// As [`Directory::step`], for a destructor: never waits. `None`: the latch is held or gone.
    pub(crate) fn try_step<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> Option<R> {
        let index = &self.region.index;
        self.region.try_with(|partition| step(&mut Partition::attach_parts(partition, index, &self.shape)))
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

    /// The checksums that are kept for pages in these slots; zeros if none are kept.
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

    /// Copies the region to a new one.
    pub(super) fn copy_to(&self, region: &RegionMemory) -> Result<(), Gone> {
        self.region.copy_to(region)
    }

    /// The index, for look-ups without the latch, if hits need none.
    #[inline]
    pub(crate) fn unlatched(&self) -> Option<Unlatched<'_>> {
        self.shape.unlatched(&self.region.index)
    }

    /// Whether `hit` is to be served: see the module's header.
    #[inline]
    pub(crate) fn is_current(&self, index: &Unlatched<'_>, page: PageId, hit: &Hit) -> bool {
        index.is_current(hit) && self.is_sure_to_live(page, hit.position) && self.state.is_running()
    }

    fn is_sure_to_live(&self, page: PageId, position: Position) -> bool {
        let is_from = |from: &AtomicU64| from.load(Acquire) <= position.0;
        let Some((front, objects)) = self.region.lives.split_first() else { return true };
        is_from(front) && objects.get(page.object() as usize).is_some_and(is_from)
    }

    /// `object` has changed in this step.
    pub(super) fn object_changed(&self, objects: &Objects<'_>, object: ObjectId) {
        if let Some(word) = self.region.lives.get(1 + object.0 as usize) {
            word.store(objects.lives_from(object).map_or(ASK_THE_TABLE, |from| from.0), Release);
        }
    }

    /// All objects may have, or the front that the table knows.
    pub(super) fn objects_changed(&self, objects: &Objects<'_>) {
        self.front_passed(objects);
        let all = 0..self.region.lives.len().saturating_sub(1) as u32;
        all.for_each(|object| self.object_changed(objects, ObjectId(object)));
    }

    /// The front that the table knows has changed.
    pub(super) fn front_passed(&self, objects: &Objects<'_>) {
        if let Some(word) = self.region.lives.first() {
            word.store(objects.front().0, Release);
        }
    }

    /// Notes which objects live, in a region that is not published yet.
    pub(super) fn note_objects(&self) -> Result<(), Gone> {
        self.step_with_objects(|_, objects| {
            objects.into_iter().for_each(|objects| self.objects_changed(objects))
        })
    }

    pub(crate) fn is_log(&self) -> bool {
        self.config.policy.placement() == Placement::Log
    }

    /// Whether pages on flash survive a crash.
    pub(crate) fn keeps_pages(&self) -> bool {
        self.is_log() || self.config.keeps_slots
    }

    /// Whether there is a table of objects.
    pub(super) fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    pub(crate) fn group_number(&self, position: Position) -> u64 {
        position.0 / u64::from(self.config.group_pages)
    }
}

//! Tasks: what every thread of the project's code calls, dispatched to the simulation or to the operating
//! system.
//!
//! Invariant: `park` and `unpark` keep `std::thread`'s token semantics in both runtimes: an unpark before its
//! park is remembered (once), and a park may return early. So every wait is a loop around its condition.

use crate::rng::Rng;
use crate::sim::{self, TaskId};
use crate::sync::held::assert_may_park;
use crate::threads;
use crate::time::{Time, now};
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A handle of a task, to wake it. Cheap to clone. A task of a simulation that has ended may still be named;
/// waking it does nothing.
#[derive(Clone, Debug)]
pub struct Task(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Real(threads::Thread),
    Sim(TaskId),
}

impl Task {
    /// Makes the task's current or next [`park`] return. Never blocks.
    ///
    /// A simulated task can be woken only by tasks of its own simulation; from elsewhere this does nothing.
    pub fn unpark(&self) {
        match &self.0 {
            Kind::Real(thread) => thread.unpark(),
            Kind::Sim(id) => {
                if let Some(world) = sim::world() {
                    world.unpark(*id);
                }
            }
        }
    }
}

/// The right to wait for a spawned task. Without it the task runs on.
#[derive(Debug)]
pub struct JoinHandle(JoinKind);

#[derive(Debug)]
enum JoinKind {
    Real(threads::JoinHandle<()>),
    Sim(TaskId),
}

impl JoinHandle {
    /// Waits until the task has returned.
    ///
    /// # Panics
    /// In the real runtime, with the task's own panic if it panicked. (In a simulation, a panic ends the
    /// simulation.)
    pub fn join(self) {
        if let Err(payload) = self.join_or_panic() {
            std::panic::resume_unwind(payload);
        }
    }

    /// As [`JoinHandle::join`]; a panic of the task is returned.
    pub fn join_or_panic(self) -> std::thread::Result<()> {
        match self.0 {
            JoinKind::Real(handle) => handle.join(),
            JoinKind::Sim(id) => {
                sim::world().expect("a simulated task is joined inside its simulation").join(id);
                Ok(())
            }
        }
    }

    /// The spawned task.
    pub fn task(&self) -> Task {
        match &self.0 {
            JoinKind::Real(handle) => Task(Kind::Real(handle.thread().clone())),
            JoinKind::Sim(id) => Task(Kind::Sim(*id)),
        }
    }
}

/// Starts a task. `name` appears in panics and deadlock reports.
///
/// # Panics
/// If the operating system refuses another thread.
pub fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle {
    match sim::world() {
        Some(world) => JoinHandle(JoinKind::Sim(world.spawn(name, f))),
        None => JoinHandle(JoinKind::Real(
            threads::Builder::new()
                .name(name.to_owned())
                .spawn(f)
                .unwrap_or_else(|error| panic!("cannot start thread {name:?}: {error}")),
        )),
    }
}

/// The calling task.
pub fn current() -> Task {
    match sim::world() {
        Some(world) => Task(Kind::Sim(world.current())),
        None => Task(Kind::Real(threads::current())),
    }
}

/// Waits until the calling task is unparked. May return early.
#[cfg_attr(debug_assertions, track_caller)]
pub fn park() {
    assert_may_park();
    match sim::world() {
        Some(world) => world.park(None),
        None => threads::park(),
    }
}

/// Waits until the calling task is unparked or `timeout` has passed. May return early.
#[cfg_attr(debug_assertions, track_caller)]
pub fn park_timeout(timeout: Duration) {
    assert_may_park();
    match sim::world() {
        Some(world) => {
            let deadline = world.now() + timeout;
            world.park(Some(deadline));
        }
        None => threads::park_timeout(timeout),
    }
}

/// Waits for `duration`.
#[cfg_attr(debug_assertions, track_caller)]
pub fn sleep(duration: Duration) {
    assert_may_park();
    match sim::world() {
        Some(world) => {
            let deadline = world.now() + duration;
            world.sleep_until(deadline);
        }
        None => threads::sleep(duration),
    }
}

/// Waits until `deadline`; returns at once if it has passed.
#[cfg_attr(debug_assertions, track_caller)]
pub fn sleep_until(deadline: Time) {
    assert_may_park();
    match sim::world() {
        Some(world) => world.sleep_until(deadline),
        None => threads::sleep(deadline.since(now())),
    }
}

/// Lets others run. In a simulation this takes 100 ns of virtual time, so that a loop that only yields cannot
/// stop time.
pub fn yield_now() {
    match sim::world() {
        Some(_) => sleep(Duration::from_nanos(100)),
        None => threads::yield_now(),
    }
}

/// A point at which a simulation with [`sim::SimConfig::preempt_one_of`] may run others first. The caller may
/// be made to wait: it holds no lock of another library. Nothing happens elsewhere.
#[inline]
#[cfg_attr(debug_assertions, track_caller)]
pub fn may_preempt() {
    assert_may_park();
    threads::point();
    if sim::somebody_preempts()
        && let Some(world) = sim::world()
    {
        world.may_preempt();
    }
}

/// 64 random bits: from the simulation's seed, or from the operating system.
pub fn random() -> u64 {
    match sim::world() {
        Some(world) => world.random(),
        None => os_random(),
    }
}

/// Random bits of this thread's own generator, seeded by the operating system (through the standard hasher's
/// keys).
fn os_random() -> u64 {
    thread_local! {
        static GENERATOR: RefCell<Rng> = RefCell::new(Rng::new(RandomState::new().build_hasher().finish()));
    }
    GENERATOR.with_borrow_mut(Rng::next_u64)
}

/// Occupies one of the simulation's CPU cores for `duration`, in the order of requests. Does nothing in the
/// real runtime, where the work itself takes its time.
#[cfg_attr(debug_assertions, track_caller)]
pub fn consume_cpu(duration: Duration) {
    assert_may_park();
    if let Some(world) = sim::world() {
        world.consume_cpu(duration);
    }
}

/// Whether the caller runs inside a simulation.
pub fn is_simulated() -> bool {
    sim::world().is_some()
}

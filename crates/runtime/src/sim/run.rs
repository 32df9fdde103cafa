//! The start of a simulation, and its outcome.

use super::world::{World, enter, world};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The configuration of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Seed of [`crate::random`] and of the random order.
    pub seed: u64,
    /// CPU cores shared by calls of [`crate::consume_cpu`]; at least 1.
    pub cores: usize,
    /// Stack of each task in bytes; only the used part takes memory.
    pub stack_bytes: usize,
    /// Run ready tasks in an order picked by the seed, instead of first in, first out: to find races.
    pub random_order: bool,
    /// A task about to take a lock is preempted once in this many times (see [`crate::may_preempt`]): the
    /// other tasks run first, sometimes for a while. 0: never. Finds races between two waits.
    pub preempt_one_of: u64,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self { seed: 0, cores: 4, stack_bytes: 256 << 10, random_order: false, preempt_one_of: 0 }
    }
}

/// How a simulation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// `main` returned this.
    Finished(T),
    /// A task called [`super::halt`].
    Halted,
    /// All tasks wait, and no task is left to wake them.
    Deadlock {
        /// Names of the waiting tasks.
        parked: Vec<String>,
    },
    /// A task panicked: its name and message.
    Panicked(String),
}

impl<T> Outcome<T> {
    /// The result of `main`.
    ///
    /// # Panics
    /// If the simulation ended in any other way; the message says how.
    pub fn unwrap(self) -> T {
        match self {
            Outcome::Finished(result) => result,
            Outcome::Halted => panic!("the simulation was halted"),
            Outcome::Deadlock { parked } => {
                panic!("the simulation is in a deadlock; waiting tasks: {parked:?}")
            }
            Outcome::Panicked(message) => panic!("in the simulation, {message}"),
        }
    }
}

/// A world with its own clock, tasks, cores and random numbers. Any number of worlds may run at once on
/// different OS threads, and one after the other on one thread.
#[derive(Clone, Debug)]
pub struct Simulation {
    config: SimConfig,
}

impl Simulation {
    /// A simulation that is ready to run.
    pub fn new(config: SimConfig) -> Self {
        Self { config }
    }

    /// Runs `main` as the first task, and the tasks that it spawns, on the calling OS thread, until `main`
    /// returns or the world ends otherwise. Remaining tasks are unwound (see the module's header).
    ///
    /// # Panics
    /// If called inside a simulation.
    pub fn run<T>(self, main: impl FnOnce() -> T + Send) -> Outcome<T> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        assert!(world().is_none(), "a simulation cannot run inside another");
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let world = Rc::new(World::new(id, &self.config));
        let mut result = None;
        enter(Some(world.clone()));
        let end = End { world: &world };
        #[allow(unsafe_code)]
        // SAFETY: `end` tears the world down before `result` and the borrows of `main` end, also if the
        // scheduler panics; after that no task runs again.
        let main = unsafe { world.spawn_unchecked("main", || result = Some(main())) };
        let deadlocked = world.run_until_end(main);
        let panic = world.tear_down();
        drop(end);
        match (panic, deadlocked, result) {
            (Some(message), _, _) => Outcome::Panicked(message),
            (None, Some(parked), _) => Outcome::Deadlock { parked },
            (None, None, Some(result)) => Outcome::Finished(result),
            (None, None, None) => Outcome::Halted,
        }
    }
}

/// Tears the world down when [`Simulation::run`] ends in any way.
struct End<'a> {
    world: &'a Rc<World>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.world.forget_tasks();
        enter(None);
    }
}

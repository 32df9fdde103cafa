//! The simulated runtime: coroutines, one at a time, on the calling OS thread, under a virtual clock.
//!
//! Tasks run until they park or sleep; then the next ready one runs. When none is ready, time jumps to the
//! next timer.
//!
//! Invariant: the order of events is a function of [`SimConfig`] and of the code alone. Ready tasks run first
//! in, first out (or as the seed's generator picks, see [`SimConfig::random_order`]); timers fire in order of
//! (time, the order in which they were set).
//!
//! **How a world ends.** When `main` returns, a task panics, or [`halt`] is called, no task runs on: each
//! remaining one is unwound where it waits, one after the other, so that what it owns is dropped. Destructors
//! may unlock, unpark and read the clock; in one of them a sleep returns at once and a park lasts until
//! another dying task unparks it. A task that nobody wakes then is forgotten with its stack (its memory
//! leaks; nothing hangs).

mod fiber;
mod run;
mod timers;
mod world;

pub use run::{Outcome, SimConfig, Simulation};
pub(crate) use world::{TaskId, somebody_preempts, world};

/// Ends the simulation at once, as a power failure would: [`Simulation::run`] returns [`Outcome::Halted`].
///
/// # Panics
/// If called outside a simulation.
pub fn halt() -> ! {
    world().expect("halt() is called inside a simulation").halt()
}

/// Whether the simulation that the caller runs in is being torn down. Destructors use it to skip work that
/// only makes sense in a living world. False outside a simulation.
pub fn is_halted() -> bool {
    world().is_some_and(|world| world.is_halted())
}

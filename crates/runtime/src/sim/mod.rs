//! The simulated runtime: coroutines, one at a time, on the calling OS thread, under a virtual clock.
//!
//! A task runs until it parks or sleeps; then the next ready one runs. When no task is ready, time jumps to
//! the next timer.
//!
//! Invariant: the order of events is a function of [`SimConfig`] and of the code alone. Ready tasks run first
//! in, first out (or as the seed's generator picks, see [`SimConfig::random_order`]). Timers fire in order of
//! (time, the order in which they were set).
//!
//! **How a world ends.**
//!
//! 1. `main` returns, a task panics, or [`halt`] is called. From then on no task continues.
//! 2. Each remaining task is unwound at its waiting point, one after the other, so that its values are
//!    dropped. Destructors may unlock, unpark and read the clock. In a destructor a sleep returns at once,
//!    and a park lasts until another dying task unparks it.
//! 3. A task that is not woken then is forgotten with its stack: its memory leaks, but nothing hangs.

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

/// Whether the caller's simulation is being torn down. Destructors use it to skip work that only makes sense
/// in a running simulation. False outside a simulation.
pub fn is_halted() -> bool {
    world().is_some_and(|world| world.is_halted())
}

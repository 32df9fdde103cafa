//! One blocking style of code, two runtimes (docs/DESIGN.md, rule 3).
//!
//! Code written against the free functions of this crate runs unchanged in both runtimes: on OS threads under
//! the wall clock (*real*), and on coroutines, one at a time, under a virtual clock (*sim*). A thread-local
//! selects the runtime: inside [`sim::Simulation::run`] every call is handled by that simulation, anywhere
//! else by the operating system.
//!
//! Invariant: a simulation does not depend on the machine. Time, order and randomness depend on the seed
//! alone, so two runs of one seed are identical.
#![deny(unsafe_code)]

pub mod coverage;
pub mod rng;
pub mod say;
pub mod sim;
pub mod sync;
mod task;
mod threads;
mod time;

pub use task::{
    JoinHandle, Task, consume_cpu, current, is_simulated, may_preempt, park, park_timeout, random, sleep,
    sleep_until, spawn, yield_now,
};
pub use time::{Time, now};

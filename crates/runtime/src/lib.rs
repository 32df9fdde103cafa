//! One blocking style of code, two runtimes (docs/DESIGN.md, rule 3).
//!
//! Code written against the free functions of this crate runs unchanged on OS threads under the wall clock
//! (*real*) and on coroutines, one at a time, under a virtual clock (*sim*). Which of the two is found by a
//! thread-local: inside [`sim::Simulation::run`] every call goes to that simulation; anywhere else it goes to
//! the operating system.
//!
//! Invariant: inside a simulation nothing depends on the machine. Time, order and randomness come from the
//! seed alone, so two runs of one seed are equal to the last digit.
#![deny(unsafe_code)]

pub mod coverage;
pub mod rng;
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

//! Worlds to crash (docs/DESIGN.md §6): the real store on the real engine, on devices that lose power, tear
//! writes and forget what was not synced, in simulation, from a seed.
//!
//! | module | what it is |
//! |---|---|
//! | [`subject`] | the systems under test |
//! | [`machine`], [`watched`] | three devices that fail together, and what a power failure leaves of them |
//! | [`workload`] | what clients do, and the oracle kept outside |
//! | [`bank`], [`tpcc`] | two workloads |
//! | [`birth`] | crashes while a store is made and loaded |
//! | [`fuzz`] | what is fed with arbitrary bytes |
//! | [`leftovers`] | the log over what an older life left behind its end |
//! | [`life`] | one life of a machine: restart, verification, work |
//! | [`campaign`] | a crash at every operation, restarts, crashes of restarts |
//! | [`mutants`] | named bugs, each of which must be noticed |
//! | [`shared`] | memory that processes share, and survive each other in |
//! | [`report`] | what was found, with seeds and commands that replay it |
//! | [`mod@torture`] | all faults on random configurations, counted |
#![deny(unsafe_code)] // but for `shared`, which maps memory

pub mod bank;
pub mod birth;
pub mod campaign;
pub mod fuzz;
pub mod leftovers;
pub mod life;
pub mod machine;
mod moments;
pub mod mutants;
pub mod report;
pub mod shared;
pub mod subject;
pub mod torture;
pub mod tpcc;
pub mod watched;
pub mod workload;

pub use bank::Bank;
pub use campaign::Campaign;
pub use machine::{Machine, Media};
pub use report::{Failure, Report};
pub use subject::Subject;
pub use torture::{TortureOptions, TortureReport, torture};
pub use tpcc::Tpcc;
pub use workload::Workload;

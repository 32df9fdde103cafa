//! Crash tests of whole systems (docs/DESIGN.md §6): the real store on the real engine, in a seeded
//! simulation. The devices lose power, tear writes and lose unsynced data.
//!
//! | module | what it is |
//! |---|---|
//! | [`subject`] | the systems under test |
//! | [`machine`], [`watched`] | three devices that fail together, and their crash states |
//! | [`workload`] | the clients' transactions, and the oracle outside of the store |
//! | [`bank`], [`tpcc`] | two workloads |
//! | [`birth`] | crashes while a store is made and loaded |
//! | [`fuzz`] | fuzz targets for arbitrary bytes |
//! | [`leftovers`] | the log over leftovers of an older life after its end |
//! | [`life`] | one life of a machine: restart, verification, transactions |
//! | [`campaign`] | a crash at every operation, restarts, crashes of restarts |
//! | [`mutants`] | named bugs, each of which must be noticed |
//! | [`points`] | short runs that reach every named code point |
//! | [`raw`] | caches of raw pages, flushed and forgotten |
//! | [`shared`] | memory that processes share, and survive each other in |
//! | [`report`] | what was found, with seeds and commands that replay it |
//! | [`mod@torture`] | all faults on random configurations, counted |
#![deny(unsafe_code)] // except in `shared`, which maps memory

pub mod bank;
pub mod birth;
pub mod campaign;
pub mod fuzz;
pub mod leftovers;
pub mod life;
pub mod machine;
mod moments;
pub mod mutants;
pub mod points;
pub mod raw;
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

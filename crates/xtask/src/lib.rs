//! Work on this repository that cargo cannot do: `cargo xtask postgres build | deb | run | test | bench`,
//! `cargo xtask block test | bench`, `cargo xtask mutants`, `cargo xtask package`, `cargo xtask crates`.
//!
//! It calls the programs that a person would call: tar, patch, make, initdb. Their output goes to a log
//! file. A failure is one sentence on stderr that names the log, with exit status 2.
#![forbid(unsafe_code)]

pub mod block;
pub mod crates;
mod device;
pub mod mutants;
pub mod package;
pub mod paths;
pub mod postgres;
pub mod programs;
mod progress;
mod report;
pub mod step;

//! Experiments on the store and the engine, the papers' figures, and reports that put ours beside theirs.
#![forbid(unsafe_code)]

pub mod bench;
pub mod config;
pub mod paper;
pub mod report;
pub mod result;

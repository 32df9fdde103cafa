//! Experiments on the store and the engine, the papers' figures, and reports that compare ours with theirs.
#![forbid(unsafe_code)]

pub mod advise;
pub mod bench;
pub mod config;
pub mod cost;
pub mod mrc;
pub mod paper;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod result;

//! One file a command.

pub mod advise;
mod catalogue;
pub mod check;
pub mod create;
pub mod detach;
pub mod devices;
pub mod doctor;
pub mod inspect;
pub mod journal;
pub mod layout;
pub mod manual;
pub mod mrc;
mod prepare;
pub mod reproduce;
mod resize;
pub mod restart;
mod runner;
pub mod serve;
pub mod simulate;
pub mod source;
mod status;
mod storage;
#[cfg(feature = "torture")]
pub mod torture;
pub mod tpcc;
pub mod trace;
pub mod volume;
pub mod welcome;
pub mod worker;

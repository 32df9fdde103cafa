//! One file a command.

pub mod check;
pub mod devices;
pub mod inspect;
pub mod layout;
mod prepare;
pub mod restart;
mod runner;
mod storage;
pub mod tpcc;
pub mod worker;

//! The block door: a disk with a flash cache, as a block device for programs that do not know of it.
//!
//! [`Volume`] has the bytes; it runs on threads and in a simulation. [`VolumeConfig`] says where they are.
//! [`Server`] offers a volume over NBD, and with the feature `ublk` as a block device of the kernel.
#![forbid(unsafe_code)]

mod check;
mod config;
mod config_text;
mod create;
mod edit;
mod exposition;
mod journal;
mod making;
mod open;
mod resize;
mod server;
mod steer;
mod volume;
mod words;

pub use check::{check_volume, is_of_a_volume};
pub use config::{ConfigError, VolumeConfig};
pub use create::{create_volume, create_volume_with, write_flash_holes};
pub use entresol_engine::{DailyWrites, NotABudget};
pub use journal::{
    Identity, JournalReport, JournalState, Names, NotOurs, Origin, Parts, accept_journal, go_without_journal,
    journals, remove_journal,
};
pub use making::is_half_made;
pub use open::{
    OpenError, change_policy, detach_volume, empty_volume, inspect_volume, open_volume, remove_ended_journal,
};
pub use resize::resize_volume;
pub use server::{ControlReply, ControlRequest, Server, ServerError, ServerOptions, UblkOptions, ask};
pub use steer::{Bypassed, Latency, SteerOptions, Streams};
pub use volume::{
    Ahead, CacheOptions, Condition, DeviceStatus, JournalStatus, Loss, Lost, NewDevice, NewFlash, Past,
    RequestCounts, SECTOR_BYTES, UnderWay, Volume, VolumeError, VolumeStatus,
};

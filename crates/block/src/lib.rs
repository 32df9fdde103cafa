//! The block door: a disk with a flash cache, as a block device for programs that do not know of it.
//!
//! [`Volume`] has the bytes; it runs on threads and in a simulation.
#![forbid(unsafe_code)]

mod volume;

pub use volume::{SECTOR_BYTES, Volume, VolumeError, VolumeStatus};

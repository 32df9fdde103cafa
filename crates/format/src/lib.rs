//! The on-flash and on-disk format: types, their encoding, and how each proves to be what it claims to be.
//! What follows is docs/FORMAT.md.
//!
#![doc = include_str!("../../../docs/FORMAT.md")]
#![forbid(unsafe_code)]

pub mod block;
pub mod checksum;
pub mod fragments;
pub mod label;
pub mod layout;
pub mod losses;
pub mod page;
pub mod segment;
pub mod slots;
pub mod stamps;
pub mod summary;
pub mod superblock;
pub mod tables;
pub mod temperatures;

pub use block::{BLOCK_BYTES, BlockFault, FORMAT_VERSION, Uuid};
pub use layout::Layout;

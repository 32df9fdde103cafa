//! The format on flash and on disk: types, their encoding, and their checks. The text below is
//! docs/FORMAT.md, by a link within this folder: the published crate has a copy of it.
//!
#![doc = include_str!("../FORMAT.txt")]
#![forbid(unsafe_code)]

pub mod base;
pub mod batch;
pub mod block;
pub mod checksum;
pub mod fingerprint;
pub mod fragments;
pub mod label;
pub mod layout;
pub mod losses;
pub mod missing;
pub mod owners_log;
pub mod page;
pub mod page_format;
pub mod postgres;
pub mod redo;
pub mod segment;
pub mod slots;
pub mod stale;
pub mod stamps;
pub mod summary;
pub mod superblock;
pub mod tables;
pub mod temperatures;

pub use base::StoredBase;
pub use block::{BLOCK_BYTES, BlockFault, FORMAT_VERSION, Uuid};
pub use layout::Layout;
pub use owners_log::LogPosition;
pub use page_format::PageFormat;

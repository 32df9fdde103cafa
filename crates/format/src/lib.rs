//! What lies on flash and disk, byte for byte (docs/FORMAT.md).
//!
//! Every structure starts with a [`block::BlockHeader`]; all integers are little-endian; a block is 4 KiB. Each module
//! holds one structure, its fields with their offsets, and how it is proved to be what it claims to be.
#![forbid(unsafe_code)]

pub mod block;
pub mod label;
pub mod layout;
pub mod page;
pub mod segment;
pub mod summary;
pub mod superblock;

pub use block::{BLOCK_BYTES, BlockFault, FORMAT_VERSION, Uuid};
pub use layout::Layout;

//! What lies on flash and disk, byte for byte (docs/FORMAT.md).
#![forbid(unsafe_code)]

pub mod page;

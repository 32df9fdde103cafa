//! An embedded page store with transactions over the flash tier.
#![forbid(unsafe_code)]
mod api;
pub use api::*;

//! The core with devices: a working, crash-safe flash tier between a buffer pool and a disk.
#![forbid(unsafe_code)]

mod api;
mod error;

pub use api::{Fetched, HandedDown, Layer, Source, TierMetrics, Upstream, Victim};
pub use error::TierError;

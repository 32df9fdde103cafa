//! The flash directory and the cache policies as a sans-I/O state machine (DESIGN §3).
//!
//! No file, clock, thread or allocation after open: events go in, decisions come out, and all state lies by index in
//! one flat region that may be attached at any address.
#![forbid(unsafe_code)]

mod id;

pub use id::{Lsn, PageId, Position, SlotId};

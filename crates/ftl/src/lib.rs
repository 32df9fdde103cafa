//! Flash translation layers as state machines: a drive's work on its erase blocks. No I/O, no clock, no
//! randomness.
//!
//! - [`PageMap`]: a page map with greedy garbage collection. The time model of SSDs has one for each die.
//! - [`Hybrid`]: FAST's hybrid map with log blocks: switch, partial and full merges.
//! - [`Ssc`]: FlashTier's solid-state cache, a hybrid map that drops clean blocks instead of copying them.
//! - [`cache`]: the flash caches that are their own translation layer: RFDB/WFDB and FlashTier.
//!
//! All work on a [`Nand`] chip, which counts erases by block, and report [`Counters`], from which
//! [`Latencies`] make time. [`closed_form`] has the formula that they are checked against.
//!
//! Invariant, of every layer: `check` holds after every call.
#![forbid(unsafe_code)]

mod buckets;
pub mod cache;
pub mod closed_form;
mod counters;
mod free;
pub mod hybrid;
mod id;
mod layer;
mod nand;
mod page_map;
mod ssc;
mod wear;

pub use counters::{Counters, Latencies, Merges};
pub use free::FreeOrder;
pub use hybrid::{Hybrid, HybridConfig};
pub use id::{BlockId, Lpn, Ppn};
pub use layer::Ftl;
pub use nand::Nand;
pub use page_map::{Collected, PageMap};
pub use ssc::{SilentEviction, Ssc, SscError};
pub use wear::Wear;

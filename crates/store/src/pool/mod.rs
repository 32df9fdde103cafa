//! The buffer pool: page frames in DRAM over a [`Layer`](entresol_engine::Layer).
//!
//! * [`frame`]: a frame's pins and latch. [`state`]: its state word.
//! * [`table`]: page number → frame. [`replace`]: the order of eviction. [`free`]: frames without a page.
//! * [`frames`]: these together. [`guard`]: pinned and latched pages.
//! * [`wal_rule`]: the log above the pool. [`evicted`]: the pages that this session has evicted.
//! * [`evict`]: eviction, pulled victims, the checkpoint's copies. [`fetch`]: fetches from the layer.
//! * [`reports`]: what the layer reports. [`buffers`]: the door, [`Pool`].
//!
//! Rules:
//! 1. A frame's page changes only while the frame is unpinned, under the table shard's lock. A task pins a
//!    frame under that lock, or takes the pin count from 0 to 1 under the replacer's lock.
//! 2. A page is changed only under its exclusive latch, after the frame was marked dirty.
//! 3. The log is durable up to a page's LSN before the page is evicted to the layer.
//! 4. A page stays in the table until the layer has its newest version, so a fetch never finds an older one.
//! 5. The page of a pinned frame is given to the layer by one task at a time. An evictor starts only on
//!    unpinned frames. A checkpoint pins the frame, and waits for an evictor by latching the page.
//! 6. A page is not served if its LSN is not durable in the log. It is not served either if its LSN is at or
//!    after the end that the restart found, unless this session has evicted the page. The changes of such a
//!    page are in another log, or in a lost end of this one.
//! 7. No task does I/O or waits while it holds a shard's or the replacer's lock.

mod buffers;
mod evict;
mod evicted;
mod fetch;
mod frame;
mod frames;
mod free;
mod guard;
mod replace;
mod reports;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod wal_rule;

pub(crate) use buffers::{Pool, UNPINNED_FRAMES};
pub(crate) use guard::{PageRead, PageWrite, Pin};

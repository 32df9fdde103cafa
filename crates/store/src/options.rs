//! What a store is made of and how it behaves.

use crate::{PageWatcher, StoreError};
use entresol_device::Device;
use entresol_engine::Layer;
use std::sync::Arc;
use std::time::Duration;

/// Which DRAM frame goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently fixed.
    Lru,
    /// Second chance on a rotating hand, as PostgreSQL's buffer manager.
    Clock,
}

/// How a store behaves. [`Options::default`] gives 4 KiB pages and 8,192 frames.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a page: a power of two, 4 KiB ..= 32 KiB.
    pub page_bytes: u32,
    /// DRAM frames, at least 64.
    pub frames: usize,
    /// Which frame goes first.
    pub replacement: Replacement,
    /// Time between fuzzy checkpoints; `None`: only when asked, or when the log runs full.
    pub checkpoint_interval: Option<Duration>,
    /// Log a full image at a page's first change after a checkpoint (torn-page protection for a layer that
    /// writes pages in place; redo then rebuilds such a page without reading it).
    pub full_page_writes: bool,
    /// Note in the log which pages the layer has made durable, so that a restart redoes only what was lost
    /// with DRAM (end-write records; 16 bytes each). PostgreSQL has nothing of the kind.
    pub durable_notes: bool,
    /// Told of every page access, to record a trace.
    pub watcher: Option<Arc<dyn PageWatcher>>,
    /// [`Store::create`](crate::Store::create) overwrites whatever the log device holds. Otherwise it refuses
    /// a device that is neither blank nor the log of this very disk.
    pub overwrite: bool,
}

/// Fewest frames: what structure changes, one checkpoint and a few clients pin at once.
pub const MIN_FRAMES: usize = 64;

impl Default for Options {
    fn default() -> Self {
        Options {
            page_bytes: 4096,
            frames: 8192,
            replacement: Replacement::Lru,
            checkpoint_interval: None,
            full_page_writes: true,
            durable_notes: true,
            watcher: None,
            overwrite: false,
        }
    }
}

impl Options {
    /// Refuses settings that cannot work.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if !self.page_bytes.is_power_of_two() || !(4096..=32768).contains(&self.page_bytes) {
            return Err(StoreError::Config(format!(
                "page_bytes is {}; allowed are 4096, 8192, 16384 and 32768",
                self.page_bytes
            )));
        }
        if self.frames < MIN_FRAMES || self.frames > u32::MAX as usize / 2 {
            return Err(StoreError::Config(format!(
                "frames is {}; at least {MIN_FRAMES} are needed",
                self.frames
            )));
        }
        Ok(())
    }
}

/// What a store stands on.
#[derive(Clone)]
pub struct Parts {
    /// Pages: `entresol_engine`'s flash tier or its disk layer.
    pub layer: Arc<dyn Layer>,
    /// The write-ahead log's own device. If it is larger than the log on it, the next open uses all of it. A
    /// new one has at least 1 MiB and 256 pages. Three eighths are kept for rolling back what is active: with
    /// rows of 200 bytes, one transaction may insert or change rows of a thirtieth of the log's bytes, or
    /// delete rows of a thirty-fifth ([`StoreError::LogFull`](crate::StoreError::LogFull));
    /// [`Store::bulk_load`](crate::Store::bulk_load) needs hardly any.
    pub log: Arc<dyn Device>,
}

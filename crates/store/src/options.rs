//! The parts and the settings of a store.

use crate::{PageWatcher, StoreError};
use entresol_device::Device;
use entresol_engine::Layer;
use std::sync::Arc;
use std::time::Duration;

/// The order in which DRAM frames are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently fixed frame first.
    Lru,
    /// Second chance with a rotating hand, as in PostgreSQL's buffer manager.
    Clock,
}

/// What the loss of the flash costs, where pages are newer there than on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlashLoss {
    /// The database: a restart needs the flash.
    #[default]
    Fatal,
    /// A longer restart: the log is kept back to the oldest change that the disk lacks. Pages whose changes
    /// are older than about `log_bytes` of log are copied to disk before their turn.
    Survive {
        /// Bytes of log that are kept for this: at least 64 pages, at most a quarter of the log.
        log_bytes: u64,
    },
}

impl FlashLoss {
    /// The fewest and the most bytes of log that can be kept, of a log device of so many bytes.
    pub fn log_bytes_possible(page_bytes: u32, device_bytes: u64) -> (u64, u64) {
        let area = device_bytes.saturating_sub(LOG_HEAD);
        (KEPT_PAGES_MIN * u64::from(page_bytes), area / KEPT_PART)
    }

    /// Bytes of log that are kept; 0: none for this.
    pub(crate) fn log_bytes(self) -> u64 {
        match self {
            FlashLoss::Fatal => 0,
            FlashLoss::Survive { log_bytes } => log_bytes,
        }
    }
}

/// The settings of a store. [`Options::default`] gives 4 KiB pages and 8,192 frames.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a page: a power of two, 4 KiB ..= 32 KiB.
    pub page_bytes: u32,
    /// DRAM frames, at least 64.
    pub frames: usize,
    /// The order of eviction.
    pub replacement: Replacement,
    /// Time between fuzzy checkpoints. `None`: only on request, or when the log fills up.
    pub checkpoint_interval: Option<Duration>,
    /// Logs a full image at a page's first change after a checkpoint. This protects against torn pages on a
    /// layer that writes pages in place; redo then rebuilds such a page without reading it.
    pub full_page_writes: bool,
    /// Notes in the log which pages the layer has made durable, so that a restart redoes only changes that
    /// were lost with DRAM (end-write records; 16 bytes each). PostgreSQL has no such records.
    pub durable_notes: bool,
    /// What the loss of the flash costs. With [`FlashLoss::Survive`] and log placement in write-back mode,
    /// the layer must be opened with [`TierOptions::keeps_bases`](entresol_engine::TierOptions), as
    /// [`Files`](crate::Files) does.
    pub flash_loss: FlashLoss,
    /// Notified of every page access, to record a trace.
    pub watcher: Option<Arc<dyn PageWatcher>>,
    /// [`Store::create`](crate::Store::create) overwrites any content of the log device. Otherwise it refuses
    /// a device that is neither blank nor the log of this disk.
    pub overwrite: bool,
}

/// Pages of the least log that is kept for the loss of the flash.
const KEPT_PAGES_MIN: u64 = 64;
/// The part of the log that may be kept so: clients are admitted while half of the log is in use.
const KEPT_PART: u64 = 4;
/// Bytes of a log device before its circular area.
const LOG_HEAD: u64 = 8192;

/// Minimum number of frames: those pinned at once by structure modifications, one checkpoint and a few
/// clients.
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
            flash_loss: FlashLoss::Fatal,
            watcher: None,
            overwrite: false,
        }
    }
}

impl Options {
    /// Refuses invalid settings.
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
        if self.flash_loss != FlashLoss::Fatal && !self.full_page_writes {
            return Err(StoreError::Config(
                "a log that replaces a lost flash needs full_page_writes: a page may be torn on disk, and is rebuilt from its image"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Refuses a log of `area` bytes that has no room for what is to be kept of it.
    pub(crate) fn check_log(&self, area: u64) -> Result<(), StoreError> {
        let FlashLoss::Survive { log_bytes } = self.flash_loss else { return Ok(()) };
        let (least, most) = FlashLoss::log_bytes_possible(self.page_bytes, area + LOG_HEAD);
        match (least..=most).contains(&log_bytes) {
            true => Ok(()),
            false => Err(StoreError::Config(format!(
                "{log_bytes} bytes of log cannot be kept for the loss of the flash: a log of {area} bytes keeps {least} to {most}; \
                 give a larger log device, {} bytes for so many, or keep less",
                log_bytes.max(least) * KEPT_PART + LOG_HEAD
            ))),
        }
    }
}

/// The devices of a store.
#[derive(Clone)]
pub struct Parts {
    /// The pages: `entresol_engine`'s flash tier or its disk layer.
    pub layer: Arc<dyn Layer>,
    /// The write-ahead log's own device. If it is larger than the log on it, the next open uses all of it. A
    /// new one has at least 1 MiB and 256 pages. Three eighths are kept for rollbacks of active transactions.
    /// With rows of 200 bytes, one transaction may insert or change rows of a thirtieth of the log's bytes,
    /// or delete rows of a thirty-fifth ([`StoreError::LogFull`](crate::StoreError::LogFull)).
    /// [`Store::bulk_load`](crate::Store::bulk_load) needs very little.
    pub log: Arc<dyn Device>,
}

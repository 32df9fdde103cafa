//! What is told of a volume.

use super::{Cache, Volume};
use entresol_engine::{Layer, TierMetrics};
use serde::{Deserialize, Serialize};

/// A volume's state and counters since it was opened. Counters are in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// A server has it open. If not, the counters are 0.
    pub running: bool,
    /// Size of the volume, in bytes.
    pub volume_bytes: u64,
    /// Size of a page of the cache, in bytes.
    pub page_bytes: u64,
    /// The policy; `None`: there is no cache.
    pub policy: Option<String>,
    /// The mode; `None`: there is no cache.
    pub mode: Option<String>,
    /// Pages that fit into the cache.
    pub slots: u64,
    /// Pages in it.
    pub pages: u64,
    /// Pages in it that are newer than disk.
    pub dirty_pages: u64,
    /// Pages read from memory (staging).
    pub staging_hits: u64,
    /// Pages read from flash.
    pub flash_hits: u64,
    /// Pages read from disk.
    pub disk_reads: u64,
    /// Pages written to disk.
    pub disk_writes: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Pages that entered the cache after they were read from disk.
    pub populated: u64,
    /// Why the cache switched itself off, if it did.
    pub notice: Option<String>,
}

impl Volume {
    /// What the cache counts; `None`: there is none.
    pub fn metrics(&self) -> Option<TierMetrics> {
        self.cache.read().as_ref().map(|cache| cache.tier.metrics())
    }

    /// See [`VolumeStatus`].
    pub fn status(&self) -> VolumeStatus {
        let (volume_bytes, page_bytes) = (self.bytes, self.page_bytes);
        let none = VolumeStatus { running: true, volume_bytes, page_bytes, ..VolumeStatus::default() };
        let held = self.cache.read();
        let Some(Cache { tier, options, .. }) = &*held else { return none };
        let metrics = tier.metrics();
        VolumeStatus {
            policy: Some(options.policy.name().to_owned()),
            mode: Some(options.mode.name().to_owned()),
            slots: metrics.slots,
            pages: metrics.slots_valid,
            dirty_pages: tier.dirty_pages(),
            staging_hits: metrics.staging_hits,
            flash_hits: metrics.flash_hits,
            disk_reads: metrics.disk_reads,
            disk_writes: metrics.disk_writes,
            flash_writes: metrics.flash_writes,
            populated: metrics.populated,
            notice: tier.notice(),
            ..none
        }
    }
}

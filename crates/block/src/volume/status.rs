//! The report on a volume.

use super::{Cache, Volume};
use crate::steer::{Bypassed, Latency, Place};
use crate::words;
use entresol_core::PageId;
use entresol_engine::TierMetrics;
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
    /// Pages that the disk lacks since the flash failed; they are copied there while they can be read.
    #[serde(default)]
    pub missing_pages: u64,
    /// Pages whose newest versions cannot be read from flash, failed or in use: requests for them fail until
    /// they are written again as a whole.
    #[serde(default)]
    pub lost: Vec<Lost>,
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
    /// What went around the cache, and why.
    #[serde(default)]
    pub bypassed: Vec<Bypassed>,
    /// The part of the hits that is read from disk now, because flash is slower, in thousandths.
    #[serde(default)]
    pub hits_to_disk_permille: u64,
    /// Bytes that may be written to flash at once, if there is a budget.
    #[serde(default)]
    pub flash_budget_left: Option<u64>,
    /// How long requests took, by where they were served.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// The forecast for other policies and sizes, in a sentence.
    #[serde(default)]
    pub forecast: Option<String>,
    /// Whether the policy may change by itself.
    #[serde(default)]
    pub switches_policy: bool,
    /// Its last change, and why.
    #[serde(default)]
    pub switched: Option<String>,
    /// Why the cache switched itself off, if it did.
    pub notice: Option<String>,
    /// Without a server: the disk has everything and is bound to no cache. The flash device may be taken
    /// away.
    #[serde(default)]
    pub detached: bool,
    /// The owner's notices of the open.
    #[serde(default)]
    pub start_notices: Vec<String>,
    /// The journal that the disk's label names was gone when the volume was opened, or is: acknowledged
    /// writes that were not flushed may be missing.
    #[serde(default)]
    pub journal_missing: bool,
    /// Without a server: acknowledged writes of a killed one, which the next start carries out.
    #[serde(default)]
    pub journal_writes: u64,
}

/// Bytes of a volume whose newest version, on flash, cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl Lost {
    /// These pages, of so many bytes each.
    pub(crate) fn of((first, pages): &(PageId, u32), page_bytes: u64) -> Self {
        Self { offset: first.0 * page_bytes, bytes: u64::from(*pages) * page_bytes }
    }
}

impl Volume {
    /// The counters of the cache; `None`: there is no cache.
    pub fn metrics(&self) -> Option<TierMetrics> {
        self.cache.read().as_ref().map(|cache| cache.tier.metrics())
    }

    /// Records what went around the cache, and how long requests took, with the crate `metrics`, with the
    /// label `cache`.
    pub fn export_steering(&self, cache: &str) {
        let (_, permille, left) = self.steering.state();
        let name = || cache.to_owned();
        metrics::describe_gauge!(
            "entresol_block_hits_to_disk_ratio",
            "part of the hits that is read from disk now"
        );
        metrics::gauge!("entresol_block_hits_to_disk_ratio", "cache" => name()).set(permille as f64 / 1000.0);
        if let Some(left) = left {
            metrics::describe_gauge!(
                "entresol_block_flash_budget_bytes",
                "bytes that may be written to flash"
            );
            metrics::gauge!("entresol_block_flash_budget_bytes", "cache" => name()).set(left as f64);
        }
        metrics::describe_counter!("entresol_block_bypassed_total", "pages that went around the cache");
        for Bypassed { why, reads, stayed_out, writes } in self.steering.counts.by_reason() {
            for (what, pages) in [("read", reads), ("not-populated", stayed_out), ("write", writes)] {
                let labels = [("cache", name()), ("why", why.clone()), ("what", what.to_owned())];
                metrics::counter!("entresol_block_bypassed_total", &labels).absolute(pages);
            }
        }
        for place in Place::ALL {
            self.steering.counts.durations(place).export(
                place.names().1,
                "requests, by where they were served",
                cache,
            );
        }
    }

    /// See [`VolumeStatus`].
    pub fn status(&self) -> VolumeStatus {
        let (volume_bytes, page_bytes) = (self.bytes, self.page_bytes);
        let none = VolumeStatus {
            running: true,
            volume_bytes,
            page_bytes,
            start_notices: self.at_start.notices.clone(),
            journal_missing: self.at_start.journal_missing,
            ..VolumeStatus::default()
        };
        let held = self.cache.read();
        let Some(Cache { tier, options, .. }) = &*held else { return none };
        let (steer, hits_to_disk_permille, flash_budget_left) = self.steering.state();
        let metrics = tier.metrics();
        let missing = tier.missing().unwrap_or_default();
        VolumeStatus {
            policy: Some(options.policy().to_owned()),
            mode: Some(options.mode().name().to_owned()),
            slots: metrics.slots,
            pages: metrics.slots_valid,
            dirty_pages: tier.dirty_pages(),
            missing_pages: missing.pages,
            lost: missing.lost.iter().map(|range| Lost::of(range, page_bytes)).collect(),
            staging_hits: metrics.staging_hits,
            flash_hits: metrics.flash_hits,
            disk_reads: metrics.disk_reads,
            disk_writes: metrics.disk_writes,
            flash_writes: metrics.flash_writes,
            populated: metrics.populated,
            bypassed: self.steering.counts.by_reason(),
            hits_to_disk_permille,
            flash_budget_left,
            latencies: self.steering.counts.latencies(),
            forecast: Some(metrics.forecasts.sentence()),
            switches_policy: steer.switch_policy,
            switched: self.steering.followed().map(|advice| format!("to {}: {advice}", advice.to.name())),
            notice: tier.notice().map(|notice| words::of_volumes(&notice)),
            ..none
        }
    }
}

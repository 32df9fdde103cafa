//! The metrics of a volume. As the report, they are made without waiting.

use super::report::bytes_of;
use super::{Condition, Volume, VolumeStatus};
use crate::exposition::OfVolume;
use crate::steer::{Bypassed, Place};

impl Volume {
    /// All of them.
    pub(crate) fn export(&self, to: &mut OfVolume<'_>) {
        if let Some(metrics) = self.metrics() {
            metrics.each().for_each(|metric| to.metric(&metric));
        }
        self.export_state(to);
        self.export_steering(to);
    }

    fn export_state(&self, to: &mut OfVolume<'_>) {
        let (health, status) = (self.health(), self.status());
        let VolumeStatus { page_bytes, dirty_pages, dirty_pages_max, uptime_seconds, .. } = status;
        let gauges = [
            ("entresol_block_dirty_pages", "pages newer than disk, those in memory included", dirty_pages),
            (
                "entresol_block_dirty_pages_max",
                "most dirty pages that dirty_percent_max admits",
                dirty_pages_max,
            ),
            ("entresol_block_page_bytes", "bytes of a page", page_bytes),
            (
                "entresol_block_lost_without_flash_bytes",
                "bytes of acknowledged writes that would be lost if the flash were taken away now",
                status.lost_without_flash_bytes,
            ),
            (
                "entresol_block_lost_bytes",
                "bytes whose newest version on flash cannot be read: requests for them fail",
                bytes_of(&health.lost),
            ),
            (
                "entresol_block_kept_bytes",
                "bytes that the disk refuses though it takes others: they stay on flash",
                bytes_of(&health.kept),
            ),
            ("entresol_block_uptime_seconds", "seconds since the volume was opened", uptime_seconds),
            (
                "entresol_block_change_under_way",
                "1: the cache is drained, detached or changed, and requests wait",
                status.under_way.is_some().into(),
            ),
            (
                "entresol_block_journal_missing",
                "1: the journal was gone at the start, and acknowledged writes that were not flushed may be missing",
                status.journal_missing.into(),
            ),
        ];
        for (name, meaning, value) in gauges {
            to.gauge(name, meaning, &[], value as f64);
        }
        if let Some(journal) = &status.journal {
            let (bytes, used) = (journal.bytes as f64, journal.used_bytes as f64);
            to.gauge("entresol_block_journal_bytes", "room of the journal", &[], bytes);
            to.gauge("entresol_block_journal_used_bytes", "bytes of records that count", &[], used);
        }
        self.export_devices(to, &status);
    }

    fn export_devices(&self, to: &mut OfVolume<'_>, status: &VolumeStatus) {
        for device in &status.devices {
            for state in Condition::ALL {
                let labels = [("device", &*device.device), ("state", state.name())];
                let is_now = f64::from(u8::from(device.state == state));
                to.gauge("entresol_block_device_state", "1: the device is in this state", &labels, is_now);
            }
        }
        for (device, errors) in self.errors() {
            for (kind, count) in errors.each() {
                let labels = [("device", device), ("kind", kind.name())];
                let meaning = "requests to a device that failed, also those that were tried again";
                to.counter("entresol_block_device_errors_total", meaning, &labels, count);
            }
        }
    }

    /// What went around the cache, and how long requests took.
    fn export_steering(&self, to: &mut OfVolume<'_>) {
        let (_, permille, left) = self.steering.state();
        let ratio = permille as f64 / 1000.0;
        let meaning = "part of the hits that is read from disk now";
        to.gauge("entresol_block_hits_to_disk_ratio", meaning, &[], ratio);
        if let Some(left) = left {
            let meaning = "bytes that may be written to flash";
            to.gauge("entresol_block_flash_budget_bytes", meaning, &[], left as f64);
        }
        for Bypassed { why, reads, stayed_out, writes } in self.steering.counts.by_reason() {
            for (what, pages) in [("read", reads), ("not-populated", stayed_out), ("write", writes)] {
                let (labels, meaning) =
                    ([("why", &*why), ("what", what)], "pages that went around the cache");
                to.counter("entresol_block_bypassed_total", meaning, &labels, pages);
            }
        }
        for place in Place::ALL {
            let (name, durations) = (place.names().1, self.steering.counts.durations(place));
            to.histogram(name, "requests, by where they were served", &[], &durations);
        }
    }
}

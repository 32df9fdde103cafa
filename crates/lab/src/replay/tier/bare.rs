//! The disk alone: two layers (2LA). Dirty pages are written in the background, as the engine does.

use super::super::device::Device;
use super::super::pool::{Order, Pool, Victim};
use super::disk::Disk;
use super::{Fetched, Layer, Totals};
use entresol_engine::{Source, TierMetrics};
use entresol_runtime::Time;

/// No flash layer.
pub struct Bare<'t> {
    disk: Disk<'t>,
    metrics: TierMetrics,
}

impl<'t> Bare<'t> {
    /// The disk alone; `places`: the places of the pages on it.
    pub fn new(disk: Device, places: &'t [u32]) -> Self {
        Self { disk: Disk::new(disk, places), metrics: TierMetrics::default() }
    }
}

impl Layer for Bare<'_> {
    #[inline(always)]
    fn warm(&self, pages: impl Iterator<Item = u32>) -> u32 {
        pages.fold(0, |sum, page| sum ^ self.disk.place(page))
    }

    fn fetch(&mut self, page: u32, now: Time, _pool: &mut Pool<impl Order>) -> Fetched {
        self.metrics.disk_reads += 1;
        let done = self.disk.read(now, page);
        Fetched { source: Source::Disk, flags: 0, done }
    }

    fn evict(&mut self, victim: Victim, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        if !victim.dirty() {
            self.metrics.clean_evictions += 1;
            return now;
        }
        self.metrics.dirty_evictions += 1;
        self.metrics.disk_writes += 1;
        self.disk.write_behind(now, victim.page)
    }

    fn flush(&mut self, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        self.disk.flush(now)
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.disk.begin_measurement();
    }

    fn totals(&self) -> Totals {
        Totals { tier: self.metrics, disk_ns: self.disk.service_ns(), ..Totals::default() }
    }
}

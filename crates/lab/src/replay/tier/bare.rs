//! The disk alone: two layers (2LA). Dirty pages are written in the background, 64 at a time at most, as the
//! engine does.

use super::super::device::Device;
use super::super::pool::{Order, Pool, Victim};
use super::backlog::Backlog;
use super::{Fetched, Layer, Totals};
use entresol_engine::{Source, TierMetrics};
use entresol_runtime::Time;

/// Writes of pages that may be outstanding.
pub(super) const WRITES_MAX: usize = 64;

/// No flash layer.
pub struct Bare<'t> {
    disk: Device,
    /// Place of each page on disk.
    places: &'t [u32],
    writes: Backlog,
    metrics: TierMetrics,
}

impl<'t> Bare<'t> {
    /// The disk alone; `places` are where the pages lie on it.
    pub fn new(disk: Device, places: &'t [u32]) -> Self {
        Self { disk, places, writes: Backlog::new(WRITES_MAX), metrics: TierMetrics::default() }
    }
}

impl Layer for Bare<'_> {
    #[inline(always)]
    fn warm(&self, pages: impl Iterator<Item = u32>) -> u32 {
        pages.fold(0, |sum, page| sum ^ self.places[page as usize])
    }

    fn fetch(&mut self, page: u32, now: Time, _pool: &mut Pool<impl Order>) -> Fetched {
        self.metrics.disk_reads += 1;
        let done = self.disk.read(now, u64::from(self.places[page as usize]), 1);
        Fetched { source: Source::Disk, flags: 0, done }
    }

    fn evict(&mut self, victim: Victim, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        if !victim.dirty() {
            self.metrics.clean_evictions += 1;
            return now;
        }
        self.metrics.dirty_evictions += 1;
        self.metrics.disk_writes += 1;
        let now = self.writes.wait(now);
        self.writes.push(self.disk.write(now, u64::from(self.places[victim.page as usize]), 1));
        now
    }

    fn flush(&mut self, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        now
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.disk.begin_measurement();
    }

    fn totals(&self) -> Totals {
        Totals { tier: self.metrics, disk_ns: self.disk.service_ns(), ..Totals::default() }
    }
}

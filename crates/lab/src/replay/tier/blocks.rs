//! A flash cache that is its own translation layer (RFDB/WFDB, FlashTier), over a chip and in front of the
//! disk.
//!
//! Write-through: a dirty page that leaves DRAM is on disk before any client continues. What the cache does
//! to its chip meanwhile is done in the background, and the next request waits for the rest of it.
//!
//! Invariant: the cache sees pages by their places on disk, so that neighbours there are neighbours in its
//! blocks.

use super::super::device::Device;
use super::super::pool::{Order, Pool, Victim};
use super::chip::{Chip, ChipSpeed};
use super::{Fetched, Layer, Totals};
use entresol_engine::{Source, TierMetrics};
use entresol_ftl::Counters;
use entresol_ftl::cache::{BlockCache, CacheCounters, HostPage, Lookup, Measures};
use entresol_runtime::Time;

/// A cache with its chip and disk.
pub struct Blocks<'t> {
    cache: Box<dyn BlockCache>,
    chip: Chip,
    control_ns: u64,
    disk: Device,
    /// Place of each page on disk.
    places: &'t [u32],
    /// What the chip's times have been taken of.
    timed: Counters,
    metrics: TierMetrics,
    /// Where this measurement began.
    cache_before: CacheCounters,
    chip_before: Counters,
}

impl<'t> Blocks<'t> {
    /// `cache` over a chip of that speed; `places`: the places of the pages on `disk`.
    pub fn new(cache: Box<dyn BlockCache>, speed: ChipSpeed, disk: Device, places: &'t [u32]) -> Self {
        Self {
            cache,
            chip: Chip::new(speed),
            control_ns: speed.latencies.control.as_nanos() as u64,
            disk,
            places,
            timed: Counters::default(),
            metrics: TierMetrics::default(),
            cache_before: CacheCounters::default(),
            chip_before: Counters::default(),
        }
    }

    fn place(&self, page: u32) -> HostPage {
        HostPage(self.places[page as usize])
    }

    /// What the chip has done since this was asked last.
    fn done(&mut self) -> Counters {
        let now = self.cache.chip().counters();
        now - std::mem::replace(&mut self.timed, now)
    }

    /// What the cache and its chip did in this measurement.
    fn counted(&self) -> (CacheCounters, Counters) {
        (self.cache.counters() - self.cache_before, self.cache.chip().counters() - self.chip_before)
    }
}

impl Layer for Blocks<'_> {
    fn fetch(&mut self, page: u32, now: Time, _pool: &mut Pool<impl Order>) -> Fetched {
        let place = self.place(page);
        let (source, done) = match self.cache.fetch(place) {
            Lookup::Buffered => {
                self.metrics.staging_hits += 1;
                (Source::Flash, Time(now.0 + self.control_ns))
            }
            Lookup::Flash => {
                self.metrics.flash_hits += 1;
                let read = self.done();
                (Source::Flash, self.chip.foreground(now, &read))
            }
            Lookup::Absent => {
                self.metrics.disk_reads += 1;
                let population = self.cache.population(place);
                let read = self.disk.read(now, u64::from(population.start), population.len() as u32);
                self.cache.arrived(place);
                let written = self.done();
                (Source::Disk, self.chip.background(read, &written))
            }
        };
        Fetched { source, flags: 0, done }
    }

    fn evict(&mut self, victim: Victim, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        if !victim.dirty() {
            self.metrics.clean_evictions += 1;
            return now;
        }
        self.metrics.dirty_evictions += 1;
        self.metrics.disk_writes += 1;
        let place = self.place(victim.page);
        let on_disk = self.disk.write(now, u64::from(place.0), 1);
        self.cache.evict(place);
        let written = self.done();
        on_disk.max(self.chip.background(now, &written))
    }

    fn flush(&mut self, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        now
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.cache_before = self.cache.counters();
        self.chip_before = self.cache.chip().counters();
        self.chip.begin_measurement();
        self.disk.begin_measurement();
    }

    fn totals(&self) -> Totals {
        let (cache, chip) = self.counted();
        let unit_pages = u64::from(self.cache.sizes().unit_pages);
        let tier = TierMetrics {
            flash_writes: chip.host_writes / unit_pages,
            dequeue_reads: chip.host_reads / unit_pages - self.metrics.flash_hits,
            second_chances: cache.returned,
            decision_hash: self.cache.decision_hash(),
            ..self.metrics
        };
        Totals {
            tier,
            flash_ns: self.chip.service_ns(),
            disk_ns: self.disk.service_ns(),
            copied: Some(chip.copies / unit_pages),
            collections: Some(Measures::of(&cache, &chip, unit_pages as u32).gc_count),
            read_ahead: cache.disk_reads - self.metrics.disk_reads,
            chip: Some((cache, chip)),
            exchanged: Vec::new(),
        }
    }
}

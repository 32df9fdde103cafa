//! SCE's cache of fragments below a database: the core's [`Fragments`] with its devices and population workers.
//!
//! Pages go by their places on disk, so that neighbours there are neighbours in a fragment. A population reads its fragment
//! from disk and writes it to flash, in one piece each, and both devices serve nobody else meanwhile; it takes effect when
//! both are done. A page that is written goes to disk, and to flash too if its fragment is mapped; nobody waits for that
//! until too many writes are outstanding.
//!
//! Invariant: this is the one tier whose decisions depend on time: which worker is free, and so what is populated, follows
//! from the devices' speed. It is virtual time, so equal runs are equal.

use super::super::device::Device;
use super::super::pool::Departed;
use super::backlog::Backlog;
use super::bare::WRITES_MAX;
use super::{Above, Fetched, Source, Tier, Totals};
use entresol_core::{Fragments, PageId, Population, WritePath};
use entresol_engine::TierMetrics;
use entresol_runtime::Time;

/// A cache of fragments with its devices.
pub struct Fragmented<'t> {
    cache: Fragments<'t>,
    flash: Device,
    disk: Device,
    /// Place of each page on disk.
    places: &'t [u32],
    writes: Backlog,
    /// Writes under way, with the times at which they are over.
    writing: Vec<(u32, WritePath, Time)>,
    /// Populations under way, likewise.
    populating: Vec<(Population, Time)>,
    metrics: TierMetrics,
    /// Pages that populations read from disk while it was measured.
    read_ahead: u64,
}

impl<'t> Fragmented<'t> {
    /// `cache` on `flash`, in front of `disk`; `places` are where pages lie on disk, and their numbers on the volume.
    pub fn new(cache: Fragments<'t>, (flash, disk): (Device, Device), places: &'t [u32]) -> Self {
        Self {
            cache,
            flash,
            disk,
            places,
            writes: Backlog::new(WRITES_MAX),
            writing: Vec::new(),
            populating: Vec::new(),
            metrics: TierMetrics::default(),
            read_ahead: 0,
        }
    }

    fn place(&self, page: u32) -> u32 {
        self.places[page as usize]
    }

    /// What is over by `now`, in any order.
    fn settle(&mut self, now: Time) {
        let mut at = 0;
        while at < self.writing.len() {
            if self.writing[at].2 > now {
                at += 1;
                continue;
            }
            let (place, path, _) = self.writing.swap_remove(at);
            self.cache.write_done(PageId::new(0, place), path, true);
        }
        at = 0;
        while at < self.populating.len() {
            if self.populating[at].1 > now {
                at += 1;
                continue;
            }
            let (population, _) = self.populating.swap_remove(at);
            self.cache.populated(population.ticket, true);
        }
    }

    /// Gives free workers something to do.
    fn populate(&mut self, now: Time) {
        while let Some(population) = self.cache.next_population() {
            let Population { first, pages, slot, .. } = population;
            let read = self.disk.read(now, first.number().into(), pages);
            let written = self.flash.write(read, slot.0.into(), pages);
            self.read_ahead += u64::from(pages);
            self.metrics.populated += u64::from(pages);
            self.metrics.flash_writes += u64::from(pages);
            self.populating.push((population, written));
        }
    }

    /// When the write of `place` that is under way is over.
    fn written(&self, place: u32) -> Option<Time> {
        self.writing.iter().find(|(writing, ..)| *writing == place).map(|(_, _, end)| *end)
    }
}

impl Tier for Fragmented<'_> {
    fn fetch(&mut self, page: u32, now: Time, _above: &mut impl Above) -> Fetched {
        self.settle(now);
        let place = self.place(page);
        let found = match self.cache.fetch(PageId::new(0, place)) {
            Some(slot) => {
                self.metrics.flash_hits += 1;
                let done = self.flash.read(now, slot.0.into(), 1);
                Fetched { source: Source::Flash, flags: 0, done }
            }
            None => {
                self.metrics.disk_reads += 1;
                Fetched { source: Source::Disk, flags: 0, done: self.disk.read(now, place.into(), 1) }
            }
        };
        self.populate(now);
        found
    }

    fn evict(&mut self, departed: Departed, now: Time, _above: &mut impl Above) -> Time {
        if !departed.dirty() {
            self.metrics.clean_evictions += 1;
            return now;
        }
        self.metrics.dirty_evictions += 1;
        let place = self.place(departed.page);
        // The database has one write of a page under way at a time.
        let mut now = self.writes.wait(now.max(self.written(place).unwrap_or(now)));
        self.settle(now);
        let path = loop {
            match self.cache.write(PageId::new(0, place)) {
                WritePath::Wait => {
                    let first = self.writing.iter().map(|(_, _, end)| *end).min();
                    now = first.expect("writes are under way, or there would be no wait");
                    self.settle(now);
                }
                path => break path,
            }
        };
        self.metrics.disk_writes += 1;
        let mut end = self.disk.write(now, place.into(), 1);
        if let WritePath::Through(slot) = path {
            self.metrics.flash_writes += 1;
            end = end.max(self.flash.write(now, slot.0.into(), 1));
        }
        self.writing.push((place, path, end));
        self.writes.push(end);
        self.populate(now);
        now
    }

    fn flush(&mut self, now: Time, _above: &mut impl Above) -> Time {
        now
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.read_ahead = 0;
        self.flash.begin_measurement();
        self.disk.begin_measurement();
    }

    fn totals(&self) -> Totals {
        let (config, occupancy) = (self.cache.config(), self.cache.occupancy());
        let pages = |fragments: u32| u64::from(fragments) * u64::from(config.fragment_pages);
        let tier = TierMetrics {
            slots: pages(occupancy.slots),
            slots_valid: pages(occupancy.mapped),
            decision_hash: self.cache.decision_hash(),
            disk_reads: self.metrics.disk_reads + self.read_ahead,
            ..self.metrics
        };
        Totals {
            tier,
            flash_ns: self.flash.service_ns(),
            disk_ns: self.disk.service_ns(),
            ..Totals::default()
        }
    }
}

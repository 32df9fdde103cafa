//! SCE's cache of fragments below a database: the core's [`Fragments`] with its devices and population
//! workers.
//!
//! Pages go by their places on disk, so that neighbours there are neighbours in a fragment. A population
//! reads its fragment from disk and writes it to flash, in one piece each, and both devices serve no other
//! request meanwhile; it takes effect when both are done, and its worker looks for the next one at once. A
//! page that is written goes to disk, and to flash too if its fragment is mapped; no client waits for that
//! until too many writes are outstanding.
//!
//! Invariants: what ends takes effect in the order of the ends. This is the one tier whose decisions depend
//! on time: which worker is free, and so what is populated, follows from the devices' speed. It is virtual
//! time, so equal runs are equal.

use super::super::device::Device;
use super::super::pool::{Order, Pool, Victim};
use super::backlog::{Backlog, WRITES_MAX};
use super::drive::Drive;
use super::{Fetched, Layer, Totals};
use entresol_core::{Fragments, PageId, Population, SlotId, WritePath};
use entresol_engine::{Source, TierMetrics};
use entresol_runtime::Time;
use std::collections::BTreeMap;

/// What is under way.
enum Work {
    /// A page, by its place, is being written.
    Write(u32, WritePath),
    Population(Population),
}

/// A cache of fragments with its devices.
pub struct Fragmented<'t> {
    cache: Fragments<'t>,
    flash: Device,
    disk: Device,
    /// Place of each page on disk.
    places: &'t [u32],
    writes: Backlog,
    /// What is under way, by the time at which it is over and by when it began.
    work: BTreeMap<(Time, u64), Work>,
    begun: u64,
    drive: Drive,
    metrics: TierMetrics,
    /// Pages that populations read from disk while it was measured.
    read_ahead: u64,
}

impl<'t> Fragmented<'t> {
    /// `cache` on `flash`, in front of `disk`; `places`: the places of pages on disk, and their numbers on
    /// the volume.
    pub fn new(cache: Fragments<'t>, (flash, disk): (Device, Device), places: &'t [u32]) -> Self {
        let config = cache.config();
        Self {
            cache,
            flash,
            disk,
            places,
            writes: Backlog::new(WRITES_MAX),
            work: BTreeMap::new(),
            begun: 0,
            drive: Drive::new(config.slots * config.fragment_pages),
            metrics: TierMetrics::default(),
            read_ahead: 0,
        }
    }

    fn place(&self, page: u32) -> u32 {
        self.places[page as usize]
    }

    fn begin(&mut self, end: Time, work: Work) {
        self.work.insert((end, self.begun), work);
        self.begun += 1;
    }

    /// Lets what is over by `now` take effect.
    fn settle(&mut self, now: Time) {
        while let Some(first) = self.work.first_entry().filter(|first| first.key().0 <= now) {
            let ((end, _), work) = first.remove_entry();
            match work {
                Work::Write(place, path) => self.cache.write_done(PageId::new(0, place), path, true),
                Work::Population(population) => self.cache.populated(population.ticket, true),
            }
            self.populate(end);
        }
    }

    /// Gives free workers something to do.
    fn populate(&mut self, now: Time) {
        while let Some(population) = self.cache.next_population() {
            let Population { first, pages, copy, .. } = population;
            let read = self.disk.read(now, first.number().into(), pages);
            let written = self.flash.write(read, copy.slot.0.into(), pages);
            (0..pages).for_each(|page| self.drive.write(SlotId(copy.slot.0 + page)));
            self.read_ahead += u64::from(pages);
            self.metrics.populated += u64::from(pages);
            self.metrics.flash_writes += u64::from(pages);
            self.begin(written, Work::Population(population));
        }
    }

    /// When the write of `place` that is under way is over, or the first write of all.
    fn written(&self, place: Option<u32>) -> Option<Time> {
        let wanted =
            |work: &Work| matches!(work, Work::Write(at, _) if place.is_none_or(|place| place == *at));
        self.work.iter().find(|(_, work)| wanted(work)).map(|((end, _), _)| *end)
    }
}

impl Layer for Fragmented<'_> {
    fn fetch(&mut self, page: u32, now: Time, _pool: &mut Pool<impl Order>) -> Fetched {
        self.settle(now);
        let place = self.place(page);
        let found = match self.cache.fetch(PageId::new(0, place)) {
            Some(copy) => {
                self.metrics.flash_hits += 1;
                let done = self.flash.read(now, copy.slot.0.into(), 1);
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

    fn evict(&mut self, victim: Victim, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        if !victim.dirty() {
            self.metrics.clean_evictions += 1;
            return now;
        }
        self.metrics.dirty_evictions += 1;
        let place = self.place(victim.page);
        // The database has one write of a page under way at a time.
        let mut now = self.writes.wait(now.max(self.written(Some(place)).unwrap_or(now)));
        self.settle(now);
        let path = loop {
            match self.cache.write(PageId::new(0, place)) {
                WritePath::Wait => {
                    now = self.written(None).expect("writes are under way, or there would be no wait");
                    self.settle(now);
                }
                path => break path,
            }
        };
        self.metrics.disk_writes += 1;
        let mut end = self.disk.write(now, place.into(), 1);
        if let WritePath::Through(copy) = path {
            self.metrics.flash_writes += 1;
            self.drive.write(copy.slot);
            end = end.max(self.flash.write(now, copy.slot.0.into(), 1));
        }
        self.begin(end, Work::Write(place, path));
        self.writes.push(end);
        // On devices that take no time it is over already.
        self.settle(now);
        now
    }

    fn flush(&mut self, now: Time, _pool: &mut Pool<impl Order>) -> Time {
        now
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.read_ahead = 0;
        self.drive.begin_measurement();
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
            ..self.metrics
        };
        let (flash_ns, disk_ns) = (self.flash.service_ns(), self.disk.service_ns());
        let read_ahead = self.read_ahead;
        self.drive.complete(Totals { tier, flash_ns, disk_ns, read_ahead, ..Totals::default() })
    }
}

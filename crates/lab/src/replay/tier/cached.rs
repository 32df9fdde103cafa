//! A flash cache: the core's partition, driven as the engine drives it, with every job done at once.
//!
//! The order of jobs is the engine's with one writer and one background task: all writes, then background
//! jobs until there is none, and again. A test drives both with one trace and compares their decision hashes.
//!
//! Invariant: `dense_of_slot` names the page in each occupied slot, so that no page id is ever
//! looked up.

mod copies;

use super::super::device::Device;
use super::super::pool::{DIRTY, FDIRTY, Order, Pool, Victim};
use super::backlog::Backlog;
use super::beside::Beside;
use super::disk::Disk;
use super::drive::Drive;
use super::{Fetched, Layer, Totals};
use copies::{COPIES_MAX, copy_of};
use entresol_core::{
    Admission, CleanPage, Config, Costs, DequeuePage, Fate, FrameId, Job, Lookup, Lsn, Mode, PageId,
    Partition, Placement, Position, Route, SlotId, Taken, Ticket,
};
use entresol_engine::{Source, TierMetrics};
use entresol_runtime::Time;

/// Dequeues that may be outstanding with log placement, as many as the core starts.
const DEQUEUES_LOG: usize = 8;
/// Pages carry no log sequence numbers here.
const NO_LSN: Lsn = Lsn(1);

/// A partition with its devices.
pub struct Cached<'t> {
    partition: Partition<'t>,
    config: Config,
    mode: Mode,
    flash: Device,
    disk: Disk<'t>,
    /// Page id of each dense page.
    ids: &'t [u64],
    dense_of_slot: Vec<u32>,
    dense_of_frame: Vec<u32>,
    copies: Vec<(CleanPage, Option<Ticket>)>,
    writes: Backlog,
    destages: Backlog,
    /// What the devices cost of late.
    costs: Costs,
    metrics: TierMetrics,
    drive: Drive,
    /// The cache's companions: shadows and budget.
    pub beside: Beside<'t>,
}

impl<'t> Cached<'t> {
    /// An empty cache over `partition`. `ids` and `places`: page id and place on disk of each dense page.
    pub fn new(
        partition: Partition<'t>,
        (mode, costs): (Mode, Costs),
        (flash, disk): (Device, Device),
        ids: &'t [u64],
        places: &'t [u32],
    ) -> Self {
        let config = partition.config();
        let is_log = config.policy.placement() == Placement::Log;
        Self {
            config,
            mode,
            flash,
            disk: Disk::new(disk, places),
            ids,
            dense_of_slot: vec![0; config.slots as usize],
            dense_of_frame: vec![0; config.staging_pages() as usize],
            copies: Vec::with_capacity(COPIES_MAX),
            writes: Backlog::of_writes(&config),
            destages: Backlog::new(if is_log { DEQUEUES_LOG } else { COPIES_MAX }),
            costs,
            metrics: TierMetrics::default(),
            drive: Drive::new(config.slots),
            beside: Beside::default(),
            partition,
        }
    }

    fn id(&self, page: u32) -> PageId {
        PageId(self.ids[page as usize])
    }

    /// Offers a page to the partition; does what is to be done while there is no room.
    fn offer(&mut self, victim: Victim, dirty: bool, now: Time, pool: &mut Pool<impl Order>) -> Admitted {
        let id = self.id(victim.page);
        let mut attempts = 0;
        loop {
            match self.partition.evict(id, NO_LSN, dirty, victim.fdirty()) {
                Admission::AlreadyThere => {
                    self.metrics.already_on_flash += 1;
                    return Admitted { work: false, now };
                }
                Admission::Full => {
                    self.work(now, pool);
                    attempts += 1;
                    assert!(attempts < 1000, "room is made when all jobs are done");
                }
                Admission::Bypass { .. } => {
                    let now = if dirty { self.bypass(now, victim.page) } else { now };
                    return Admitted { work: false, now };
                }
                Admission::Stage { frame, position } => {
                    let work = self.stage(frame, position, victim.page);
                    return Admitted { work, now };
                }
            }
        }
    }

    /// Fills a frame with `page`; says whether there may be jobs now.
    fn stage(&mut self, frame: FrameId, position: Position, page: u32) -> bool {
        self.dense_of_frame[frame.0 as usize] = page;
        self.partition.staged(frame);
        self.partition.write_due(frame) || self.begins_group(position)
    }

    /// A changed page is written to disk alone.
    fn bypass(&mut self, now: Time, page: u32) -> Time {
        self.metrics.bypassed += 1;
        self.metrics.disk_writes += 1;
        self.disk.write_behind(now, page)
    }

    /// `page` has come from disk: takes a copy, if the policy will have it.
    fn populate(&mut self, page: u32, now: Time, pool: &mut Pool<impl Order>) {
        let populates = self.config.policy.populates() && self.mode.populates();
        let id = self.id(page);
        let Some(slots) = self.partition.slots_mut().filter(|_| populates) else { return };
        match slots.arrived(id) {
            Admission::Stage { frame, position } => {
                self.metrics.populated += 1;
                if self.stage(frame, position, page) {
                    self.work(now, pool);
                }
            }
            Admission::Full => {
                self.metrics.population_dropped += 1;
                self.work(now, pool);
            }
            Admission::AlreadyThere | Admission::Bypass { .. } => {}
        }
    }

    /// The partition forgets every copy of `page`.
    fn forget(&mut self, page: u32, now: Time, pool: &mut Pool<impl Order>) {
        let id = self.id(page);
        while self.partition.slots_mut().is_some_and(|slots| slots.bypass(id) == Admission::Full) {
            self.work(now, pool);
        }
    }

    /// Flags of a page's frame after a fetch from flash or staging; an exclusive policy gives up its copy.
    fn went_up(&mut self, page: u32, dirty: bool) -> u8 {
        let flags = if dirty { DIRTY } else { 0 };
        if !self.config.policy.exclusive() {
            return flags;
        }
        let id = self.id(page);
        match self.partition.slots_mut().map_or(Taken::Copied, |slots| slots.taken(id)) {
            Taken::Copied => flags,
            Taken::Moved { dirty } => {
                self.metrics.moved_up += 1;
                if dirty { DIRTY | FDIRTY } else { 0 }
            }
        }
    }

    /// Whether the engine would look for background jobs now.
    fn begins_group(&self, position: Position) -> bool {
        position.0.is_multiple_of(u64::from(self.config.group_pages))
    }

    /// Does all that is to be done.
    fn work(&mut self, now: Time, pool: &mut Pool<impl Order>) {
        loop {
            self.write_all(now);
            if !self.background(now, pool) {
                return;
            }
        }
    }

    fn write_all(&mut self, now: Time) {
        while let Some(job) = self.partition.next_write() {
            let Job::Write { ticket, pages, one_io, completes_group } = job else {
                unreachable!("these are write jobs")
            };
            for page in pages.iter().filter(|page| page.page.is_some()) {
                self.dense_of_slot[page.slot.0 as usize] = self.dense_of_frame[page.frame.0 as usize];
                self.metrics.flash_writes += 1;
                self.drive.write(page.slot);
            }
            // A group's summary records the front, as it is when the write begins.
            let front = self.partition.window().0;
            let mut done = now;
            if one_io {
                let written = self.flash.write(now, u64::from(pages[0].slot.0), pages.len() as u32);
                done = self.flash.sync(written);
            } else {
                for page in pages.iter().filter(|page| page.page.is_some()) {
                    done = self.flash.write(now, u64::from(page.slot.0), 1);
                }
            }
            self.writes.push(done);
            if let (true, Some(log)) = (completes_group, self.partition.log_mut()) {
                log.front_is_durable(front);
            }
            self.partition.written(ticket, &pages);
        }
    }

    /// Does background jobs until there is none; says whether there was one.
    fn background(&mut self, now: Time, pool: &mut Pool<impl Order>) -> bool {
        let mut any = false;
        while let Some(job) = self.partition.next_background() {
            any = true;
            match job {
                Job::PullVictims(wanted) => self.pull(wanted, now, pool),
                Job::Dequeue { ticket, pages, one_io } if self.is_log() => {
                    self.dequeue(ticket, &pages, one_io, now, pool);
                }
                Job::Dequeue { ticket, pages, .. } => {
                    self.copy_some(copy_of(&pages[0]), Some(ticket), now, pool);
                }
                Job::Clean(page) => self.copy_some(page, None, now, pool),
                Job::Write { .. } => unreachable!("next_background gives no write jobs"),
            }
        }
        any
    }

    fn is_log(&self) -> bool {
        self.config.policy.placement() == Placement::Log
    }

    /// Takes the coldest pages of DRAM, as far as possible without waiting.
    fn pull(&mut self, wanted: u32, now: Time, pool: &mut Pool<impl Order>) {
        for _ in 0..pool.room_to_pull(wanted) {
            let Some(victim) = pool.take_coldest() else { return };
            let route = self.mode.route(victim.dirty(), victim.fdirty());
            if route != Route::Flash || !self.offer_once(victim, now) {
                pool.put_back(victim);
                return;
            }
            self.metrics.pulled += 1;
            self.beside.evict(self.id(victim.page), self.mode, victim);
        }
    }

    /// Offers a page without waiting; says whether it was taken, by flash or disk.
    fn offer_once(&mut self, victim: Victim, now: Time) -> bool {
        let id = self.id(victim.page);
        match self.partition.evict(id, NO_LSN, victim.dirty(), victim.fdirty()) {
            Admission::AlreadyThere => self.metrics.already_on_flash += 1,
            Admission::Stage { frame, .. } => {
                self.dense_of_frame[frame.0 as usize] = victim.page;
                self.partition.staged(frame);
            }
            Admission::Bypass { .. } if victim.dirty() => _ = self.bypass(now, victim.page),
            Admission::Bypass { .. } => {}
            Admission::Full => return false,
        }
        self.count_eviction(victim);
        true
    }

    fn count_eviction(&mut self, victim: Victim) {
        if victim.dirty() && victim.fdirty() {
            self.metrics.dirty_evictions += 1;
        } else {
            self.metrics.clean_evictions += 1;
        }
    }

    /// Log placement: a group leaves.
    fn dequeue(
        &mut self,
        ticket: Ticket,
        pages: &[DequeuePage],
        one_io: bool,
        now: Time,
        pool: &mut Pool<impl Order>,
    ) {
        let needed = |page: &&DequeuePage| page.page.is_some() && page.fate != Fate::Drop;
        let mut read = now;
        let count = pages.iter().filter(needed).count();
        if let (Some(first), Some(last)) = (pages.iter().find(needed), pages.iter().rfind(needed)) {
            self.metrics.dequeue_reads += count as u64;
            if one_io {
                let span = last.slot.0 - first.slot.0 + 1;
                read = self.flash.read(now, u64::from(first.slot.0), span);
            } else {
                for page in pages.iter().filter(needed) {
                    read = read.max(self.flash.read(now, u64::from(page.slot.0), 1));
                }
            }
        }
        for page in pages.iter().filter(|page| page.page.is_some() && page.fate == Fate::SecondChance) {
            self.restage(ticket, page, now);
        }
        for page in pages.iter().filter(|page| page.page.is_some() && page.fate == Fate::Destage) {
            self.destage(page.slot, pool);
        }
        let done = self.disk.write_batch(read);
        self.destages.push(done);
        self.partition.dequeued(ticket);
    }

    fn restage(&mut self, ticket: Ticket, page: &DequeuePage, now: Time) {
        while let Some(log) = self.partition.log_mut() {
            match log.restage(ticket, page, NO_LSN) {
                Admission::AlreadyThere => return,
                Admission::Full | Admission::Bypass { .. } => self.write_all(now),
                Admission::Stage { frame, .. } => {
                    self.dense_of_frame[frame.0 as usize] = self.dense_of_slot[page.slot.0 as usize];
                    self.partition.staged(frame);
                    self.metrics.second_chances += 1;
                    return;
                }
            }
        }
    }

    /// The page in `slot` is among those that [`Disk::write_batch`] writes.
    fn destage(&mut self, slot: SlotId, pool: &mut Pool<impl Order>) {
        let page = self.dense_of_slot[slot.0 as usize];
        pool.destaged(page);
        self.metrics.disk_writes += 1;
        self.disk.add(page);
    }

    /// Goes on as the cache `config`, which finds the pages of this one.
    fn exchange(&mut self, config: Config, now: Time, pool: &mut Pool<impl Order>) {
        self.work(now, pool);
        self.partition.close_group();
        self.write_all(now);
        self.partition = self.beside.successor(&config, self.mode, &self.partition);
        (self.config, self.writes) = (config, Backlog::of_writes(&config));
    }

    /// Takes a page from DRAM. Returns when its frame is free, and whether there may be jobs now.
    fn take(&mut self, victim: Victim, now: Time, pool: &mut Pool<impl Order>) -> Admitted {
        self.count_eviction(victim);
        let dirty = victim.dirty();
        match self.mode.route(dirty, victim.fdirty()) {
            Route::Around { forget, write } => {
                if forget {
                    self.forget(victim.page, now, pool);
                }
                let now = if write { self.bypass(now, victim.page) } else { now };
                Admitted { work: false, now }
            }
            Route::DiskThenFlash => {
                self.metrics.disk_writes += 1;
                let now = self.disk.write(now, victim.page);
                self.offer(victim, false, now, pool)
            }
            Route::Flash => self.offer(victim, dirty, now, pool),
        }
    }
}

/// What became of a page that was offered.
struct Admitted {
    /// There may be jobs now.
    work: bool,
    /// When the page's frame is free.
    now: Time,
}

impl Layer for Cached<'_> {
    fn fetch(&mut self, page: u32, now: Time, pool: &mut Pool<impl Order>) -> Fetched {
        let (id, written) = (self.id(page), self.metrics.flash_writes);
        if let Some(config) = self.beside.fetch(id, now, written, &mut self.partition) {
            self.exchange(config, now, pool);
        }
        match self.partition.fetch(id) {
            Lookup::Staged { dirty, .. } => {
                self.metrics.staging_hits += 1;
                Fetched { source: Source::Staging, flags: self.went_up(page, dirty), done: now }
            }
            Lookup::Flash { slot, dirty, .. } => {
                self.metrics.flash_hits += 1;
                let done = self.flash.read(now, u64::from(slot.0), 1);
                Fetched { source: Source::Flash, flags: self.went_up(page, dirty), done }
            }
            Lookup::Absent => {
                if self.config.policy.learns_from_misses() {
                    self.partition.missed(id);
                }
                self.metrics.disk_reads += 1;
                let done = self.disk.read(now, page);
                if let Some(costs) = self.disk.costs(self.costs) {
                    self.costs = costs;
                    self.beside.set_costs(&costs, &mut self.partition);
                }
                self.populate(page, done, pool);
                Fetched { source: Source::Disk, flags: 0, done }
            }
        }
    }

    fn evict(&mut self, victim: Victim, now: Time, pool: &mut Pool<impl Order>) -> Time {
        self.beside.evict(self.id(victim.page), self.mode, victim);
        let Admitted { work, now } = self.take(victim, now, pool);
        if work {
            self.work(now, pool);
        }
        self.destages.wait(self.writes.wait(now))
    }

    fn flush(&mut self, now: Time, pool: &mut Pool<impl Order>) -> Time {
        self.partition.close_group();
        self.work(now, pool);
        let (mut done, mut from) = (self.disk.flush(now), SlotId(0));
        if self.is_log() {
            return done;
        }
        while let Some(Ok(page)) = self.partition.slots_mut().and_then(|slots| slots.sweep(from)) {
            from = SlotId(page.slot.0 + 1);
            self.metrics.dequeue_reads += 1;
            done = done.max(self.flash.read(now, u64::from(page.slot.0), 1));
            self.destage(page.slot, pool);
            self.partition.cleaned(&page);
        }
        self.disk.write_batch(done)
    }

    fn bring_to_disk(&mut self, number: u64, parts: u32, now: Time, pool: &mut Pool<impl Order>) -> u64 {
        self.copy_based_before(number, parts, now, pool)
    }

    fn horizon(&mut self, now: Time, pool: &mut Pool<impl Order>) -> u64 {
        self.partition.close_group();
        self.work(now, pool);
        self.partition.log_mut().map_or(u64::MAX, |log| log.horizon())
    }

    fn checkpoint_complete(&mut self, number: u64) {
        let log = self.partition.log_mut().filter(|log| log.keeps_bases());
        let goes_on = log.is_none_or(|log| log.checkpoint_complete(number));
        assert!(goes_on, "pages that are too old were copied before");
    }

    fn begin_measurement(&mut self) {
        self.metrics = TierMetrics::default();
        self.beside.begin_measurement();
        self.drive.begin_measurement();
        self.flash.begin_measurement();
        self.disk.begin_measurement();
    }

    fn totals(&self) -> Totals {
        let occupancy = self.partition.occupancy();
        let tier = TierMetrics {
            slots_valid: occupancy.valid.into(),
            slots_superseded: occupancy.superseded.into(),
            slots_dirty: occupancy.dirty.into(),
            slots: occupancy.slots.into(),
            decision_hash: self.partition.decision_hash(),
            forecasts: self.beside.forecasts(),
            ..self.metrics
        };
        let exchanged = self.beside.exchanged();
        let (flash_ns, disk_ns) = (self.flash.service_ns(), self.disk.service_ns());
        self.drive.complete(Totals { tier, flash_ns, disk_ns, exchanged, ..Totals::default() })
    }
}

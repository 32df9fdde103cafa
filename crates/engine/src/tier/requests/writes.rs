//! Writes of pages: evictions of a buffer pool, and runs of adjacent pages of an owner without one.
//!
//! Invariants:
//!
//! - A dirty page is never dropped. It is in staging, on flash or on disk, or the caller gets an error.
//! - Each page of a run is written as [`Layer::evict`](crate::Layer::evict) would, in any order.
//! - A write past the flash has no older version on flash afterwards, not even one for a crash to find. A
//!   page that is dirty in the cache is written there: of its version on flash there is no other copy.

use super::way::{Kind, Placement, Way, way};
use crate::access::{Access, Offered, RUN_PAGES_MAX};
use crate::api::{Evicted, Victim};
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::dirt::Dirt;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::entry::Entry;
use crate::tier::floor::turns::{Passing, Turns};
use crate::tier::room::Room;
use crate::{TierError, points};
use entresol_core::{Lsn, Mode, PageId, Route};
use entresol_device::{DeviceError, WritePlace};
use entresol_runtime::now;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Writes {
    access: Arc<Access>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    entry: Arc<Entry>,
    trouble: Arc<DiskTrouble>,
    dirt: Arc<Dirt>,
    turns: Option<Arc<Turns>>,
    room: Room,
    kind: Kind,
}

/// A write past the flash that its caller carries out.
pub(crate) struct Around {
    passing: Passing,
    pub place: WritePlace,
}

/// A page of an owner without a log.
fn changed(page: PageId) -> Victim {
    Victim { page, lsn: Lsn(0), dirty: true, fdirty: true }
}

impl Writes {
    pub(crate) fn new(floor: &Floor, room: &Room) -> Self {
        let placement = match room {
            Room::Ring(_) => Placement::Ring,
            Room::Slots(slots) if slots.upkeep.is_some() => Placement::SlotsWithDirectory,
            Room::Slots(_) => Placement::Slots,
        };
        Self {
            access: floor.access.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            entry: floor.entry.clone(),
            trouble: floor.trouble.clone(),
            dirt: floor.dirt.clone(),
            turns: floor.turns.clone(),
            room: room.clone(),
            kind: Kind { has_no_log_above: floor.turns.is_some(), placement },
        }
    }

    pub(crate) fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.disk.check_victim(victim.page, data)?;
        let route = self.route(&victim, data)?;
        let evicted = match way(route, victim.dirty, self.kind) {
            Way::Flash if self.kind.has_no_log_above => self.to_flash(victim, data)?,
            Way::Flash => self.entry.take(victim, data)?,
            Way::DiskThenFlash => {
                self.disk_writes.write(victim.page, data)?;
                self.entry.take(Victim { dirty: false, ..victim }, data)?
            }
            Way::DiskThenFlashWithDirectory => match self.room.upkeep() {
                Some(upkeep) if self.access.signals.check_running()? => upkeep.take(victim, data)?,
                _ => self.entry.take(victim, data)?,
            },
            Way::InTurn { around } => {
                self.room.write_through(&[(victim.page, data)], around)?;
                Evicted { dirty: false }
            }
            Way::PastRing { write } => self.room.write_around_ring(victim, write, data)?,
            Way::PastSlots { forget, write } => {
                if forget {
                    self.room.forget_in_slots(victim.page)?;
                }
                self.entry.bypass(victim, write, data)?
            }
        };
        self.access.board.tallies.evicted(victim.dirty, victim.fdirty);
        Ok(evicted)
    }

    /// A page enters the flash. If there is no room since the disk refuses what is to leave, a new page goes
    /// to disk instead. A page with a copy on flash has an error then: the copy could not be replaced.
    fn to_flash(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let _entering = if victim.dirty { Some(self.dirt.enter()?) } else { None };
        let is_new = || Ok::<bool, TierError>(victim.dirty && !self.access.cached.has(victim.page)?);
        if !self.trouble.is_full_of_kept() || !is_new()? {
            let since = now();
            let offered = self.access.offers.take_unless(victim, data, || self.trouble.is_long(since))?;
            if let Some(offered) = offered {
                return self.entered(victim, data, offered);
            }
            if !is_new()? {
                return Err(self.trouble.error().expect("there is trouble"));
            }
        }
        points::DISK_REFUSED_PAST.reach();
        self.room.write_through(&[(victim.page, data)], true)?;
        Ok(Evicted { dirty: false })
    }

    /// The policy keeps the page out, and the disk has refused it: it enters the flash, if there is room.
    fn past_a_disk_that_refuses(
        &self,
        victim: Victim,
        data: &[u8],
        error: TierError,
    ) -> Result<Evicted, TierError> {
        if !self.access.options.dirty_possible() || self.trouble.is_full_of_kept() {
            return Err(error);
        }
        points::DISK_REFUSED_ENTERS.reach();
        let _entering = self.dirt.enter()?;
        let since = now();
        match self.access.offers.force_unless(victim, data, || self.trouble.is_long(since))? {
            Some(Offered::Taken) => Ok(Evicted { dirty: true }),
            _ => Err(error),
        }
    }

    /// Where the mode sends this page. A tier that has switched itself off asks for every page as for the
    /// flash: the front answers [`Offered::Off`].
    fn route(&self, victim: &Victim, data: &[u8]) -> Result<Route, TierError> {
        let options = &self.access.options;
        if !options.page_format.takes(data) {
            return Ok(Route::Around { forget: true, write: victim.dirty });
        }
        match options.mode.route(victim.dirty, victim.fdirty) {
            Route::Flash => Ok(Route::Flash),
            route => Ok(if self.access.signals.check_running()? { route } else { Route::Flash }),
        }
    }

    pub(crate) fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.disk.check_victim(victim.page, data)?;
        let route = self.route(&victim, data)?;
        let must_wait = route != Route::Flash || victim.dirty && !self.access.signals.check_running()?;
        if must_wait || self.access.signals.somebody_waits() {
            return Ok(None);
        }
        let Some(_entering) = self.dirt.try_enter() else { return Ok(None) };
        let Some(offered) = self.access.offers.offer(victim, data)? else { return Ok(None) };
        let evicted = self.entry.taken(victim, data, offered)?;
        self.access.board.tallies.evicted(victim.dirty, victim.fdirty);
        Ok(Some(evicted))
    }

    /// Writes changed pages from `first` on.
    pub(crate) fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        self.disk.check_run(data)?;
        let page_bytes = self.access.flash_pages.page_bytes;
        let pages = data.chunks_exact(page_bytes).enumerate();
        let pages: Vec<(PageId, &[u8])> =
            pages.map(|(at, bytes)| (PageId(first.0 + at as u64), bytes)).collect();
        pages.iter().try_for_each(|(page, bytes)| self.disk.check_victim(*page, bytes))?;
        let options = &self.access.options;
        let (is_to_disk, around) = match options.mode {
            Mode::WriteBack => (false, false),
            mode => (self.kind.has_no_log_above, mode != Mode::WriteThrough),
        };
        for some in pages.chunks(RUN_PAGES_MAX) {
            if is_to_disk && self.access.signals.check_running()? {
                self.room.write_through(some, around)?;
                some.iter().for_each(|_| self.access.board.tallies.evicted(true, true));
                continue;
            }
            if self.kind.has_no_log_above && !self.access.signals.check_running()? {
                self.disk_writes.write_run(some)?;
                some.iter().for_each(|_| self.access.board.tallies.evicted(true, true));
                continue;
            }
            for (page, bytes) in self.enter_some(some)? {
                self.evict(changed(*page), bytes)?;
            }
        }
        Ok(())
    }

    /// As [`Writes::write_pages`]. False: some pages did not find room, or may have to be written to disk.
    pub(crate) fn try_write_pages(&self, first: PageId, data: &[u8]) -> Result<bool, TierError> {
        self.disk.check_run(data)?;
        let options = &self.access.options;
        let is_possible = self.kind.has_no_log_above
            && options.mode == Mode::WriteBack
            && self.access.directory.is_log()
            && !options.keeps_changes_out();
        if !is_possible || self.trouble.is_met() || self.access.signals.somebody_waits() {
            return Ok(false);
        }
        let Some(_entering) = self.dirt.try_enter() else { return Ok(false) };
        for (page, bytes) in
            (first.0..).map(PageId).zip(data.chunks_exact(self.access.flash_pages.page_bytes))
        {
            let is_possible = options.page_format.takes(bytes);
            self.disk.check_victim(page, bytes)?;
            if !is_possible || !self.access.offers.try_take(changed(page), bytes)? {
                return Ok(false);
            }
            self.access.board.tallies.evicted(true, true);
        }
        Ok(true)
    }

    /// In write-back mode, without a log above: as many of these pages enter the flash together as there is
    /// room for. Returns the others.
    fn enter_some<'p, 'a>(
        &self,
        run: &'p [(PageId, &'a [u8])],
    ) -> Result<&'p [(PageId, &'a [u8])], TierError> {
        let options = &self.access.options;
        let is_possible = self.kind.has_no_log_above
            && options.mode == Mode::WriteBack
            && run.iter().all(|(_, bytes)| options.page_format.takes(bytes));
        if !is_possible || self.trouble.is_full_of_kept() {
            return Ok(run);
        }
        let _entering = self.dirt.enter()?;
        let offered = self.access.offers.take_run(run, true)?;
        for ((page, bytes), offered) in run.iter().zip(&offered) {
            self.entered(changed(*page), bytes, *offered)?;
            self.access.board.tallies.evicted(true, true);
        }
        Ok(&run[offered.len()..])
    }

    /// Completes what became of an offer.
    fn entered(&self, victim: Victim, data: &[u8], offered: Offered) -> Result<Evicted, TierError> {
        match self.entry.taken(victim, data, offered) {
            Err(error) if victim.dirty && self.trouble.is_tried_again(&error) => {
                self.past_a_disk_that_refuses(victim, data, error)
            }
            taken => taken,
        }
    }

    /// As [`Writes::write_pages`]; pages of which the cache has no dirty copy go to disk alone, adjacent ones
    /// in one request. Returns how many did. The caller excludes other writers of these pages.
    pub(crate) fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        self.disk.check_run(data)?;
        if !self.kind.has_no_log_above || !self.access.signals.check_running()? {
            return self.write_pages(first, data).map(|()| 0);
        }
        let page_bytes = self.access.flash_pages.page_bytes;
        let pages: Vec<(PageId, &[u8])> =
            (first.0..).map(PageId).zip(data.chunks_exact(page_bytes)).collect();
        pages.iter().try_for_each(|(page, bytes)| self.disk.check_victim(*page, bytes))?;
        let mut around = 0;
        let mut rest = &pages[..];
        while let Some((page, _)) = rest.first() {
            let stays = |page: PageId| self.access.cached.is_dirty(page).unwrap_or(true);
            let in_cache = stays(*page);
            let alike = rest.iter().take_while(|(page, _)| stays(*page) == in_cache);
            let count = alike.take(RUN_PAGES_MAX).count();
            let (run, later) = rest.split_at(count);
            if in_cache {
                for (page, bytes) in run {
                    self.evict(changed(*page), bytes)?;
                }
            } else {
                let at = (run[0].0.0 - first.0) as usize * page_bytes;
                match self.room.write_run_around(run, &data[at..at + run.len() * page_bytes]) {
                    Err(error) if self.trouble.is_tried_again(&error) => {
                        for (page, bytes) in run {
                            self.past_a_disk_that_refuses(changed(*page), bytes, error.clone())?;
                        }
                    }
                    written => {
                        written?;
                        around += run.len() as u64;
                    }
                }
            }
            rest = later;
        }
        Ok(around)
    }

    /// See [`PageCache::forget_clean_durably`](crate::PageCache::forget_clean_durably).
    pub(crate) fn forget_clean_durably(&self, pages: &[PageId]) -> Result<(), TierError> {
        let Some(ring) = self.room.ring() else { return Ok(()) };
        let Some(write_through) = &ring.write_through else { return Ok(()) };
        let mut clean = Vec::with_capacity(pages.len());
        for page in pages {
            if self.access.signals.check_running()? && !self.access.cached.is_dirty(*page)? {
                clean.push(*page);
            }
        }
        write_through.forget_all_durably(&clean)
    }

    /// See [`PageCache::begin_around`](crate::PageCache::begin_around).
    pub(crate) fn begin_around(&self, first: PageId, pages: u64) -> Option<Around> {
        if pages == 0 || self.trouble.is_met() {
            return None;
        }
        let passing = Passing::begin(&self.access, self.turns.as_ref()?, first.0..first.0 + pages)?;
        let place = self.disk.begin_write(&passing.pages)?;
        Some(Around { passing, place })
    }

    pub(crate) fn write_around_now(&self, around: &Around, data: &[u8]) -> Result<(), DeviceError> {
        self.disk.write_begun(PageId(around.passing.pages.start), data)
    }

    pub(crate) fn end_around(&self, around: Around, data: &[u8], is_written: bool) -> Result<(), TierError> {
        let pages = &around.passing.pages;
        let ended = self.disk.end_write(pages, data, is_written);
        self.disk_writes.has_written_around(pages, is_written && ended.is_ok());
        ended
    }
}

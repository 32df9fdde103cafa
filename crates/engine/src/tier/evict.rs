//! An eviction: the page is copied into staging. When staging is full, evictors wait, first come, first
//! served. A page that was fetched from disk populates the flash in the same way, but never waits.
//!
//! Invariant: a dirty page is never dropped. It is in staging, on flash or on disk, or the caller gets an
//! error.

use super::shared::Shared;
use super::staging::Incoming;
use crate::api::{Evicted, Victim};
use crate::{TierError, points};
use entresol_core::{Admission, FrameId, PageId, Position, Route};
use entresol_format::page;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts a waiting evictor, until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Shared {
    pub(crate) fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.disk.check_victim(victim.page, data)?;
        let evicted = match self.route(&victim)? {
            Route::Around { forget, write } => {
                if forget {
                    self.forget(victim.page)?;
                }
                self.bypass(victim, write, data)?
            }
            _ if victim.dirty && self.keeps_directory() && self.check_running()? => {
                self.take_through_directory(victim, data)?
            }
            Route::DiskThenFlash => {
                self.write_to_disk(victim, data)?;
                self.take(Victim { dirty: false, ..victim }, data)?
            }
            Route::Flash => self.take(victim, data)?,
        };
        self.tallies.evicted(victim.dirty, victim.fdirty);
        Ok(evicted)
    }

    /// Where the mode sends this page. A tier that has switched itself off asks for every page as for the
    /// flash: [`Self::offer`] sends it to disk.
    fn route(&self, victim: &Victim) -> Result<Route, TierError> {
        match self.options.mode.route(victim.dirty, victim.fdirty) {
            Route::Flash => Ok(Route::Flash),
            route => Ok(if self.check_running()? { route } else { Route::Flash }),
        }
    }

    /// The page does not enter the flash, and is written to disk if `write` says so.
    fn bypass(&self, victim: Victim, write: bool, data: &[u8]) -> Result<Evicted, TierError> {
        if write {
            self.tallies.bypassed.add(1);
            self.write_to_disk(victim, data)?;
        }
        Ok(Evicted { dirty: false })
    }

    /// Makes the core forget every copy of `page`, and the directory on flash, if there is one.
    fn forget(&self, page: PageId) -> Result<(), TierError> {
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? {
                return Ok(());
            }
            let (slot, admission) =
                self.with(|partition| (partition.slot_holding(page), partition.bypass(page)));
            if admission == Admission::Full {
                self.background.notify_one();
                self.progress.wait(seen);
                continue;
            }
            // Slots and frames may have become free.
            self.job_is_done();
            return self.directory_forgets(page, slot);
        }
    }

    pub(super) fn take(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.in_turn(|tier| tier.offer(victim, data))
    }

    /// Repeats `offer` until it gives something, waiting for room in the order of arrival.
    pub(crate) fn in_turn<T>(
        &self,
        mut offer: impl FnMut(&Self) -> Result<Option<T>, TierError>,
    ) -> Result<T, TierError> {
        if self.waiting.load(SeqCst) == 0
            && let Some(done) = offer(self)?
        {
            return Ok(done);
        }
        self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(&self.waiting);
        let _turn = self.turn.acquire(1);
        loop {
            let seen = self.progress.epoch();
            if let Some(done) = offer(self)? {
                return Ok(done);
            }
            self.background.notify_one();
            self.progress.wait(seen);
        }
    }

    pub(crate) fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.disk.check_victim(victim.page, data)?;
        let route = self.options.mode.route(victim.dirty, victim.fdirty);
        let must_wait = route != Route::Flash || victim.dirty && !self.check_running()?;
        if must_wait || self.waiting.load(SeqCst) > 0 {
            return Ok(None);
        }
        let evicted = self.offer(victim, data)?;
        if evicted.is_some() {
            self.tallies.evicted(victim.dirty, victim.fdirty);
        }
        Ok(evicted)
    }

    pub(crate) fn write_to_disk(&self, victim: Victim, data: &[u8]) -> Result<(), TierError> {
        let mut buffer = self.buffers.take();
        buffer.copy_from_slice(data);
        page::seal(&mut buffer, victim.page, Position(0));
        let written = self.disk.write(victim.page, &buffer);
        self.buffers.give_back(buffer);
        written?;
        self.tallies.disk_writes.add(1);
        Ok(())
    }

    /// The core's answer to an offer; [`Admission::Full`] also from a tier that is switching itself off.
    pub(crate) fn admission(&self, victim: &Victim) -> Admission {
        let Victim { page, lsn, dirty, fdirty } = *victim;
        // The state is looked at under the latch again: a tier that switches itself off does so under it.
        self.with(|partition| {
            if self.state.is_running() { partition.evict(page, lsn, dirty, fdirty) } else { Admission::Full }
        })
    }

    /// Offers the page to the core once. `None`: there is no room now.
    fn offer(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        if !self.check_running()? {
            // Switched off: the disk alone.
            points::OFF_EVICT.reach();
            if victim.dirty {
                self.write_to_disk(victim, data)?;
            }
            return Ok(Some(Evicted { dirty: false }));
        }
        match self.admission(&victim) {
            Admission::Full => return Ok(None),
            Admission::AlreadyThere => self.tallies.already_on_flash.add(1),
            Admission::Bypass { .. } => return self.bypass(victim, victim.dirty, data).map(Some),
            Admission::Stage { frame, position } => {
                self.fill(frame, position, victim.page, victim.dirty, data);
            }
        }
        Ok(Some(Evicted { dirty: victim.dirty }))
    }

    /// Copies a page into the frame that it was given.
    pub(crate) fn fill(&self, frame: FrameId, position: Position, page: PageId, dirty: bool, data: &[u8]) {
        let incoming = Incoming { page, dirty, data, position, stamp: self.stamps.stamp(position) };
        self.staging.copy_in(frame, &incoming);
        let due = self.with(|partition| {
            partition.staged(frame);
            partition.write_due(frame)
        });
        if due {
            self.writes.notify_one();
        }
        if position.0.is_multiple_of(self.config.group_pages.into()) {
            self.background.notify_one();
        }
    }

    /// A page has come from disk and goes up: takes a copy, if the policy will have it and there is room. The
    /// page is clean, so the caller never waits.
    pub(crate) fn populate(&self, page: PageId, data: &[u8]) {
        if !self.config.policy.populates() || !self.options.mode.populates() {
            return;
        }
        let admission =
            self.with(
                |partition| {
                    if self.state.is_running() { partition.arrived(page) } else { Admission::Full }
                },
            );
        match admission {
            Admission::Stage { frame, position } => {
                self.fill(frame, position, page, false, data);
                self.tallies.populated.add(1);
            }
            Admission::Full => {
                self.tallies.population_dropped.add(1);
                self.background.notify_one();
            }
            Admission::AlreadyThere | Admission::Bypass { .. } => {}
        }
    }
}

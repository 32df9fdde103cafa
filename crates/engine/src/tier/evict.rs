//! What an eviction does that the front cannot: it writes to disk what belongs there, before or instead of
//! the flash; and what a request to forget does beside.
//!
//! Invariant: a dirty page is never dropped. It is in staging, on flash or on disk, or the caller gets an
//! error.

use super::back::Back;
use crate::api::{Evicted, Victim};
use crate::front::Offered;
use crate::{TierError, points};
use entresol_core::{Admission, PageId, Route, Walk, mutant};
use entresol_shm::Gone;
use std::sync::atomic::Ordering::SeqCst;

impl Back {
    pub(crate) fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.disk.check_victim(victim.page, data)?;
        let route = self.route(&victim, data)?;
        let around = matches!(route, Route::Around { write: true, .. });
        let evicted = match route {
            _ if self.through.is_some() && (around || route == Route::DiskThenFlash) => {
                self.write_through(victim, around, data)?
            }
            Route::Around { write, .. } if self.is_log() => self.write_around_log(victim, write, data)?,
            Route::Around { forget, write } => {
                if forget {
                    self.forget(victim.page)?;
                }
                self.bypass(victim, write, data)?
            }
            _ if victim.dirty && self.keeps_directory() && self.front.check_running()? => {
                self.take_through_directory(victim, data)?
            }
            Route::DiskThenFlash => {
                self.write_to_disk(victim.page, data)?;
                self.take(Victim { dirty: false, ..victim }, data)?
            }
            Route::Flash => self.take(victim, data)?,
        };
        self.front.tallies().evicted(victim.dirty, victim.fdirty);
        Ok(evicted)
    }

    /// Where the mode sends this page. A tier that has switched itself off asks for every page as for the
    /// flash: the front answers [`Offered::Off`].
    fn route(&self, victim: &Victim, data: &[u8]) -> Result<Route, TierError> {
        let options = &self.front.options;
        if !options.page_format.takes(data) {
            return Ok(Route::Around { forget: true, write: victim.dirty });
        }
        match options.mode.route(victim.dirty, victim.fdirty) {
            Route::Flash => Ok(Route::Flash),
            route => Ok(if self.front.check_running()? { route } else { Route::Flash }),
        }
    }

    /// A page that is not taken under a log policy. First its older copies are forgotten in memory, so that
    /// no destage of one of them follows the write to disk. They are dead, and may be forgotten on flash,
    /// when that write is durable.
    fn write_around_log(&self, victim: Victim, write: bool, data: &[u8]) -> Result<Evicted, TierError> {
        if write && mutant!("destage-after-write-around") {
            self.write_to_disk(victim.page, data)?;
        }
        let make_dead = || match write && !mutant!("destage-after-write-around") {
            true => self.write_to_disk(victim.page, data),
            false => Ok(()),
        };
        let written = self.front.forget_for((victim.page, victim.page), make_dead);
        // If it failed, what was forgotten may be the newest version there is: a restart finds it.
        written.inspect_err(|error| self.fail(error.clone()))?;
        self.front.tallies().bypassed.add(write.into());
        Ok(Evicted { dirty: false })
    }

    /// The page does not enter the flash, and is written to disk if `write` says so.
    fn bypass(&self, victim: Victim, write: bool, data: &[u8]) -> Result<Evicted, TierError> {
        if write && !mutant!("bypassed-page-not-written") {
            self.front.tallies().bypassed.add(1);
            self.write_to_disk(victim.page, data)?;
            let written = std::iter::once((victim.page, victim.lsn));
            self.notes.add(&self.disk, self.upstream().as_deref(), written)?;
        }
        self.look_at_budget();
        Ok(Evicted { dirty: false })
    }

    /// Makes the core forget every copy of `page`, and the directory on flash, if there is one.
    fn forget(&self, page: PageId) -> Result<(), TierError> {
        loop {
            let seen = self.front.progress.epoch();
            if !self.front.check_running()? {
                return Ok(());
            }
            let (slot, admission) = self.front.with(|partition| {
                self.front.order.changes(page);
                (partition.slot_holding(page), partition.bypass(page))
            })?;
            if admission == Admission::Full {
                self.front.background.notify_one();
                self.front.await_progress(seen)?;
                continue;
            }
            // Slots and frames may have become free.
            self.front.job_is_done();
            return self.directory_forgets(page, slot);
        }
    }

    /// See [`Front::forget_range`](crate::front::Front::forget_range); the directory on flash forgets, too,
    /// if there is one, and the list of pages that the disk lacks.
    pub(crate) fn forget_range(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        if first <= last && self.keeps_directory() {
            let entries = self.front.with(|partition| partition.entries())?;
            let mut pages: Vec<PageId> = Vec::with_capacity(entries as usize);
            if last.0 - first.0 < entries.into() {
                pages.extend((first.0..=last.0).map(PageId));
            } else {
                self.front.with(|partition| {
                    let take = |page| pages.extend((first..=last).contains(&page).then_some(page));
                    partition.walk(&mut Walk::default(), u32::MAX, take)
                })?;
            }
            pages.into_iter().try_for_each(|page| self.forget(page))?;
        }
        let found = self.front.forget_range((first, last))?;
        self.disk.forget_missing((first, last), || Ok::<(), TierError>(()))?;
        Ok(found)
    }

    /// See [`crate::FlashTier::forget_for`].
    pub(crate) fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_log() {
            return Err(TierError::Config(
                "a cache with slot placement cannot forget pages before they are replaced; replace them, then forget them"
                    .to_owned(),
            )
            .into());
        }
        let make_dead = || self.disk.forget_missing((first, last), make_dead);
        self.front.forget_for((first, last), make_dead).inspect_err(|_| {
            let why =
                "a write that was to replace forgotten pages failed; open the cache again: it still has their last versions";
            self.fail(TierError::Refused(why.to_owned()));
        })
    }

    pub(super) fn take(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let offered = self.front.take(victim, data)?;
        self.taken(victim, data, offered)
    }

    /// Does what is left to do for a page that was offered.
    fn taken(&self, victim: Victim, data: &[u8], offered: Offered) -> Result<Evicted, TierError> {
        match offered {
            Offered::Taken => Ok(Evicted { dirty: victim.dirty }),
            Offered::Bypass => {
                let is_only_copy = victim.is_only_copy();
                let written = self.bypass(victim, is_only_copy, data);
                if is_only_copy {
                    self.front.with(|_| self.front.order.write_ends(victim.page))?;
                }
                written
            }
            Offered::Off => {
                points::OFF_EVICT.reach();
                if victim.dirty {
                    self.write_to_disk(victim.page, data)?;
                }
                Ok(Evicted { dirty: false })
            }
        }
    }

    pub(crate) fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.disk.check_victim(victim.page, data)?;
        let route = self.route(&victim, data)?;
        let must_wait = route != Route::Flash || victim.dirty && !self.front.check_running()?;
        if must_wait || self.front.somebody_waits() {
            return Ok(None);
        }
        let Some(offered) = self.front.offer(victim, data)? else { return Ok(None) };
        let evicted = self.taken(victim, data, offered)?;
        self.front.tallies().evicted(victim.dirty, victim.fdirty);
        Ok(Some(evicted))
    }

    pub(crate) fn write_to_disk(&self, page: PageId, data: &[u8]) -> Result<(), TierError> {
        let mut buffer = self.buffers.take(data.len());
        buffer.copy_from_slice(data);
        self.front.options.page_format.seal_for_disk(&mut buffer, page);
        let written = self.disk.write(page, &buffer);
        self.buffers.give_back(buffer);
        self.wrote_to_disk(1);
        written?;
        if self.front.state.is_gone() {
            // Without the table of objects the home may have left the page out.
            return Err(Gone.into());
        }
        Ok(())
    }

    /// A caller has written so many pages to disk: they are durable after the next sync of it. To be called
    /// after a failure, too: the disk may have carried the write out.
    pub(super) fn wrote_to_disk(&self, pages: usize) {
        let tallies = self.front.tallies();
        tallies.disk_writes.add(pages);
        self.front.board.disk_owed.fetch_max(tallies.disk_writes.get(), SeqCst);
    }
}

//! Deleting pages ([`Deletion`] has the steps): readers miss them at once, and after the next flush or
//! checkpoint they do not come back after a crash.
//!
//! Invariant: when it returns, no write of an older version to disk is under way. So the caller may use the
//! pages' places on disk again.

use super::Base;
use super::cached::CachedPages;
use super::directory::Directory;
use super::order::PageOrder;
use super::run_state::RunState;
use super::seat::Seat;
use super::signals::Signals;
use crate::TierError;
use entresol_core::{Deletion, Next, PageId, Touched};
use entresol_shm::Gone;
use std::sync::Arc;

/// Deletions of pages.
pub(crate) struct Forgets {
    directory: Arc<Directory>,
    cached: Arc<CachedPages>,
    signals: Arc<Signals>,
    state: Arc<RunState>,
    seat: Option<Arc<Seat>>,
    order: PageOrder,
    /// A summary on flash is written in place: once for each group.
    has_one_summary: bool,
}

impl Forgets {
    pub(super) fn new(base: &Base, cached: &Arc<CachedPages>) -> Self {
        Self {
            directory: base.directory.clone(),
            cached: cached.clone(),
            signals: base.signals.clone(),
            state: base.state.clone(),
            seat: base.seat.clone(),
            order: base.order.clone(),
            has_one_summary: base.flash_pages.layout.summary_copies() == 1,
        }
    }

    /// Forgets the pages from `first` to `last`, which are dead. Returns how many copies were in the cache. A
    /// long range costs by the pages of the cache, a short one by its own.
    pub(crate) fn forget_range(&self, pages: (PageId, PageId)) -> Result<u64, TierError> {
        let (first, last) = pages;
        if last < first {
            return Ok(0);
        }
        let begun = self.directory.with(|partition| {
            let by_range = partition.log().is_some() || last.0 - first.0 < partition.entries().into();
            by_range.then(|| Deletion::of_dead(first, last, partition))
        })?;
        let Some(mut deletion) = begun else {
            return self
                .forget_cached(pages, |page| self.directory.with(|p| Deletion::of_dead(page, page, p)));
        };
        let found = self.delete(&mut deletion);
        self.cause_ends(&deletion, found)
    }

    /// Forgets those of the pages from `first` to `last` that are in the cache and not dirty. What may be
    /// found again after a crash is what the disk has. Returns how many copies were in the cache.
    pub(crate) fn forget_clean(&self, pages: (PageId, PageId)) -> Result<u64, TierError> {
        self.forget_cached(pages, |page| Ok(Deletion::of_clean(page)))
    }

    /// Each cached page of the range.
    fn forget_cached(
        &self,
        pages: (PageId, PageId),
        deletion: impl Fn(PageId) -> Result<Deletion, Gone>,
    ) -> Result<u64, TierError> {
        let mut found = 0;
        self.cached.walk(pages, |page| {
            found += self.delete(&mut deletion(page)?)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Forgets all pages of objects that were retired, of a cache with slots.
    pub(crate) fn forget_retired(&self) -> Result<(), TierError> {
        self.cached.walk_retired(|page| {
            let mut deletion = self.directory.with(|partition| Deletion::of_dead(page, page, partition))?;
            self.delete(&mut deletion).map(drop)
        })
    }

    /// Goes on with the deletion of a process that died in it.
    pub(crate) fn forget_on(&self, cause: u64) -> Result<(), TierError> {
        let resumed = self.directory.with(|partition| Deletion::resume(partition.log()?, cause))?;
        // It may have died after the last step.
        let Some(mut deletion) = resumed else { return Ok(()) };
        let found = self.delete(&mut deletion);
        self.cause_ends(&deletion, found).map(drop)
    }

    /// Forgets pages that `make_dead` makes dead, durably: a write of one to disk past the flash, say. Their
    /// copies are forgotten in memory first, so that no destage of one follows that write. No record of it is
    /// written to flash, and no slot released, before `make_dead` has returned. If that fails, or the process
    /// dies meanwhile, what was forgotten may be the newest version there is. The next open finds it: the
    /// caller ends the cache, and the memory that processes share is given up. Only with log placement.
    pub(crate) fn forget_for<E: From<TierError>>(
        &self,
        (first, last): (PageId, PageId),
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut deletion = Deletion::of_replaced(first, last);
        let deleted = self.delete(&mut deletion);
        #[cfg(feature = "hooks")]
        crate::hooks::pass("around");
        let made = deleted.map_err(E::from).and_then(|_| make_dead());
        self.cause_ends(&deletion, made)
    }

    /// Steps until it is done. Returns how many copies were in the cache. Nothing is done if the cache does
    /// not run.
    ///
    /// The state is looked at under the latch, as the failure of a flash is noted under it. Otherwise:
    ///
    /// 1. a dirty page is about to be forgotten, for a disk write that comes later;
    /// 2. the flash fails: the page is dirty, so the cache is to become degraded;
    /// 3. the page is forgotten. The list of pages that the disk lacks is made without it;
    /// 4. power fails before that disk write: the disk's older version is served.
    fn delete(&self, deletion: &mut Deletion) -> Result<u64, TierError> {
        loop {
            let seen = self.signals.progress.epoch();
            // Once there is a record, an interruption changes nothing.
            match self.signals.check_running() {
                Ok(true) => {}
                Ok(false) => return Ok(deletion.found()),
                Err(TierError::Interrupted) if deletion.cause().is_some() => continue,
                Err(error) => return Err(error),
            }
            #[cfg(feature = "hooks")]
            if deletion.is_resumable() {
                crate::hooks::pass("forget");
            }
            let awaits_room = deletion.needs_cause();
            if awaits_room {
                self.seat.iter().for_each(|seat| seat.holds_cause());
            }
            let next = self.directory.with(|partition| {
                if !self.state.is_running() {
                    return None;
                }
                match deletion.touches() {
                    Touched::None => {}
                    Touched::Pages(first, last) => {
                        (first.0..=last.0).for_each(|page| self.order.changes(PageId(page)));
                    }
                    Touched::Many => self.order.all_change(),
                }
                let next = deletion.step(partition);
                if let Some(cause) = deletion.cause().filter(|_| awaits_room && deletion.is_resumable()) {
                    self.seat.iter().for_each(|seat| seat.holds_forgetting(cause));
                }
                Some(next)
            })?;
            if awaits_room && deletion.cause().is_none() {
                self.seat.iter().for_each(|seat| seat.holds_nothing());
            }
            match next {
                None => {}
                Some(Next::Done { found }) => {
                    if found > 0 {
                        // Slots and frames may have become free.
                        self.signals.job_is_done();
                    }
                    return Ok(found);
                }
                Some(Next::Step { room: true }) => self.signals.job_is_done(),
                Some(Next::Step { room: false }) => {}
                Some(Next::Await { records }) => {
                    if records {
                        self.write_records()?;
                    }
                    self.signals.background.notify_one();
                    match self.signals.await_progress(seen) {
                        Err(TierError::Interrupted) if deletion.cause().is_some() => {}
                        waited => waited?,
                    }
                }
            }
        }
    }

    /// There is no room for another record.
    fn write_records(&self) -> Result<(), TierError> {
        self.directory
            .with(|partition| partition.log_mut().map(|log| log.write_records(self.has_one_summary)))?;
        self.signals.writes.notify_one();
        Ok(())
    }

    /// What the cause of a deletion stands for is done, or has failed.
    fn cause_ends<T, E: From<TierError>>(&self, deletion: &Deletion, made: Result<T, E>) -> Result<T, E> {
        let Some(cause) = deletion.cause() else { return made };
        // If the cache has ended meanwhile, the next open may have found the copies by now.
        let made = made.and_then(|made| Ok(self.signals.check_running_in_any_case().map(|_| made)?));
        let ended = made.and_then(|made| {
            let ended = self.directory.with(|partition| partition.log_mut().map(|log| log.cause_ends(cause)));
            Ok(ended.map(|_| made).map_err(TierError::from)?)
        });
        match ended {
            Ok(_) => {
                self.seat.iter().for_each(|seat| seat.holds_nothing());
                self.signals.job_is_done();
            }
            Err(_) if self.seat.is_none() => {}
            Err(_) => {
                self.state.give_up();
                self.signals.writes.notify_all();
                self.signals.background.notify_all();
                self.signals.progress.notify_all();
            }
        }
        ended
    }
}

//! Forgetting pages that are dead: readers miss them at once, and after the next flush or checkpoint they do
//! not come back after a crash.
//!
//! Invariant: when it returns, no write of an older version to disk is under way. So the caller may use the
//! pages' places on disk again.

use super::Front;
use super::objects::is_dead;
use crate::TierError;
use arrayvec::ArrayVec;
use entresol_core::{FORGET_PAGES_MAX, Forget, Lookup, PageId, Partition, Position, mutant};
use entresol_objects::Objects;

/// Entries of the directory that are looked at under one hold of the latch.
const ENTRIES_AT_ONCE: u32 = 512;

/// Pages in the cache, and whether they are newer than disk.
type Living = ArrayVec<(PageId, bool), { ENTRIES_AT_ONCE as usize }>;

/// Whether `page` is newer than disk; `None`: it is not in the cache.
fn living(
    partition: &Partition<'_>,
    objects: Option<&mut Objects<'_>>,
    page: PageId,
) -> Option<(PageId, bool)> {
    let found = partition.peek(page);
    match found {
        Lookup::Staged { dirty, .. } | Lookup::Flash { dirty, .. } => {
            let is_dead = objects.is_some_and(|objects| is_dead(objects, page, &found));
            (!is_dead).then_some((page, dirty))
        }
        Lookup::Absent => None,
    }
}

impl Front {
    /// Forgets the pages from `first` to `last`, which were dead after the disk write with number `after` (0:
    /// are dead now). Returns how many copies were in the cache. A long range costs by the pages of the
    /// cache, a short one by its own.
    pub(crate) fn forget_range(&self, (first, last): (PageId, PageId), after: u64) -> Result<u64, TierError> {
        if last < first {
            return Ok(0);
        }
        let entries = self.with(|partition| partition.entries())?;
        if last.0 - first.0 >= entries.into() {
            return match self.is_log() {
                true => self.forget_long((first, last), after, entries),
                false => self.forget_cached((first, last), entries),
            };
        }
        let mut found = 0;
        let mut from = first.0;
        loop {
            let to = last.0.min(from + (FORGET_PAGES_MAX - 1));
            found += self.forget_some((PageId(from), PageId(to)), after)?;
            if to == last.0 {
                return Ok(found);
            }
            from = to + 1;
        }
    }

    /// Forgets those of the pages from `first` to `last` that are in the cache and not dirty. What may be
    /// found again after a crash is what the disk has. Returns how many copies were in the cache.
    pub(crate) fn forget_clean(&self, (first, last): (PageId, PageId)) -> Result<u64, TierError> {
        let entries = self.with(|partition| partition.entries())?;
        let mut pages = Vec::with_capacity(ENTRIES_AT_ONCE as usize);
        let mut found = 0;
        for from in (0..entries).step_by(ENTRIES_AT_ONCE as usize) {
            let some = from..entries.min(from + ENTRIES_AT_ONCE);
            self.with(|partition| pages.extend(partition.pages_in(some, (first, last))))?;
            for page in pages.drain(..) {
                found += self.forget_when_possible(|partition| match living(partition, None, page) {
                    Some((_, false)) => {
                        self.order.changes(page);
                        partition.forget(page, page, 0)
                    }
                    _ => Forget::Done { found: 0, dirty: 0, in_dequeue: false },
                })?;
            }
        }
        Ok(found)
    }

    /// Forgets pages that `make_dead` makes dead, durably: a write of one to disk past the flash, say. Their
    /// copies are forgotten in memory first, so that no destage of one follows that write. No record of it is
    /// written to flash, and no slot released, before `make_dead` has returned. If that fails, or the process
    /// dies meanwhile, what was forgotten may be the newest version there is. The next open finds it: the
    /// caller ends the cache, and the memory that processes share is given up here.
    pub(crate) fn forget_for<E: From<TierError>>(
        &self,
        pages: (PageId, PageId),
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.check_running()? {
            return make_dead();
        }
        let hold = || self.seat.iter().for_each(super::Seat::holds_cause);
        let cause = loop {
            let seen = self.progress.epoch();
            hold();
            match self.board.causes.begins() {
                Some(cause) => break cause,
                None => {
                    self.seat.iter().for_each(super::Seat::holds_nothing);
                    self.await_progress(seen)?;
                    self.check_running()?;
                }
            }
        };
        let is_named = cause.number > 0 && !mutant!("forgotten-before-its-write-is-durable");
        let after = if is_named { cause.number } else { 0 };
        let forgotten = loop {
            match self.forget_range(pages, after) {
                // It is forgotten in memory: there is no way back.
                Err(TierError::Interrupted) => {}
                forgotten => break forgotten,
            }
        };
        #[cfg(feature = "hooks")]
        crate::hooks::pass("around");
        let made = forgotten.map_err(E::from).and_then(|_| make_dead());
        // If the cache has ended meanwhile, the next open may have found the copies by now.
        let made = made.and_then(|()| Ok(self.check_running().map(drop)?));
        match made {
            Ok(()) => {
                self.board.causes.ends(cause);
                self.seat.iter().for_each(super::Seat::holds_nothing);
                self.job_is_done();
            }
            Err(_) if self.seat.is_none() => {}
            Err(_) => {
                self.state.give_up();
                self.writes.notify_all();
                self.background.notify_all();
                self.progress.notify_all();
            }
        }
        made
    }

    /// Forgets at most [`FORGET_PAGES_MAX`] pages.
    fn forget_some(&self, (first, last): (PageId, PageId), after: u64) -> Result<u64, TierError> {
        self.forget_when_possible(|partition| {
            (first.0..=last.0).for_each(|page| self.order.changes(PageId(page)));
            partition.forget(first, last, after)
        })
    }

    /// Repeats `forget` until it is done, and no older version is on its way to disk. Returns how many copies
    /// it found.
    ///
    /// The state is looked at under the latch, as the failure of a flash is noted under it. Otherwise:
    ///
    /// 1. a dirty page is about to be forgotten, for a disk write that comes later;
    /// 2. the flash fails: the page is dirty, so the cache is to become degraded;
    /// 3. the page is forgotten. The list of pages that the disk lacks is made without it;
    /// 4. power fails before that disk write: the disk's older version is served.
    fn forget_when_possible(
        &self,
        mut forget: impl FnMut(&mut Partition<'_>) -> Forget,
    ) -> Result<u64, TierError> {
        let mut copies = 0;
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? {
                return Ok(copies);
            }
            match self.with(|partition| self.state.is_running().then(|| forget(partition)))? {
                None => continue,
                Some(Forget::Done { found, in_dequeue, .. }) => {
                    copies += u64::from(found);
                    if found > 0 {
                        // Slots and frames may have become free.
                        self.job_is_done();
                    }
                    if !in_dequeue {
                        return Ok(copies);
                    }
                }
                // Records wait to be written.
                Some(Forget::Full) => {
                    let has_one_summary = self.layout.summary_copies() == 1;
                    self.with(|partition| {
                        partition.flush();
                        if has_one_summary {
                            // Its records count when the group is complete.
                            partition.close_group();
                        }
                    })?;
                    self.writes.notify_one();
                }
            }
            self.background.notify_one();
            self.await_progress(seen)?;
        }
    }

    /// Log placement: one record for the whole range, then all entries of the directory.
    fn forget_long(
        &self,
        (first, last): (PageId, PageId),
        after: u64,
        entries: u32,
    ) -> Result<u64, TierError> {
        let mut below: Option<Position> = None;
        self.forget_when_possible(|partition| {
            self.order.all_change();
            below = partition.forget_begin(first, last, after);
            match below {
                Some(_) => Forget::Done { found: 0, dirty: 0, in_dequeue: false },
                None => Forget::Full,
            }
        })?;
        let Some(below) = below else { return Ok(0) };
        let mut found = 0;
        for from in (0..entries).step_by(ENTRIES_AT_ONCE as usize) {
            let some = from..entries.min(from + ENTRIES_AT_ONCE);
            found += self.forget_when_possible(|partition| {
                partition.forget_entries((first, last), below, after, some.clone())
            })?;
        }
        Ok(found)
    }

    /// See [`crate::FlashTier::cached_among`].
    pub(crate) fn cached_among(
        &self,
        (first, last): (PageId, PageId),
    ) -> Result<Vec<(PageId, bool)>, TierError> {
        let mut found = Vec::new();
        if last < first {
            return Ok(found);
        }
        let entries = self.with(|partition| partition.entries())?;
        if last.0 - first.0 >= entries.into() {
            self.survey_range((first, last), |page, dirty| found.push((page, dirty)))?;
            found.sort_unstable();
            found.dedup_by_key(|(page, _)| *page);
            return Ok(found);
        }
        for from in (first.0..=last.0).step_by(ENTRIES_AT_ONCE as usize) {
            let some = from..=last.0.min(from + u64::from(ENTRIES_AT_ONCE) - 1);
            let living: Living = self.with_objects(|partition, mut objects| {
                let living = |page| living(partition, objects.as_deref_mut(), page);
                some.map(PageId).filter_map(living).collect()
            })?;
            found.extend(living);
        }
        Ok(found)
    }

    /// See [`crate::SharedFront::survey`].
    pub(crate) fn survey(&self, count: impl FnMut(PageId, bool)) -> Result<(), TierError> {
        self.survey_range((PageId(0), PageId(u64::MAX)), count)
    }

    /// As [`Front::survey`], the pages from `first` to `last`.
    fn survey_range(
        &self,
        (first, last): (PageId, PageId),
        mut count: impl FnMut(PageId, bool),
    ) -> Result<(), TierError> {
        let entries = self.with(|partition| partition.entries())?;
        for from in (0..entries).step_by(ENTRIES_AT_ONCE as usize) {
            let some = from..entries.min(from + ENTRIES_AT_ONCE);
            let living: Living = self.with_objects(|partition, mut objects| {
                let living = |page| living(partition, objects.as_deref_mut(), page);
                partition.pages_in(some, (first, last)).filter_map(living).collect()
            })?;
            living.into_iter().for_each(|(page, dirty)| count(page, dirty));
        }
        Ok(())
    }

    /// Slot placement: each cached page of the range.
    fn forget_cached(&self, (first, last): (PageId, PageId), entries: u32) -> Result<u64, TierError> {
        let mut found = 0;
        let mut pages = Vec::with_capacity(ENTRIES_AT_ONCE as usize);
        for from in (0..entries).step_by(ENTRIES_AT_ONCE as usize) {
            let some = from..entries.min(from + ENTRIES_AT_ONCE);
            self.with(|partition| pages.extend(partition.pages_in(some, (first, last))))?;
            for page in pages.drain(..) {
                found += self.forget_some((page, page), 0)?;
            }
        }
        Ok(found)
    }
}

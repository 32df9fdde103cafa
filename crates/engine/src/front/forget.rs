//! Forgetting pages that are dead: readers miss them at once, and after the next flush or checkpoint they do
//! not come back after a crash.
//!
//! Invariant: when it returns, no write of an older version to disk is under way. So the caller may use the
//! pages' places on disk again.

use super::Front;
use super::board::Cause;
use super::objects::is_dead;
use crate::TierError;
use arrayvec::ArrayVec;
use entresol_core::{FORGET_PAGES_MAX, Forget, Lookup, PageId, Partition, Position, Walk};
use entresol_objects::Objects;

/// Places, or entries of the directory, that are looked at under one hold of the latch.
const PLACES_AT_ONCE: u32 = 512;

/// Pages in the cache, and whether they are newer than disk.
type Living = ArrayVec<(PageId, bool), { PLACES_AT_ONCE as usize }>;

/// What the first step of forgetting has done.
enum Begun {
    /// All of it, but for an older version that may be on its way to disk.
    Done { found: u64, in_dequeue: bool },
    /// The record: copies below this position are to be forgotten.
    Steps { below: Position },
}

/// What came of the first step.
enum Step {
    Begun(Cause, Begun),
    NotRunning,
    /// There is no room for another record.
    Full,
    ManyCauses,
}

/// Whether the range is to be looked for in the directory's entries, of which there are so many.
fn is_long((first, last): (PageId, PageId), entries: u32) -> bool {
    last.0 - first.0 >= entries.into()
}

/// The range, in parts of at most [`FORGET_PAGES_MAX`] pages.
fn parts((first, last): (PageId, PageId)) -> impl Iterator<Item = (PageId, PageId)> {
    let firsts = (first.0..=last.0).step_by(FORGET_PAGES_MAX as usize);
    firsts.map(move |from| (PageId(from), PageId(last.0.min(from.saturating_add(FORGET_PAGES_MAX - 1)))))
}

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
    /// Forgets the pages from `first` to `last`, which are dead. Returns how many copies were in the cache. A
    /// long range costs by the pages of the cache, a short one by its own.
    pub(crate) fn forget_range(&self, pages: (PageId, PageId)) -> Result<u64, TierError> {
        let (first, last) = pages;
        if last < first {
            return Ok(0);
        }
        let entries = self.with(|partition| partition.entries())?;
        if is_long(pages, entries) {
            return match self.is_log() {
                true => self.forget_long(pages),
                false => self.forget_cached(pages),
            };
        }
        let mut found = 0;
        for part in parts(pages) {
            found += self.forget_some(part)?;
        }
        Ok(found)
    }

    /// Log placement: pages that are dead, in many steps. The record of them is not to be on flash before the
    /// last one: so they have a cause, though no slot needs to wait for it.
    fn forget_long(&self, pages: (PageId, PageId)) -> Result<u64, TierError> {
        let Some((cause, begun)) = self.begin_to_forget(pages, true)? else { return Ok(0) };
        let forgotten = self.forget_begun(pages, 0, begun);
        self.cause_ends(cause, forgotten)
    }

    /// Goes on with [`Front::forget_long`] of a process that died in it.
    pub(crate) fn forget_on(&self, number: u64) -> Result<(), TierError> {
        // It may have died after the last step.
        let Some((cause, pages, below)) = self.board.causes.forgetting(number) else { return Ok(()) };
        self.forget_steps(pages, below, 0)?;
        self.board.causes.ends(cause);
        self.job_is_done();
        Ok(())
    }

    /// Forgets those of the pages from `first` to `last` that are in the cache and not dirty. What may be
    /// found again after a crash is what the disk has. Returns how many copies were in the cache.
    pub(crate) fn forget_clean(&self, pages: (PageId, PageId)) -> Result<u64, TierError> {
        let mut found = 0;
        self.walk(pages, |page| {
            found +=
                self.forget_when_possible((page, page), |partition| match living(partition, None, page) {
                    Some((_, false)) => {
                        self.order.changes(page);
                        partition.forget(page, page, 0)
                    }
                    _ => Forget::Done { found: 0, dirty: 0, in_dequeue: false },
                })?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Forgets pages that `make_dead` makes dead, durably: a write of one to disk past the flash, say. Their
    /// copies are forgotten in memory first, so that no destage of one follows that write. No record of it is
    /// written to flash, and no slot released, before `make_dead` has returned. If that fails, or the process
    /// dies meanwhile, what was forgotten may be the newest version there is. The next open finds it: the
    /// caller ends the cache, and the memory that processes share is given up. Only with log placement.
    pub(crate) fn forget_for<E: From<TierError>>(
        &self,
        pages: (PageId, PageId),
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((cause, begun)) = self.begin_to_forget(pages, false)? else { return make_dead() };
        let forgotten = self.forget_begun(pages, cause.number, begun);
        #[cfg(feature = "hooks")]
        crate::hooks::pass("around");
        let made = forgotten.map_err(E::from).and_then(|_| make_dead());
        self.cause_ends(cause, made)
    }

    /// What a cause stands for is done, or has failed.
    fn cause_ends<T, E: From<TierError>>(&self, cause: Cause, made: Result<T, E>) -> Result<T, E> {
        // If the cache has ended meanwhile, the next open may have found the copies by now.
        let made = made.and_then(|made| Ok(self.check_running_in_any_case().map(|_| made)?));
        match made {
            Ok(_) => {
                self.board.causes.ends(cause);
                self.holds_no_cause();
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

    /// The first step, which makes the record, under a cause. `are_dead`: the pages are dead already. `None`:
    /// the cache does not run.
    ///
    /// Reserves the record and begins the cause in one step. Otherwise:
    ///
    /// 1. cause A begins;
    /// 2. the records of later causes fill the table, and wait for A;
    /// 3. A waits for room for its record.
    fn begin_to_forget(
        &self,
        pages: (PageId, PageId),
        are_dead: bool,
    ) -> Result<Option<(Cause, Begun)>, TierError> {
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? {
                return Ok(None);
            }
            self.seat.iter().for_each(super::Seat::holds_cause);
            let step = self.with(|partition| {
                if !self.state.is_running() {
                    return Step::NotRunning;
                }
                if partition.log().is_some_and(|log| log.records_are_full()) {
                    return Step::Full;
                }
                let Some(cause) = self.board.causes.begins() else { return Step::ManyCauses };
                let begun = self.begin_under(partition, pages, cause.number);
                if let (true, Begun::Steps { below }) = (are_dead, &begun) {
                    self.board.causes.forgets(&cause, pages, *below);
                    self.seat.iter().for_each(|seat| seat.holds_forgetting(cause.number));
                }
                Step::Begun(cause, begun)
            })?;
            if let Step::Begun(cause, begun) = step {
                return Ok(Some((cause, begun)));
            }
            self.holds_no_cause();
            match step {
                Step::NotRunning => continue,
                Step::Full => self.write_records()?,
                Step::ManyCauses | Step::Begun(..) => {}
            }
            self.await_progress(seen)?;
        }
    }

    fn begin_under(&self, partition: &mut Partition<'_>, pages: (PageId, PageId), after: u64) -> Begun {
        let (first, last) = pages;
        if last < first {
            return Begun::Done { found: 0, in_dequeue: false };
        }
        if last.0 - first.0 < FORGET_PAGES_MAX {
            (first.0..=last.0).for_each(|page| self.order.changes(PageId(page)));
            let Forget::Done { found, in_dequeue, .. } = partition.forget(first, last, after) else {
                unreachable!("there is room for a record")
            };
            return Begun::Done { found: found.into(), in_dequeue };
        }
        self.order.all_change();
        let below = partition.log_mut().and_then(|log| log.forget_begin(first, last, after));
        let below = below.expect("there is room for a record");
        Begun::Steps { below }
    }

    /// The steps after the first one. The pages are recorded: there is no way back.
    fn forget_begun(&self, pages: (PageId, PageId), after: u64, begun: Begun) -> Result<u64, TierError> {
        let found = match begun {
            Begun::Done { found, in_dequeue } => {
                if found > 0 {
                    // Slots and frames may have become free.
                    self.job_is_done();
                }
                if !in_dequeue {
                    return Ok(found);
                }
                found
            }
            Begun::Steps { below } => self.forget_steps(pages, below, after)?,
        };
        loop {
            match self.wait_for_dequeues(pages.0, pages.1) {
                Err(TierError::Interrupted) => {}
                waited => return waited.map(|()| found),
            }
        }
    }

    /// Forgets the copies below `below` in steps: all entries of the directory, or each page.
    fn forget_steps(&self, pages: (PageId, PageId), below: Position, after: u64) -> Result<u64, TierError> {
        let entries = self.with(|partition| partition.entries())?;
        let mut copies = 0;
        let mut step = |forget: &mut dyn FnMut(&mut Partition<'_>) -> Forget| loop {
            if !self.check_running_in_any_case()? {
                return Ok::<(), TierError>(());
            }
            // See `Front::forget_when_possible`.
            match self.with(|partition| self.state.is_running().then(|| forget(partition)))? {
                None => {}
                Some(Forget::Full) => unreachable!("the record was made"),
                Some(Forget::Done { found, .. }) => {
                    copies += u64::from(found);
                    return Ok(());
                }
            }
        };
        if is_long(pages, entries) {
            for from in (0..entries).step_by(PLACES_AT_ONCE as usize) {
                #[cfg(feature = "hooks")]
                crate::hooks::pass("forget");
                let some = from..entries.min(from + PLACES_AT_ONCE);
                step(&mut |partition| {
                    let log = partition.log_mut();
                    log.map_or(Forget::Full, |log| log.forget_entries(pages, below, after, some.clone()))
                })?;
            }
        } else {
            for part in parts(pages) {
                step(&mut |partition| {
                    let log = partition.log_mut();
                    log.map_or(Forget::Full, |log| log.forget_below(part, below, after))
                })?;
            }
        }
        if copies > 0 {
            self.job_is_done();
        }
        Ok(copies)
    }

    /// As [`Front::check_running`]; an interruption changes nothing.
    fn check_running_in_any_case(&self) -> Result<bool, TierError> {
        loop {
            match self.check_running() {
                Err(TierError::Interrupted) => {}
                checked => return checked,
            }
        }
    }

    fn holds_no_cause(&self) {
        self.seat.iter().for_each(super::Seat::holds_nothing);
    }

    /// There is no room for another record: those that may be written are. What the others need is the
    /// background's to make durable.
    fn write_records(&self) -> Result<(), TierError> {
        let has_one_summary = self.layout.summary_copies() == 1;
        let durable = self.board.causes.durable();
        self.with(|partition| {
            let awaited = partition.log().and_then(|log| log.oldest_record_awaits());
            let may_be = awaited.is_some_and(|after| after <= durable);
            if !may_be {
                return;
            }
            partition.flush();
            if has_one_summary {
                // Its records count when the group is complete.
                partition.close_group();
            }
        })?;
        self.writes.notify_one();
        self.background.notify_one();
        Ok(())
    }

    /// Forgets at most [`FORGET_PAGES_MAX`] pages, which are dead.
    fn forget_some(&self, (first, last): (PageId, PageId)) -> Result<u64, TierError> {
        self.forget_when_possible((first, last), |partition| {
            (first.0..=last.0).for_each(|page| self.order.changes(PageId(page)));
            partition.forget(first, last, 0)
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
        pages: (PageId, PageId),
        mut forget: impl FnMut(&mut Partition<'_>) -> Forget,
    ) -> Result<u64, TierError> {
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? {
                return Ok(0);
            }
            match self.with(|partition| self.state.is_running().then(|| forget(partition)))? {
                None => continue,
                Some(Forget::Done { found, in_dequeue, .. }) => {
                    if found > 0 {
                        // Slots and frames may have become free.
                        self.job_is_done();
                    }
                    if in_dequeue {
                        self.wait_for_dequeues(pages.0, pages.1)?;
                    }
                    return Ok(found.into());
                }
                Some(Forget::Full) => self.write_records()?,
            }
            self.background.notify_one();
            self.await_progress(seen)?;
        }
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
            // A page may be met twice: it may be newer than disk if it was once.
            found.sort_unstable_by_key(|(page, dirty)| (*page, !dirty));
            found.dedup_by_key(|(page, _)| *page);
            return Ok(found);
        }
        for from in (first.0..=last.0).step_by(PLACES_AT_ONCE as usize) {
            let some = from..=last.0.min(from.saturating_add(u64::from(PLACES_AT_ONCE) - 1));
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
        pages: (PageId, PageId),
        mut count: impl FnMut(PageId, bool),
    ) -> Result<(), TierError> {
        let mut walk = Walk::default();
        loop {
            let mut some = Living::new();
            let goes_on = self.with_objects(|partition, mut objects| {
                partition.walk(&mut walk, PLACES_AT_ONCE, |page| {
                    let is_wanted = (pages.0..=pages.1).contains(&page);
                    let found = is_wanted.then(|| living(partition, objects.as_deref_mut(), page));
                    some.extend(found.flatten());
                })
            })?;
            some.into_iter().for_each(|(page, dirty)| count(page, dirty));
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Slot placement: each cached page of the range.
    fn forget_cached(&self, pages: (PageId, PageId)) -> Result<u64, TierError> {
        let mut found = 0;
        self.walk(pages, |page| {
            found += self.forget_some((page, page))?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `meet` with each cached page of the range ([`Partition::walk`]), without the latch.
    fn walk(
        &self,
        (first, last): (PageId, PageId),
        mut meet: impl FnMut(PageId) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        let (mut walk, mut some) = (Walk::default(), Vec::with_capacity(PLACES_AT_ONCE as usize));
        loop {
            let goes_on = self.with(|partition| {
                let take = |page| some.extend((first..=last).contains(&page).then_some(page));
                partition.walk(&mut walk, PLACES_AT_ONCE, take)
            })?;
            some.drain(..).try_for_each(&mut meet)?;
            if !goes_on {
                return Ok(());
            }
        }
    }
}

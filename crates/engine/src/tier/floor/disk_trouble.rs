//! A disk that refuses writes: since when, and which pages stay on flash for that.
//!
//! A log above settles what a failed write leaves, so its owner stops and starts again ([`DiskErrors::End`]).
//! Without one nothing is gained by stopping ([`DiskErrors::TryAgain`]): the page stays dirty on flash, and
//! whatever needs no room that only the disk can give continues.
//!
//! Invariants:
//!
//! - A page that the disk has refused is on flash until the disk has taken it, or its owner gives it up.
//! - A page is *kept* when the disk has refused it for [`PATIENCE`] and has taken others meanwhile. While
//!   the disk takes no page at all, pages are *held over*. Both stay on flash: at most a quarter of the ring.
//!
//! [`DiskErrors::End`]: crate::DiskErrors
//! [`DiskErrors::TryAgain`]: crate::DiskErrors

use crate::access::{Access, RunState, Signals};
use crate::api::DiskState;
use crate::disk::{DiskPages, PageRanges};
use crate::options::DiskErrors;
use crate::{TierError, events, points};
use entresol_core::{PageId, WritePage};
use entresol_runtime::sync::{Rank, TinyMutex, TinyMutexGuard};
use entresol_runtime::{Time, now, sleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// How long the disk is asked again to take a page before the page is kept.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How long the disk takes no page before pages are held over for writers that wait.
const OUTAGE: Duration = Duration::from_millis(50);
/// The first pause between two tries. Each is twice as long as the one before, and none is longer than
/// `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The pause after which the next try is made if a request has failed meanwhile.
const PAUSE_ASKED: Duration = Duration::from_millis(60);
/// A task that pauses looks so often whether the tier ends.
const SLICE: Duration = Duration::from_millis(20);
/// Kept pages in a ring: at most one of so many slots. With more, no new page enters.
const KEPT_PART: u32 = 4;

/// See the module's header.
pub(crate) struct DiskTrouble {
    tries_again: bool,
    slots: u32,
    state: Arc<RunState>,
    signals: Arc<Signals>,
    /// Something is tried again, or kept: for looks without the lock.
    is_met: AtomicBool,
    /// A request has failed for want of what is tried again: the next try is due soon.
    is_asked: AtomicBool,
    trouble: TinyMutex<Trouble>,
}

#[derive(Default)]
struct Trouble {
    /// When each of the tasks that try again has begun to.
    begun: Vec<Time>,
    /// The last write that the disk took while there was trouble.
    took: Option<Time>,
    /// The last error.
    error: Option<TierError>,
    /// Refusals so far, and the time of the last one.
    refusals: u64,
    refused_at: Time,
    kept: PageRanges,
    /// How often a page has stayed on flash since the disk has taken none.
    held_over: u64,
}

impl Trouble {
    /// The disk has refused something.
    fn note(&mut self, at: Time, error: TierError) {
        self.refusals += 1;
        self.refused_at = at;
        self.error = Some(error);
    }
}

/// A task tries again what the disk has refused, until dropped.
pub(crate) struct Retry<'a> {
    trouble: &'a DiskTrouble,
    begun: Time,
    pause: Duration,
}

impl DiskTrouble {
    pub(crate) fn new(access: &Access) -> Self {
        Self {
            tries_again: access.options.disk_errors == DiskErrors::TryAgain,
            slots: access.directory.config.slots,
            state: access.state.clone(),
            signals: access.signals.clone(),
            is_met: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            trouble: TinyMutex::new(Rank::DiskTrouble, Trouble::default()),
        }
    }

    /// Whether the disk refuses something, or has.
    pub(crate) fn is_met(&self) -> bool {
        self.is_met.load(SeqCst)
    }

    /// Whether what failed with `error` is tried again.
    pub(crate) fn is_tried_again(&self, error: &TierError) -> bool {
        self.tries_again && matches!(error, TierError::Device { role: "disk", .. })
    }

    /// The disk has refused something that its owner will ask for again.
    pub(crate) fn met(&self, error: &TierError) {
        drop(self.retry(error));
    }

    /// Begins to try again what failed with `error`.
    pub(crate) fn retry(&self, error: &TierError) -> Retry<'_> {
        let begun = now();
        let is_first = {
            let mut trouble = self.trouble.lock();
            trouble.begun.push(begun);
            trouble.note(begun, error.clone());
            !self.is_met.swap(true, SeqCst)
        };
        if is_first {
            points::DISK_REFUSED.reach();
            events::disk_refuses(error);
        }
        // Those that wait for room look how long this takes.
        self.signals.progress.notify_all();
        Retry { trouble: self, begun, pause: PAUSE_MIN }
    }

    /// Repeats `work` as long as the disk refuses it, and that is to be tried again. False: the tier ends.
    pub(crate) fn persist(&self, mut work: impl FnMut() -> Result<(), TierError>) -> Result<bool, TierError> {
        let Err(error) = work() else { return Ok(true) };
        if !self.is_tried_again(&error) {
            return Err(error);
        }
        let mut retry = self.retry(&error);
        while retry.pause() {
            match work() {
                Ok(()) => return Ok(true),
                Err(error) if self.is_tried_again(&error) => retry.refused(error),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Those of `pages` that are written to flash as clean are durable on `disk` when it returns: their owner
    /// may have written them past the flash.
    pub(crate) fn make_clean_durable(&self, disk: &DiskPages, pages: &[WritePage]) -> Result<(), TierError> {
        let clean = || pages.iter().filter(|page| !page.dirty).filter_map(|page| page.page);
        match self.persist(|| disk.make_durable(clean()))? {
            true => Ok(()),
            false => Err(TierError::Refused("the flash tier is closed".to_owned())),
        }
    }

    /// The disk has taken these pages.
    #[inline]
    pub(crate) fn took(&self, pages: impl Iterator<Item = PageId>) {
        if self.is_met.load(SeqCst) {
            self.took_in_trouble(pages);
        }
    }

    #[cold]
    fn took_in_trouble(&self, pages: impl Iterator<Item = PageId>) {
        let mut trouble = self.trouble.lock();
        trouble.took = Some(now());
        trouble.held_over = 0;
        pages.for_each(|page| trouble.kept.remove(page));
        self.may_be_over(trouble);
    }

    /// Whether this page stays on flash since the disk has refused it.
    pub(crate) fn is_kept(&self, page: PageId) -> bool {
        self.is_met.load(SeqCst) && self.trouble.lock().kept.contains(page)
    }

    /// These pages are dead or replaced: the disk need not take them.
    pub(crate) fn forget(&self, (first, last): (PageId, PageId)) {
        if self.is_met.load(SeqCst) {
            let mut trouble = self.trouble.lock();
            trouble.kept.remove_range(first, last);
            self.may_be_over(trouble);
        }
    }

    fn may_be_over(&self, trouble: TinyMutexGuard<'_, Trouble>) {
        let none_stays = trouble.kept.ranges() == 0 && trouble.held_over == 0;
        let is_quiet = now().since(trouble.refused_at) >= PATIENCE;
        let is_over = trouble.begun.is_empty() && none_stays && is_quiet;
        let was_met = is_over && self.is_met.swap(false, SeqCst);
        drop(trouble);
        if was_met {
            events::disk_takes_again();
        }
    }

    /// Whether a page that finds no room on flash, and waits for it since then, is not to wait longer: a task
    /// has tried for so long that the disk takes no other page either, and has been refused since then once
    /// more. If not yet, its next try is due soon.
    pub(crate) fn is_long(&self, since: Time) -> bool {
        if !self.is_met.load(SeqCst) {
            return false;
        }
        let (is_long, was_refused) = {
            let trouble = self.trouble.lock();
            let is_long = trouble.begun.iter().any(|begun| now().since(*begun) > PATIENCE + PAUSE_MAX);
            (is_long, trouble.refused_at >= since)
        };
        self.is_asked.fetch_or(is_long && !was_refused, SeqCst);
        is_long && was_refused
    }

    /// Whether no new page is to enter: a ring with more kept pages would copy them for ever.
    pub(crate) fn is_full_of_kept(&self) -> bool {
        self.is_met.load(SeqCst) && self.trouble.lock().kept.pages() > self.kept_max()
    }

    fn kept_max(&self) -> u64 {
        u64::from(self.slots / KEPT_PART)
    }

    /// The last error, for a request that cannot be served without the disk.
    pub(crate) fn error(&self) -> Option<TierError> {
        self.is_asked.store(true, SeqCst);
        self.trouble.lock().error.clone()
    }

    /// For the owner.
    pub(crate) fn report(&self) -> DiskState {
        let trouble = self.trouble.lock();
        DiskState {
            retrying_for: trouble.begun.iter().min().map(|begun| now().since(*begun)),
            refusals: trouble.refusals,
            kept: trouble.kept.list(),
            error: trouble.error.as_ref().filter(|_| self.is_met.load(SeqCst)).map(ToString::to_string),
        }
    }
}

impl Retry<'_> {
    /// Waits until the next try is due. False: the tier ends.
    pub(crate) fn pause(&mut self) -> bool {
        let state = self.trouble.state.clone();
        self.pause_unless(|| state.is_stopped())
    }

    /// As [`Retry::pause`]; `ends` says whether the task ends.
    pub(crate) fn pause_unless(&mut self, ends: impl Fn() -> bool) -> bool {
        let begun = now();
        let until = begun + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        while now() < until {
            if ends() {
                return false;
            }
            sleep(SLICE.min(until.since(now())));
            if now().since(begun) >= PAUSE_ASKED && self.trouble.is_asked.swap(false, SeqCst) {
                break;
            }
        }
        self.trouble.signals.progress.notify_all();
        !ends()
    }

    /// The disk has refused again.
    pub(crate) fn refused(&self, error: TierError) {
        self.trouble.trouble.lock().note(now(), error);
        // Those that wait for room may not have to wait longer.
        self.trouble.signals.progress.notify_all();
    }

    /// Whether these pages, which the disk refuses, are to stay on flash: it has taken others since the first
    /// try, and that is long enough ago; or they stayed before. Or it takes none at all: writers wait for
    /// slots, or deletions for the end of this dequeue. Then the ring turns past its dirty pages, as far as
    /// there is room for that.
    pub(crate) fn keeps(&self, pages: impl Iterator<Item = PageId> + Clone) -> bool {
        let mut trouble = self.trouble.trouble.lock();
        let takes_others = trouble.took.is_some_and(|took| took >= self.begun);
        let tried_for = now().since(self.begun);
        if takes_others && tried_for >= PATIENCE || pages.clone().all(|page| trouble.kept.contains(page)) {
            points::DISK_REFUSED_KEPT.reach();
            pages.for_each(|page| trouble.kept.insert(page));
            return true;
        }
        let held_over = trouble.held_over + pages.count() as u64;
        let has_room = trouble.kept.pages() + held_over <= self.trouble.kept_max();
        let keeps = !takes_others && tried_for >= OUTAGE && has_room;
        if keeps {
            points::DISK_REFUSED_HELD_OVER.reach();
            trouble.held_over = held_over;
        }
        keeps
    }
}

impl Drop for Retry<'_> {
    fn drop(&mut self) {
        let mut trouble = self.trouble.trouble.lock();
        let at = trouble.begun.iter().position(|begun| *begun == self.begun);
        trouble.begun.swap_remove(at.expect("the task has begun"));
        self.trouble.may_be_over(trouble);
    }
}

//! Device failures: the first failed write or sync decides (docs/DESIGN.md §4).
//!
//! - Without a dirty page on flash and in staging, and without lost pages, the tier switches itself off: it
//!   durably unbinds the flash from the disk, and then continues with the disk alone.
//! - Otherwise, if no log stands above, the tier becomes degraded ([`crate::tier::degrader`]).
//! - Otherwise every later call returns [`TierError::Poisoned`].
//!
//! The first two need the disk. Where no log stands above, a task of their own carries them out
//! ([`super::super::leaver`]): if the disk fails, too, it is asked again.

use super::causes::Causes;
use super::disk_trouble::DiskTrouble;
use crate::access::{Access, Directory, RunState, ServedSegment, Signals, Staging};
use crate::disk::DiskPages;
use crate::disk::binding::begin_epoch;
use crate::signal::Signal;
use crate::{TierError, events, points};
use entresol_core::{Lsn, Unsaved};
use entresol_format::Uuid;
use entresol_runtime::is_simulated;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::Gone;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// The word between those that meet a failure of the flash and the task that deals with it.
pub(crate) struct Failing {
    /// Why the flash has failed, until that is dealt with.
    failure: TinyMutex<Option<TierError>>,
    /// For the task that deals with it.
    wakes: Signal,
    /// The tier ends.
    pub ends: AtomicBool,
    /// Jobs under way that move pages.
    jobs: AtomicU32,
}

impl Default for Failing {
    fn default() -> Self {
        Self {
            failure: TinyMutex::new(Rank::Failure, None),
            wakes: Signal::default(),
            ends: AtomicBool::new(false),
            jobs: AtomicU32::new(0),
        }
    }
}

impl Failing {
    /// The task is to look again: the tier ends, or has failed in another way.
    fn wake(&self, ends: bool) {
        self.ends.fetch_or(ends, SeqCst);
        self.wakes.notify_all();
    }

    /// Notifications so far, for [`Failing::wait`].
    pub(crate) fn epoch(&self) -> u64 {
        self.wakes.epoch()
    }

    pub(crate) fn wait(&self, seen: u64) {
        self.wakes.wait(seen);
    }

    /// The failure to deal with now.
    pub(crate) fn take_failure(&self) -> Option<TierError> {
        self.failure.lock().take()
    }

    /// Waits until no job is under way that moves pages: none begins any more.
    pub(crate) fn await_jobs(&self) {
        loop {
            let seen = self.wakes.epoch();
            if self.jobs.load(SeqCst) == 0 {
                return;
            }
            self.wakes.wait(seen);
        }
    }
}

/// Decides what follows a failure.
pub(crate) struct Failures {
    directory: Arc<Directory>,
    staging: Arc<Staging>,
    state: Arc<RunState>,
    signals: Arc<Signals>,
    disk: Arc<DiskPages>,
    causes: Arc<Causes>,
    /// Of a cache with no log above.
    pub failing: Option<Arc<Failing>>,
    served: Option<Arc<ServedSegment>>,
    trouble: Arc<DiskTrouble>,
    cache: Uuid,
    /// For the tasks of a ring: a segment may be complete, a flush has ended.
    pub segments: Signal,
    pub flushes: Signal,
    /// For the task that copies dirty pages: there is one again.
    pub dirty: Signal,
}

/// A job that moves pages is under way, until dropped.
pub(crate) struct Job<'a>(&'a Failures);

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Some(failing) = &self.0.failing
            && failing.jobs.fetch_sub(1, SeqCst) == 1
            && self.0.state.is_stopped()
        {
            failing.wakes.notify_all();
        }
    }
}

impl Failures {
    pub(crate) fn new(
        access: &Arc<Access>,
        disk: &Arc<DiskPages>,
        causes: &Arc<Causes>,
        trouble: &Arc<DiskTrouble>,
        failing: Option<Arc<Failing>>,
        served: Option<Arc<ServedSegment>>,
        cache: Uuid,
    ) -> Self {
        let (disk, causes, trouble) = (disk.clone(), causes.clone(), trouble.clone());
        let (segments, flushes, dirty) = (Signal::default(), Signal::default(), Signal::default());
        Self {
            directory: access.directory.clone(),
            staging: access.staging.clone(),
            state: access.state.clone(),
            signals: access.signals.clone(),
            disk,
            causes,
            failing,
            served,
            trouble,
            cache,
            segments,
            flushes,
            dirty,
        }
    }

    /// A job may begin that moves pages. `None`: the tier does not run any more.
    pub(crate) fn begin_job(&self) -> Option<Job<'_>> {
        // Counted first. Then a task that changes the state waits for this job, or the job sees the state.
        if let Some(failing) = &self.failing {
            failing.jobs.fetch_add(1, SeqCst);
        }
        let job = Job(self);
        (!self.state.is_stopped()).then_some(job)
    }

    /// A background job failed. If the disk is asked again, the tier continues: the caller of the job has the
    /// error, and repeats it.
    pub(crate) fn fail(&self, error: TierError) {
        if self.trouble.is_tried_again(&error) {
            return self.trouble.met(&error);
        }
        let is_gone = matches!(error, TierError::Gone(_));
        let first = match is_gone {
            true => Err(Gone),
            false => self.directory.with(|partition| {
                let leaves = self.state.begin_to_leave();
                leaves.then(|| (partition.unsaved(), partition.log().and_then(|log| log.settle_for_slots())))
            }),
        };
        let Ok(first) = first else { return self.give_up() };
        if let Some((unsaved, dying)) = first {
            match &self.failing {
                Some(failing) if is_of_flash(&error) => *failing.failure.lock() = Some(error),
                _ => {
                    // A forgotten page may be the newest version of it until what makes it dead is durable.
                    let is_dead = dying.is_none_or(|dying| self.causes.is_settled(&dying).unwrap_or(false));
                    let flash_failed = matches!(error, TierError::Device { role: "flash", .. });
                    let nothing_lost = unsaved.pages == 0 && is_dead;
                    let left =
                        if flash_failed && nothing_lost { self.switch_off(&error) } else { Err(error) };
                    left.unwrap_or_else(|error| self.state.poison(poison(&error, unsaved)));
                }
            }
        }
        self.wake_all();
    }

    /// The tier stops: the task that was to deal with a failure has met `error`.
    pub(crate) fn stop_for_good(&self, error: &TierError) {
        let unsaved = self.directory.with(|partition| partition.unsaved()).unwrap_or_default();
        self.state.poison(poison(error, unsaved));
        self.wake_all();
    }

    /// Processes share the memory, and it cannot be trusted any more: all fronts stop, and the cache's owner
    /// opens it again, as after a crash.
    pub(crate) fn give_up(&self) {
        self.state.give_up();
        self.give_up_memory();
    }

    /// The flash has failed, and no page on it is needed: from now on the disk alone serves.
    pub(crate) fn switch_off(&self, error: &TierError) -> Result<(), TierError> {
        // The flash has whole pages whose writes to disk a power failure could tear.
        let unbound = self.disk.sync().and_then(|()| self.unbind(self.cache));
        unbound.inspect_err(|_| points::UNBIND_FAILED.reach())?;
        points::SWITCHED_OFF.reach();
        let notice = format!("the flash tier is switched off, all goes on from disk: {error}");
        events::switched_off(&notice);
        self.state.switch_off(notice);
        Ok(())
    }

    /// A task panics: poisons the tier and wakes all waiters. Does no I/O and never waits: a destructor calls
    /// it.
    fn panicked(&self) {
        let unsaved = self.directory.try_step(|partition| partition.unsaved());
        let unsaved = unsaved.unwrap_or(Unsaved { pages: 0, oldest: None });
        let error = TierError::Refused("a task panicked, which is a bug of this program".into());
        self.state.poison(poison(&error, unsaved));
        self.wake_all();
    }

    /// Wakes all waiters: each looks again at what it waits for.
    pub(crate) fn wake_all(&self) {
        self.signals.writes.notify_all();
        self.signals.background.notify_all();
        self.segments.notify_all();
        self.flushes.notify_all();
        self.dirty.notify_all();
        self.signals.progress.notify_all();
        if let Some(failing) = &self.failing {
            failing.wake(false);
        }
        if let Some(served) = &self.served {
            served.service.notify_all();
        }
    }

    /// Makes the disk independent of the flash: from now on its pages are out of date. The label still names
    /// the cache `remembered`: if that flash returns, an open knows that no page on it is needed.
    pub(crate) fn unbind(&self, remembered: Uuid) -> Result<(), TierError> {
        self.disk.label.change(|label| {
            begin_epoch(label);
            label.cache = remembered;
            label.dirty_possible = false;
            (label.failed_epoch, label.failed_nonce) = (0, 0);
        })
    }

    /// Gives up the latches of the shared memory, if there are any.
    pub(crate) fn give_up_memory(&self) {
        let Some(served) = &self.served else { return };
        served.poison();
        if let Some(frames) = self.staging.shared() {
            frames.poison();
        }
        self.wake_all();
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.state.stop();
        if let Some(served) = &self.served {
            served.ends.store(true, SeqCst);
        }
        if let Some(failing) = &self.failing {
            failing.wake(true);
        }
        self.wake_all();
    }
}

/// Poisons the tier if the task that holds it panics: in the background, or a client's that evicts a
/// page. It may leave behind what others wait for. (In a simulation a panic ends everything.)
pub(crate) struct PanicGuard<'a>(pub &'a Failures);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_simulated() {
            self.0.panicked();
        }
    }
}

/// A failure of the flash. A cache with no log above continues without it.
fn is_of_flash(error: &TierError) -> bool {
    matches!(error, TierError::Device { role: "flash", .. } | TierError::Damaged { .. })
}

/// The state of a tier that stops with `error`.
pub(crate) fn poison(error: &TierError, unsaved: Unsaved) -> TierError {
    points::POISONED.reach();
    TierError::Poisoned {
        reason: error.to_string(),
        dirty_pages: unsaved.pages.into(),
        oldest_lsn: unsaved.oldest.unwrap_or(Lsn(0)),
        of_flash: is_of_flash(error),
    }
}

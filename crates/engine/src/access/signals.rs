//! What the tasks of a cache wait for: its notifications, the state that ends each wait, and the turns of
//! evictors.
//!
//! Invariant: every wait ends with the cache. Whatever changes the run state wakes all waiters, and each of
//! them looks at the state again.

use super::bell::{Bell, Seen};
use super::board::BoardRef;
use super::run_state::{RunState, State};
use super::seat::Seat;
use crate::TierError;
use entresol_runtime::sync::{Rank, Semaphore};
use entresol_shm::Gone;
use entresol_shm::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Signals {
    /// For the writers: a write job may be there.
    pub writes: Bell,
    /// For the background tasks: another job may be there.
    pub background: Bell,
    /// For tasks that wait for room, or until something is durable: a job is complete.
    pub progress: Bell,
    /// Whose turn it is among the evictors that wait for room, first come, first served. Processes that share
    /// a cache have no order: one of them may die while it is its turn.
    turn: Semaphore,
    /// Counts the evictors that wait.
    board: BoardRef,
    state: Arc<RunState>,
    seat: Option<Arc<Seat>>,
}

/// Counts a waiting evictor, until dropped.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicU32) -> Self {
        waiting.fetch_add(1, SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Signals {
    pub(super) fn new(
        writes: Bell,
        background: Bell,
        progress: Bell,
        board: &BoardRef,
        state: &Arc<RunState>,
        seat: &Option<Arc<Seat>>,
    ) -> Self {
        let turn = Semaphore::new(Rank::EvictionTurn, 1);
        let (board, state, seat) = (board.clone(), state.clone(), seat.clone());
        Self { writes, background, progress, turn, board, state, seat }
    }

    /// Tells all tasks that a job is complete: there may be room, new jobs, and news for those that wait.
    pub(crate) fn job_is_done(&self) {
        self.progress.notify_all();
        self.background.notify_one();
        self.writes.notify_one();
    }

    /// As [`Signals::job_is_done`], of a write: a part of a group that was flushed wakes no task for which it
    /// changes nothing.
    pub(crate) fn write_is_done(&self, is_news: bool, more: bool) {
        self.progress.notify_all();
        if is_news {
            self.background.notify_one();
        }
        if more {
            self.writes.notify_one();
        }
    }

    /// True if the cache runs, false if it is switched off and the disk alone serves.
    ///
    /// # Errors
    /// Why it does not run; or that of the disk, if the flash has failed and the disk fails, too, for long.
    pub(crate) fn check_running(&self) -> Result<bool, TierError> {
        self.check_state(|| self.state.obstacle())
    }

    /// As [`Signals::check_running`]; the cache may be leaving for as long as there is no error of
    /// `held_up`.
    fn check_state(&self, held_up: impl Fn() -> Option<TierError>) -> Result<bool, TierError> {
        loop {
            match self.state.now() {
                State::Running => return Ok(true),
                State::Off | State::Degraded => return Ok(false),
                State::Leaving => {
                    let seen = self.progress.epoch();
                    if let Some(error) = held_up() {
                        return Err(error);
                    }
                    if self.state.now() == State::Leaving {
                        self.await_progress(seen)?;
                    }
                }
                // Why, the back has said in its own process.
                State::Poisoned => return Err(self.state.failure().unwrap_or_else(failed_elsewhere)),
                State::Gone => return Err(Gone.into()),
                State::Closed if self.seat.is_some() => {
                    return Err(TierError::Gone("the process that serves the cache has closed it"));
                }
                State::Closed => {
                    return Err(TierError::Refused("the flash tier is closed; open it again".to_owned()));
                }
            }
        }
    }

    /// As [`Signals::check_running`]; an interruption changes nothing, nor does a long wait.
    pub(super) fn check_running_in_any_case(&self) -> Result<bool, TierError> {
        loop {
            match self.check_state(|| None) {
                Err(TierError::Interrupted) => {}
                checked => return checked,
            }
        }
    }

    /// Waits for progress after the epoch `seen`. May return early.
    pub(crate) fn await_progress(&self, seen: Seen) -> Result<(), TierError> {
        let was_notified = self.progress.wait(seen);
        self.seat.as_ref().map_or(Ok(()), |seat| seat.after_wait(was_notified))
    }

    /// Repeats `offer` until it gives something, waiting for room in the order of arrival.
    pub(crate) fn in_turn<T>(
        &self,
        mut offer: impl FnMut() -> Result<Option<T>, TierError>,
    ) -> Result<T, TierError> {
        if !self.somebody_waits()
            && let Some(done) = offer()?
        {
            return Ok(done);
        }
        // Processes have no turns: one that dies while it waits must not be waited for.
        let is_alone = self.seat.is_none();
        let _waiting = is_alone.then(|| Waiting::new(&self.board.waiting));
        let _turn = is_alone.then(|| self.turn.acquire(1));
        loop {
            let seen = self.progress.epoch();
            if let Some(done) = offer()? {
                return Ok(done);
            }
            self.background.notify_one();
            self.await_progress(seen)?;
        }
    }

    /// Whether evictors wait for room.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.board.waiting.load(SeqCst) > 0
    }
}

fn failed_elsewhere() -> TierError {
    TierError::Refused(
        "the flash tier has failed, as the log of the process that serves the cache says; repair the flash device and restart"
            .to_owned(),
    )
}

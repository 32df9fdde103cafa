//! Whether a cache runs, and why it does not.

use super::board::BoardRef;
use crate::{TierError, events};
use entresol_runtime::may_preempt;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::Ordering::SeqCst;

/// How a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    Running = 0,
    /// A first failure is being dealt with: the cache is poisoned, or the flash is unbound.
    Leaving = 1,
    /// The disk alone.
    Off = 2,
    Poisoned = 3,
    /// Ended by its owner.
    Closed = 4,
    /// Processes share the cache, and one of them died in the middle of a change.
    Gone = 5,
    /// The flash has failed and is only read: it has pages that the disk lacks. Everything else is as if off.
    Degraded = 6,
}

impl State {
    fn of(code: u32) -> Self {
        match code {
            0 => Self::Running,
            1 => Self::Leaving,
            2 => Self::Off,
            3 => Self::Poisoned,
            4 => Self::Closed,
            6 => Self::Degraded,
            // Any other word was not written by this program.
            _ => Self::Gone,
        }
    }
}

/// How a cache is, and why. Invariant: the failure is recorded before the board says that the cache is
/// poisoned.
pub(crate) struct RunState {
    board: BoardRef,
    failure: TinyMutex<Option<TierError>>,
    /// What a cache waits for, for long, that is leaving.
    obstacle: TinyMutex<Option<TierError>>,
    notice: TinyMutex<Option<String>>,
}

impl RunState {
    pub(super) fn new(board: BoardRef) -> Self {
        Self {
            board,
            failure: TinyMutex::new(Rank::Failure, None),
            obstacle: TinyMutex::new(Rank::Failure, None),
            notice: TinyMutex::new(Rank::Failure, None),
        }
    }

    pub(crate) fn now(&self) -> State {
        State::of(self.board.state.word.load(SeqCst))
    }

    fn set(&self, state: State) {
        self.board.state.word.store(state as u32, SeqCst);
    }

    /// From running to `next`. False: it did not run.
    fn leave_for(&self, next: State) -> bool {
        self.board.state.word.compare_exchange(State::Running as u32, next as u32, SeqCst, SeqCst).is_ok()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.now() == State::Running
    }

    /// Whether background tasks are to end.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.is_running()
    }

    /// A first failure is dealt with from now on. False: the cache did not run.
    pub(crate) fn begin_to_leave(&self) -> bool {
        self.leave_for(State::Leaving)
    }

    /// Ends a running cache. A failed one stays what it is.
    pub(crate) fn stop(&self) {
        self.leave_for(State::Closed);
    }

    /// A first failure cannot be dealt with for now, and requests are not to wait longer for that.
    pub(crate) fn is_held_up(&self, by: TierError) {
        *self.obstacle.lock() = Some(by);
    }

    /// See [`RunState::is_held_up`].
    pub(crate) fn obstacle(&self) -> Option<TierError> {
        let obstacle = self.obstacle.lock().clone();
        obstacle.filter(|_| self.now() == State::Leaving)
    }

    /// The disk alone serves from now on; `notice` says why.
    pub(crate) fn switch_off(&self, notice: String) {
        *self.notice.lock() = Some(notice);
        self.set(State::Off);
    }

    /// As [`RunState::switch_off`], with pages that the disk lacks.
    pub(crate) fn degrade(&self, notice: String) {
        *self.notice.lock() = Some(notice);
        self.set(State::Degraded);
    }

    /// Records `failure`, and then marks the cache as poisoned.
    pub(crate) fn poison(&self, failure: TierError) {
        may_preempt();
        let is_first = {
            let mut first = self.failure.lock();
            let is_first = first.is_none();
            first.get_or_insert_with(|| failure.clone());
            is_first
        };
        may_preempt();
        self.set(State::Poisoned);
        if is_first {
            events::failed(&failure);
        }
    }

    /// The shared memory is not used any more. To be called before its latches are given up: whoever cannot
    /// take one finds this state.
    pub(crate) fn give_up(&self) {
        self.leave_for(State::Gone);
    }

    /// As [`RunState::give_up`], of a cache whose back has ended, whatever it was then.
    pub(super) fn supersede(&self) {
        self.set(State::Gone);
    }

    /// Whether [`RunState::give_up`] was called.
    pub(crate) fn is_gone(&self) -> bool {
        self.now() == State::Gone
    }

    /// Whether its owner has ended it.
    pub(crate) fn is_closed(&self) -> bool {
        self.now() == State::Closed
    }

    /// What the cache failed with, if it did and cannot go on.
    pub(crate) fn failure(&self) -> Option<TierError> {
        self.failure.lock().clone()
    }

    /// Why the cache switched itself off, if it did.
    pub(crate) fn notice(&self) -> Option<String> {
        self.notice.lock().clone()
    }
}

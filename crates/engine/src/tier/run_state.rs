//! Whether a tier runs, and why it does not.

use crate::{TierError, events};
use entresol_runtime::may_preempt;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

pub(super) const RUNNING: u8 = 0;
/// A first failure is being dealt with: the tier is poisoned, or the flash is unbound.
pub(super) const LEAVING: u8 = 1;
/// The disk alone.
pub(super) const OFF: u8 = 2;
pub(super) const POISONED: u8 = 3;
/// Ended by its owner.
pub(super) const CLOSED: u8 = 4;

/// How a tier is. Invariant: the failure is recorded before the code says that the tier is poisoned.
pub(crate) struct RunState {
    pub(super) code: AtomicU8,
    failure: TinyMutex<Option<TierError>>,
    pub(super) notice: TinyMutex<Option<String>>,
}

impl Default for RunState {
    fn default() -> Self {
        Self {
            code: AtomicU8::new(RUNNING),
            failure: TinyMutex::new(Rank::Failure, None),
            notice: TinyMutex::new(Rank::Failure, None),
        }
    }
}

impl RunState {
    pub(crate) fn is_running(&self) -> bool {
        self.code.load(SeqCst) == RUNNING
    }

    /// Whether background tasks are to end.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.is_running()
    }

    /// Ends a running tier.
    pub(crate) fn stop(&self) {
        // A failed one stays what it is.
        let _ = self.code.compare_exchange(RUNNING, CLOSED, SeqCst, SeqCst);
    }

    /// Records `failure`, and then marks the tier as poisoned.
    pub(super) fn poison(&self, failure: TierError) {
        may_preempt();
        let is_first = {
            let mut first = self.failure.lock();
            let is_first = first.is_none();
            first.get_or_insert_with(|| failure.clone());
            is_first
        };
        may_preempt();
        self.code.store(POISONED, SeqCst);
        if is_first {
            events::failed(&failure);
        }
    }

    /// Whether its owner has ended it.
    pub(crate) fn is_closed(&self) -> bool {
        self.code.load(SeqCst) == CLOSED
    }

    /// What the tier failed with, if it did and cannot go on.
    pub(crate) fn failure(&self) -> Option<TierError> {
        self.failure.lock().clone()
    }

    /// Why the tier switched itself off, if it did.
    pub(crate) fn notice(&self) -> Option<String> {
        self.notice.lock().clone()
    }
}

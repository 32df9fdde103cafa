//! Work that one call begins and a later one ends, without a guard between them.
//!
//! Invariant: when [`Begun::await_none`] returns, all work has ended that had begun before. Its caller
//! holds a lock that each beginning tries to take, so none begins until that is released.

use super::rank::Rank;
use super::semaphore::Semaphore;

/// Most work that has begun and not ended.
const BEGUN_MAX: usize = u32::MAX as usize;

/// See the module's header.
#[derive(Debug)]
pub struct Begun(Semaphore);

impl Begun {
    /// None. Who waits for the end of all waits as for a lock of `rank`.
    pub const fn new(rank: Rank) -> Self {
        Self(Semaphore::new(rank, BEGUN_MAX))
    }

    /// Work begins, unless a task waits for the end of all. Never waits.
    pub fn begin(&self) -> bool {
        self.0.try_acquire(1).map(|permit| permit.forget()).is_some()
    }

    /// Work has ended that had begun.
    pub fn end(&self) {
        self.0.release(1);
    }

    /// Waits for the end of all.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn await_none(&self) {
        drop(self.0.acquire(BEGUN_MAX));
    }
}

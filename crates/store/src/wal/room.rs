//! Reserved room in the log: no record is appended without it.

use entresol_runtime::Task;
use entresol_runtime::sync::{Hold, Rank, TinyMutex};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The reservations of operations in progress.
pub(crate) struct Reservations {
    state: TinyMutex<State>,
    /// A copy of the state's value, for reads without the lock.
    reserved: AtomicU64,
}

#[derive(Default)]
struct State {
    reserved: u64,
    waiting: Vec<Task>,
}

/// Room for records to be appended; released when dropped. Each append takes a reference to a room.
#[must_use]
pub(crate) struct Room<'a> {
    from: Option<(&'a Reservations, Hold)>,
    bytes: u64,
}

impl Room<'_> {
    /// Room that is kept for rollbacks, ends of transactions, checkpoints and restarts (rules 3 and 4).
    pub(crate) fn kept() -> Room<'static> {
        Room { from: None, bytes: 0 }
    }

    /// Called before a record of `bytes` is appended. A reservation that is too small is a bug.
    pub(crate) fn assert_holds(&self, bytes: u64) {
        assert!(
            self.from.is_none() || bytes <= self.bytes,
            "a record of {bytes} bytes is more than the {} that were reserved for it",
            self.bytes
        );
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let Some((from, _)) = &self.from else { return };
        let waiting = {
            let mut state = from.state.lock();
            state.reserved -= self.bytes;
            from.reserved.store(state.reserved, Release);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|task| task.unpark());
    }
}

impl Default for Reservations {
    fn default() -> Self {
        let state = TinyMutex::new(Rank::LogLedger, State::default());
        Self { state, reserved: AtomicU64::new(0) }
    }
}

impl Reservations {
    /// Reserves `bytes` if `admits` allows it for the bytes that are reserved already. Never waits.
    pub(super) fn try_add(&self, bytes: u64, admits: impl FnOnce(u64) -> bool) -> Option<Room<'_>> {
        let mut state = self.state.lock();
        if !admits(state.reserved) {
            return None;
        }
        state.reserved += bytes;
        self.reserved.store(state.reserved, Release);
        drop(state);
        Some(Room { from: Some((self, Hold::taken(Rank::LogRoom))), bytes })
    }

    /// Waits until some room is released. False if none is reserved, or if `helps` says that it would not
    /// help.
    pub(super) fn wait_for_release(&self, helps: impl FnOnce() -> bool) -> bool {
        {
            let mut state = self.state.lock();
            if state.reserved == 0 || !helps() {
                return false;
            }
            state.waiting.push(entresol_runtime::current());
        }
        entresol_runtime::park();
        true
    }

    /// Bytes that operations in progress may still append.
    pub(super) fn bytes(&self) -> u64 {
        self.reserved.load(Acquire)
    }
}

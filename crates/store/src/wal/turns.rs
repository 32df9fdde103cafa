//! Whose turn it is to write to the log's device: flushes and writes of the master record take turns.
//!
//! Invariant: only the holder of the turn writes to the device and syncs it. Otherwise a failed sync could
//! lose writes of another task whose own sync then succeeds. The first failure is permanent.

use super::master::Master;
use crate::StoreError;
use entresol_device::DeviceError;
use entresol_runtime::is_simulated;
use entresol_runtime::sync::{Condvar, Hold, Mutex, Rank};

/// See the module's header.
pub(super) struct Turns {
    state: Mutex<Flusher>,
    flushed: Condvar,
}

struct Flusher {
    /// `None`: a task has the turn.
    turn: Option<Turn>,
    /// The first failure; it is permanent.
    failed: Option<StoreError>,
}

/// What only the holder of the turn may use.
pub(super) struct Turn {
    /// Empty; is exchanged with the tail's buffer.
    pub spare: Vec<u8>,
    pub master: Master,
}

/// If the holder of the turn panics, the turn is lost permanently: the log has failed for all tasks that wait
/// for it. (In a simulation a panic ends everything.)
struct PanicGuard<'a>(&'a Turns);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_simulated() {
            let reason = "a task panicked while it wrote the log".to_owned();
            let failed = DeviceError::Dead { device: "log".to_owned(), reason };
            self.0.state.lock().failed = Some(StoreError::Log(failed));
            self.0.flushed.notify_all();
        }
    }
}

impl Turns {
    pub(super) fn new(master: Master) -> Turns {
        let turn = Some(Turn { spare: Vec::new(), master });
        Turns { state: Mutex::new(Rank::LogFlusher, Flusher { turn, failed: None }), flushed: Condvar::new() }
    }

    /// Waits for the turn and does `work`, unless `is_done` becomes true before.
    pub(super) fn take(
        &self,
        is_done: impl Fn() -> bool,
        work: impl FnOnce(&mut Turn) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        Hold::may_wait(Rank::LogTurn);
        let mut flusher = self.state.lock();
        let mut turn = loop {
            if is_done() {
                return Ok(());
            }
            if let Some(failed) = &flusher.failed {
                return Err(failed.clone());
            }
            match flusher.turn.take() {
                Some(turn) => break turn,
                None => self.flushed.wait(&mut flusher),
            }
        };
        drop(flusher);
        let _held = Hold::taken(Rank::LogTurn);
        let guard = PanicGuard(self);
        let result = work(&mut turn);
        drop(guard);
        let mut flusher = self.state.lock();
        flusher.turn = Some(turn);
        flusher.failed = result.as_ref().err().cloned();
        self.flushed.notify_all();
        result
    }
}

//! How long a real device has had at least one request outstanding (iostat's %util).
//!
//! Invariant: `outstanding` is the number of live [`Busy`] guards.

use entresol_runtime::{Time, now};
use parking_lot::Mutex;
use std::time::Duration;

#[derive(Debug, Default)]
struct State {
    outstanding: u64,
    since: Time,
    total: Duration,
}

/// The clock of one device.
#[derive(Debug, Default)]
pub(crate) struct BusyClock(Mutex<State>);

/// A request under way, until dropped.
pub(crate) struct Busy<'a>(&'a BusyClock);

impl BusyClock {
    pub fn start(&self) -> Busy<'_> {
        let mut state = self.0.lock();
        if state.outstanding == 0 {
            state.since = now();
        }
        state.outstanding += 1;
        Busy(self)
    }

    pub fn total(&self) -> Duration {
        let state = self.0.lock();
        state.total + if state.outstanding > 0 { now().since(state.since) } else { Duration::ZERO }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.outstanding -= 1;
        if state.outstanding == 0 {
            let busy = now().since(state.since);
            state.total += busy;
        }
    }
}

//! A device whose requests take a random time, so that tasks interleave. Every operation can be observed.
//!
//! Invariant: the observer is called at the moment at which a power failure at this operation would strike:
//! the writes of a batch are in progress (any of their sectors may survive), and a sync has not taken effect.

use entresol_device::{Counters, Device, DeviceError, FaultyDevice, Geometry, Io};
use entresol_runtime::{is_simulated, random, sleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Called with the number of operations since the last counted one: 0 if this operation is already counted, 1
/// if it is the next one.
pub(crate) type Observer = Arc<dyn Fn(u64) + Send + Sync>;

/// The duration of requests.
#[derive(Debug, Default)]
pub struct Pace {
    latency_max_nanos: AtomicU64,
}

/// Only devices faster than this have occasional slow requests.
const TAIL_BELOW_NANOS: u64 = 1_000_000;

impl Pace {
    /// Requests take up to `latency_max` on either side of the moment at which they happen, and a few of them
    /// up to ten times that. Zero: no time at all.
    pub fn set(&self, latency_max: Duration) {
        self.latency_max_nanos.store(u64::try_from(latency_max.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn wait(&self, factor: u64) {
        let latency_max = self.latency_max_nanos.load(Relaxed) * factor;
        if latency_max > 0 && is_simulated() {
            // Devices have occasional slow requests; slow devices are slow enough without.
            let tail = random().is_multiple_of(16) && latency_max < TAIL_BELOW_NANOS;
            sleep(Duration::from_nanos(random() % (latency_max * if tail { 10 } else { 1 })));
        }
    }
}

pub(crate) struct Watched {
    pub inner: Arc<FaultyDevice>,
    pub pace: Arc<Pace>,
    /// Requests take this many times as long as the pace demands.
    pub factor: u64,
    /// Some writes are held up to so long before they happen. Zero: none.
    pub held_max: Duration,
    pub observer: Option<Observer>,
}

/// One of so many writes is held.
const HELD_ONE_OF: u64 = 16;

impl Watched {
    fn hold(&self, batch: &[Io<'_>]) {
        let is_write = batch.iter().any(|io| matches!(io, Io::Write { .. }));
        if !self.held_max.is_zero() && is_write && is_simulated() && random().is_multiple_of(HELD_ONE_OF) {
            sleep(Duration::from_nanos(random() % self.held_max.as_nanos() as u64));
        }
    }

    fn observe(&self, ahead: u64) {
        if let Some(observer) = &self.observer {
            observer(ahead);
        }
    }
}

impl Device for Watched {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        self.pace.wait(self.factor);
        self.hold(batch);
        let result = self.inner.run(batch);
        self.observe(0);
        self.pace.wait(self.factor);
        result
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.pace.wait(self.factor);
        self.observe(1);
        let result = self.inner.sync();
        self.pace.wait(self.factor);
        result
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.pace.wait(self.factor);
        let result = self.inner.discard(offset, length);
        self.pace.wait(self.factor);
        result
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.inner.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

//! A device with the timing of a modelled one, under the clock of the running runtime.
//!
//! [`ModelDevice`] wraps a device that holds the data. A batch's completion times are computed at submission,
//! by arithmetic on "busy until" times. The caller sleeps once, until the latest completion, and then the
//! data is read or written. So writes become visible, and reads are sampled, at completion.
//!
//! Invariant: timing is a function only of the order, times, offsets and lengths of the requests, never of
//! the data.

mod disk;
mod mapcache;
mod network;
mod queue;
mod ssd;

pub use disk::DiskParameters;
pub use network::NetworkParameters;
pub use ssd::SsdParameters;

pub(crate) use disk::Disk;
pub(crate) use network::Network;
pub(crate) use ssd::Ssd;

use crate::check;
use crate::{Counters, Device, DeviceError, Geometry, Io};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now, sleep_until};
use queue::CommandQueue;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The timing of a modelled device. Times are nanoseconds of virtual time. `start` never decreases from call
/// to call.
pub(crate) trait Timing: Send {
    /// A read enters the device at `start`. Returns its completion.
    fn read(&mut self, start: u64, offset: u64, length: u64) -> u64;
    /// A write enters the device at `start`. Returns its acknowledgement.
    fn write(&mut self, start: u64, offset: u64, length: u64) -> u64;
    /// A sync of all writes acknowledged before `start`. Returns its completion.
    fn sync(&mut self, start: u64) -> u64;
    /// The range is no longer needed.
    fn discard(&mut self, offset: u64, length: u64);
    /// Bytes programmed into flash and blocks erased since the device was made; 0 for others.
    fn wear(&self) -> (u64, u64);
}

struct ModelState {
    timing: Box<dyn Timing>,
    queue: CommandQueue,
    counters: Counters,
}

/// A device with the timing of a modelled one. Made by [`crate::Profile::build`].
pub struct ModelDevice<D> {
    name: String,
    inner: D,
    /// If set, requests take no time and are not counted.
    instant: AtomicBool,
    /// Held for arithmetic only, never across a sleep.
    state: TinyMutex<ModelState>,
}

impl<D> std::fmt::Debug for ModelDevice<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDevice").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<D: Device> ModelDevice<D> {
    pub(crate) fn new(name: &str, inner: D, queue_depth: usize, timing: Box<dyn Timing>) -> Self {
        let state =
            ModelState { timing, queue: CommandQueue::new(queue_depth), counters: Counters::default() };
        Self {
            name: name.to_owned(),
            inner,
            instant: AtomicBool::new(false),
            state: TinyMutex::new(Rank::DeviceModel, state),
        }
    }

    /// The device that holds the data. Operations on it take no virtual time.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Name of the profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// If `instant`, requests take no time and are not counted from now on: for verification after a
    /// measurement.
    pub fn set_instant(&self, instant: bool) {
        self.instant.store(instant, Relaxed);
    }

    /// Sleeps until `completion`. If power fails meanwhile, the request was not carried out.
    fn wait(&self, operation: &'static str, completion: u64) -> Result<(), DeviceError> {
        sleep_until(Time(completion));
        if entresol_runtime::sim::is_halted() {
            let reason = format!("the power failed before a {operation} was complete");
            return Err(DeviceError::Dead { device: self.name.clone(), reason });
        }
        Ok(())
    }

    /// Returns the data without the timing.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl ModelState {
    fn read(&mut self, now: u64, offset: u64, length: u64) -> u64 {
        let start = self.queue.enter(now);
        self.counters.reads += 1;
        self.counters.read_bytes += length;
        let completion = self.timing.read(start, offset, length);
        self.queue.complete(now, completion);
        completion
    }

    fn write(&mut self, now: u64, offset: u64, length: u64) -> u64 {
        let start = self.queue.enter(now);
        self.counters.writes += 1;
        self.counters.written_bytes += length;
        let completion = self.timing.write(start, offset, length);
        self.queue.complete(now, completion);
        completion
    }

    /// The completion of the last request of the batch.
    fn submit(&mut self, now: u64, batch: &[Io<'_>]) -> u64 {
        let mut last = now;
        for io in batch {
            let completion = match io {
                Io::Read { offset, buffer } => self.read(now, *offset, buffer.len() as u64),
                Io::Write { offset, data } => self.write(now, *offset, data.len() as u64),
            };
            last = last.max(completion);
        }
        last
    }

    fn sync(&mut self, now: u64) -> u64 {
        self.counters.syncs += 1;
        let completion = self.timing.sync(now);
        self.queue.occupy(now, completion);
        completion
    }

    fn counters(&self, now: u64) -> Counters {
        let (programmed_bytes, erases) = self.timing.wear();
        let busy = Duration::from_nanos(self.queue.busy(now));
        Counters { busy, programmed_bytes, erases, ..self.counters }
    }
}

/// Only the timing of a modelled device, for simulations that keep their own time: each call returns the
/// completion of a request that arrives at `now`. Requests are served in the order of the calls. Made by
/// [`crate::Profile::stopwatch`].
pub struct Stopwatch {
    state: ModelState,
}

impl Stopwatch {
    pub(crate) fn new(queue_depth: usize, timing: Box<dyn Timing>) -> Self {
        let queue = CommandQueue::new(queue_depth);
        Self { state: ModelState { timing, queue, counters: Counters::default() } }
    }

    /// The completion of a read of `length` bytes at `offset`.
    pub fn read(&mut self, now: Time, offset: u64, length: u64) -> Time {
        Time(self.state.read(now.0, offset, length))
    }

    /// The acknowledgement of a write of `length` bytes at `offset`.
    pub fn write(&mut self, now: Time, offset: u64, length: u64) -> Time {
        Time(self.state.write(now.0, offset, length))
    }

    /// The completion of a sync of all acknowledged writes.
    pub fn sync(&mut self, now: Time) -> Time {
        Time(self.state.sync(now.0))
    }

    /// The counters until `now`.
    pub fn counters(&self, now: Time) -> Counters {
        self.state.counters(now.0)
    }
}

impl<D: Device> Device for ModelDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        check::batch(&self.name, self.geometry(), batch)?;
        let completion =
            if self.instant.load(Relaxed) { 0 } else { self.state.lock().submit(now().0, batch) };
        self.wait("batch", completion)?;
        self.inner.run(batch)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        if self.instant.load(Relaxed) {
            return self.inner.sync();
        }
        let completion = {
            let mut state = self.state.lock();
            state.sync(now().0)
        };
        self.wait("sync", completion)?;
        self.inner.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        check::range(&self.name, self.geometry(), "discard", offset, length)?;
        self.wait("discard", 0)?;
        self.state.lock().timing.discard(offset, length);
        self.inner.discard(offset, length)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.inner.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.state.lock().counters(now().0)
    }
}

//! What the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part")]

use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use std::cell::Cell;
use std::time::Duration;

/// A device whose requests take a random time before and after they happen, so that tasks interleave.
/// It shows so many bytes: memory has whole pages only.
pub struct Delayed<D>(pub D, pub u64);

thread_local! {
    /// While set, reads of this simulation take so many microseconds after they happened.
    pub static SLOW_MICROS: Cell<u64> = const { Cell::new(0) };
}

fn wait() {
    entresol_runtime::sleep(Duration::from_nanos(entresol_runtime::random() % 40_000));
}

impl<D: Device> Device for Delayed<D> {
    fn geometry(&self) -> Geometry {
        Geometry { capacity_bytes: self.1, ..self.0.geometry() }
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        wait();
        let slow = SLOW_MICROS.get();
        let result = self.0.run(batch);
        match batch {
            [Io::Read { .. }] => entresol_runtime::sleep(Duration::from_micros(slow)),
            _ => wait(),
        }
        result
    }
    fn sync(&self) -> Result<(), DeviceError> {
        wait();
        let result = self.0.sync();
        wait();
        result
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

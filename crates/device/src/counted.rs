//! A device whose errors are counted, by kind: also those that its user gets over.
//!
//! Requests of a [`crate::FileQueue`] are not counted here: one that fails is tried again by its user.

use crate::{Counters, Device, DeviceError, ErrorKind, Geometry, Io, QueuedFile, WritePlace};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many requests have failed, by kind, and the last error.
pub struct ErrorCounts {
    counts: [AtomicU64; ErrorKind::ALL.len()],
    last: TinyMutex<Option<DeviceError>>,
}

impl Default for ErrorCounts {
    fn default() -> Self {
        Self { counts: Default::default(), last: TinyMutex::new(Rank::Failure, None) }
    }
}

impl ErrorCounts {
    /// One more.
    pub fn count(&self, error: &DeviceError) {
        self.counts[error.kind() as usize].fetch_add(1, Relaxed);
        *self.last.lock() = Some(error.clone());
    }

    /// None from now on: another device is counted.
    pub fn forget(&self) {
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
        *self.last.lock() = None;
    }

    /// How many of each kind.
    pub fn each(&self) -> impl Iterator<Item = (ErrorKind, u64)> {
        ErrorKind::ALL.into_iter().zip(self.counts.iter().map(|count| count.load(Relaxed)))
    }

    /// The last one.
    pub fn last(&self) -> Option<DeviceError> {
        self.last.lock().clone()
    }
}

/// See the module's header.
pub struct CountedDevice {
    device: Arc<dyn Device>,
    counts: Arc<ErrorCounts>,
}

impl CountedDevice {
    /// `device`, with its errors counted in `counts`.
    pub fn new(device: Arc<dyn Device>, counts: &Arc<ErrorCounts>) -> Arc<Self> {
        Arc::new(Self { device, counts: counts.clone() })
    }

    fn counted(&self, done: Result<(), DeviceError>) -> Result<(), DeviceError> {
        done.inspect_err(|error| self.counts.count(error))
    }
}

impl Device for CountedDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        self.counted(self.device.run(batch))
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.counted(self.device.sync())
    }

    fn await_own_syncs(&self) -> Result<(), DeviceError> {
        self.counted(self.device.await_own_syncs())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.counted(self.device.discard(offset, length))
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        self.counted(self.device.zero(offset, length, may_punch))
    }

    fn resize(&self, bytes: Option<u64>) -> Result<u64, DeviceError> {
        self.device.resize(bytes).inspect_err(|error| self.counts.count(error))
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.counted(self.device.drop_cached())
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn begin_write(&self, offset: u64, length: usize) -> Option<WritePlace> {
        self.device.begin_write(offset, length)
    }

    fn write_begun(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.counted(self.device.write_begun(offset, data))
    }

    fn end_write(&self, offset: u64, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        self.counted(self.device.end_write(offset, data, is_written))
    }

    fn is_sync_due(&self) -> bool {
        self.device.is_sync_due()
    }

    fn queued(&self) -> Option<QueuedFile> {
        self.device.queued()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.counted(self.device.read(offset, buffer))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.counted(self.device.write(offset, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};

    #[test]
    fn errors_are_counted_by_kind() {
        let at = |at, fault| Injection { at, device: None, fault, forever: false };
        let plan = FaultPlan::new(1, vec![at(2, Fault::ReadError), at(3, Fault::NoSpace)]);
        let faulty = FaultyDevice::new("disk", MemoryDevice::new("disk", 1 << 20), Arc::new(plan));
        let counts = Arc::new(ErrorCounts::default());
        let device = CountedDevice::new(Arc::new(faulty), &counts);
        let mut buffer = [0; 512];
        device.read(0, &mut buffer).unwrap();
        device.read(0, &mut buffer).unwrap_err();
        device.write(0, &buffer).unwrap_err();
        device.write(0, &buffer).unwrap();
        device.write(1 << 20, &buffer).unwrap_err();
        let each: Vec<u64> = counts.each().map(|(_, count)| count).collect();
        // Read, write, sync, no-space, other.
        assert_eq!(each, [1, 0, 0, 1, 1]);
        assert!(matches!(counts.last(), Some(DeviceError::OutOfRange { .. })));
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        let of = |code| {
            let error = std::io::Error::from_raw_os_error(code);
            DeviceError::of_system("disk", "write", (0, 512), &error).kind()
        };
        // ENOSPC, EDQUOT, EIO.
        assert_eq!([28, 122, 5].map(of), [ErrorKind::NoSpace, ErrorKind::NoSpace, ErrorKind::Write]);
    }
}

//! [`Device`] for a shared device.

use crate::{Counters, Device, DeviceError, Geometry, Io, QueuedFile, WritePlace};
use std::sync::Arc;

impl<D: Device + ?Sized> Device for Arc<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        (**self).run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        (**self).sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        (**self).discard(offset, length)
    }
    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        (**self).zero(offset, length, may_punch)
    }
    fn resize(&self, bytes: Option<u64>) -> Result<u64, DeviceError> {
        (**self).resize(bytes)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        (**self).drop_cached()
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
    fn keeps_unsynced(&self) -> bool {
        (**self).keeps_unsynced()
    }
    fn await_own_syncs(&self) -> Result<(), DeviceError> {
        (**self).await_own_syncs()
    }
    fn begin_write(&self, offset: u64, length: usize) -> Option<WritePlace> {
        (**self).begin_write(offset, length)
    }
    fn write_begun(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        (**self).write_begun(offset, data)
    }
    fn end_write(&self, offset: u64, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        (**self).end_write(offset, data, is_written)
    }
    fn is_sync_due(&self) -> bool {
        (**self).is_sync_due()
    }
    fn queued(&self) -> Option<QueuedFile> {
        (**self).queued()
    }
}

//! [`Device`] for a shared device.

use crate::{Counters, Device, DeviceError, Geometry, Io, QueuedFile};
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
    fn queued(&self) -> Option<QueuedFile> {
        (**self).queued()
    }
}

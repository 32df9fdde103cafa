//! A device at one moment: the durable image, and the writes that were not durable.
//!
//! Invariant: a moment is immutable. So one moment serves any number of power failures, each with other
//! surviving writes.

use super::pending::{Pending, Sectors, Survival, Survivor};
use super::write_within;
use super::{FaultPlan, FaultyDevice};
use crate::MemoryDevice;
use std::sync::Arc;

/// The content of a [`super::FaultyDevice`] at one moment.
#[derive(Debug)]
pub struct Moment {
    durable: MemoryDevice,
    pending: Pending,
    /// Readable, and never durable.
    undurable: Pending,
    sectors: Sectors,
}

impl Moment {
    pub(super) fn new(durable: MemoryDevice, pending: Pending, undurable: Pending, sectors: Sectors) -> Self {
        Self { durable, pending, undurable, sectors }
    }

    /// Number of unsynced writes, and of their sectors, as [`super::FaultyDevice::unsynced`].
    pub fn unsynced(&self) -> (usize, usize) {
        self.pending.len(self.sectors.sector as usize)
    }

    /// The image after a power failure at this moment.
    pub fn after_crash(&self, survival: &Survival) -> MemoryDevice {
        survivor(&self.durable, &self.pending, self.sectors, survival)
    }

    /// The device after a kill of its program at this moment, without a power failure: unsynced writes can be
    /// read, and are still not durable.
    pub fn after_kill(&self, plan: Arc<FaultPlan>) -> FaultyDevice {
        let name = self.durable.name();
        let (pending, undurable) = (self.pending.clone(), self.undurable.clone());
        FaultyDevice::with(name, self.durable.fork(name), pending, undurable, self.sectors, plan)
    }
}

/// The durable image with the surviving unsynced sectors.
pub(super) fn survivor(
    durable: &MemoryDevice,
    pending: &Pending,
    sectors: Sectors,
    survival: &Survival,
) -> MemoryDevice {
    let survivor = durable.fork(durable.name());
    pending.survivors(survival, sectors, |left| match left {
        Survivor::New(offset, data) => write_within(&survivor, offset, data),
        Survivor::Unreadable(range) => survivor.mark_unreadable(range.start, range.end - range.start),
    });
    survivor
}

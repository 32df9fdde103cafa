//! A device at one moment: the durable image, and the writes that no sync had made durable.
//!
//! Invariant: nothing in it changes, so that one moment serves any number of power failures, each with other survivors.

use super::pending::{Pending, Survival};
use super::write_within;
use super::{FaultPlan, FaultyDevice};
use crate::MemoryDevice;
use std::sync::Arc;

/// What a [`super::FaultyDevice`] held at one moment.
#[derive(Debug)]
pub struct Moment {
    durable: MemoryDevice,
    pending: Pending,
}

impl Moment {
    pub(super) fn new(durable: MemoryDevice, pending: Pending) -> Self {
        Self { durable, pending }
    }

    /// Number of unsynced writes, and of their sectors, as [`super::FaultyDevice::unsynced`].
    pub fn unsynced(&self) -> (usize, usize) {
        self.pending.len()
    }

    /// What would have been found after a power failure at this moment.
    pub fn after_crash(&self, survival: &Survival) -> MemoryDevice {
        survivor(&self.durable, &self.pending, survival)
    }

    /// The device when the program that used it was killed at this moment, and power has not failed: what was not synced can
    /// be read, and is still not durable.
    pub fn after_kill(&self, plan: Arc<FaultPlan>) -> FaultyDevice {
        let name = self.durable.name();
        FaultyDevice::with_pending(name, self.durable.fork(name), self.pending.clone(), plan)
    }
}

/// The durable image with those of the unsynced sectors that survive.
pub(super) fn survivor(durable: &MemoryDevice, pending: &Pending, survival: &Survival) -> MemoryDevice {
    let survivor = durable.fork(durable.name());
    pending.survivors(survival, |offset, data| write_within(&survivor, offset, data));
    survivor
}

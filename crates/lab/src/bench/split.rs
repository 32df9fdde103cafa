//! Two devices as one: the area before a boundary on the first, the rest on the second. SBP keeps the slot
//! directory on another medium than the pages (§5.3, figure 4).
//!
//! Invariant: both have the same capacity and offsets, so data does not move when the boundary does.

use crate::bench::rig::Modelled;
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};

/// A device whose beginning is on another device.
#[derive(Debug)]
pub struct Split {
    /// Below the boundary.
    pub head: Modelled,
    /// From the boundary on.
    pub tail: Modelled,
    /// In bytes. No request crosses it.
    pub boundary: u64,
}

impl Split {
    fn side(&self, offset: u64) -> &Modelled {
        if offset < self.boundary { &self.head } else { &self.tail }
    }
}

impl Device for Split {
    fn geometry(&self) -> Geometry {
        self.tail.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let offset = |io: &Io<'_>| match io {
            Io::Read { offset, .. } | Io::Write { offset, .. } => *offset,
        };
        let is_head = |io: &Io<'_>| offset(io) < self.boundary;
        let heads = batch.iter().filter(|io| is_head(io)).count();
        if heads == 0 {
            return self.tail.run(batch);
        }
        // Requests of both sides at once come only when a cache is opened: one after the other will do.
        batch.iter_mut().try_for_each(|io| self.side(offset(io)).run(std::slice::from_mut(io)))
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.tail.sync()?;
        self.head.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.side(offset).discard(offset, length)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.tail.drop_cached()?;
        self.head.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.tail.counters()
    }
}

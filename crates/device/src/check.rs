//! The checks of a request that every device makes first, and the counters that every device keeps.
//!
//! Invariant: a bad batch is refused as a whole, before any of its requests is carried out.

use crate::{Counters, DeviceError, Geometry, Io};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Refuses a range that is misaligned or extends beyond the end.
pub(crate) fn range(
    device: &str,
    geometry: Geometry,
    operation: &'static str,
    offset: u64,
    length: u64,
) -> Result<(), DeviceError> {
    let Geometry { capacity_bytes: capacity, sector_bytes: sector, .. } = geometry;
    if (offset | length) & u64::from(sector - 1) != 0 {
        return Err(DeviceError::Misaligned { device: device.to_owned(), operation, offset, length, sector });
    }
    if offset.checked_add(length).is_none_or(|end| end > capacity) {
        return Err(DeviceError::OutOfRange {
            device: device.to_owned(),
            operation,
            offset,
            length,
            capacity,
        });
    }
    Ok(())
}

/// Refuses a batch with a range that is misaligned or extends beyond the end of `device`, for devices of
/// other crates.
///
/// # Errors
/// [`DeviceError::Misaligned`], [`DeviceError::OutOfRange`].
pub fn batch(device: &str, geometry: Geometry, batch: &[Io<'_>]) -> Result<(), DeviceError> {
    for io in batch {
        match io {
            Io::Read { offset, buffer } => range(device, geometry, "read", *offset, buffer.len() as u64)?,
            Io::Write { offset, data } => range(device, geometry, "write", *offset, data.len() as u64)?,
        }
    }
    Ok(())
}

/// Counters that many tasks may increment at once.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl SharedCounters {
    pub fn count(&self, batch: &[Io<'_>]) {
        let (mut reads, mut writes, mut read_bytes, mut written_bytes) = (0, 0, 0, 0);
        for io in batch {
            match io {
                Io::Read { buffer, .. } => {
                    reads += 1;
                    read_bytes += buffer.len() as u64;
                }
                Io::Write { data, .. } => {
                    writes += 1;
                    written_bytes += data.len() as u64;
                }
            }
        }
        if reads > 0 {
            self.reads.fetch_add(reads, Relaxed);
            self.read_bytes.fetch_add(read_bytes, Relaxed);
        }
        if writes > 0 {
            self.writes.fetch_add(writes, Relaxed);
            self.written_bytes.fetch_add(written_bytes, Relaxed);
        }
    }

    /// A write of zeros, whose bytes the device is not given.
    pub fn count_zeros(&self) {
        self.writes.fetch_add(1, Relaxed);
    }

    pub fn count_sync(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    /// The counters; times and flash wear are 0.
    pub fn snapshot(&self) -> Counters {
        Counters {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            ..Counters::default()
        }
    }
}

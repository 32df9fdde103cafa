//! The device interface.

use crate::{AlignedBuffer, DeviceError, QueuedFile};
use std::time::Duration;

/// Bytes of zeros in a write.
pub(crate) const ZEROS_BYTES: u64 = 1 << 20;

/// Shape of a device. All sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Usable capacity.
    pub capacity_bytes: u64,
    /// Smallest unit that is written atomically; offsets and lengths are multiples of it.
    pub sector_bytes: u32,
    /// Smallest unit that the medium writes without reading and rewriting its neighbours: at least a sector,
    /// and 4096 on drives with 512-byte sectors over 4096-byte ones ("512e"). A power failure during a
    /// smaller write may damage the whole unit, including durable neighbours.
    pub physical_bytes: u32,
}

impl Geometry {
    /// A device with equal sector and physical sizes.
    pub const fn new(capacity_bytes: u64, sector_bytes: u32) -> Self {
        Self { capacity_bytes, sector_bytes, physical_bytes: sector_bytes }
    }
}

/// One request of a batch. Offsets and lengths are multiples of the sector size.
#[derive(Debug)]
pub enum Io<'a> {
    /// Fill `buffer` from `offset`.
    Read {
        /// Byte offset on the device.
        offset: u64,
        /// Destination; its length is the length of the read.
        buffer: &'a mut [u8],
    },
    /// Write `data` at `offset`.
    Write {
        /// Byte offset on the device.
        offset: u64,
        /// Source; its length is the length of the write.
        data: &'a [u8],
    },
}

/// The counters of a device since its open. Utilisation is `busy / elapsed`, as iostat's %util: the share of
/// time with at least one request outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Time with at least one request outstanding.
    pub busy: Duration,
    /// Bytes that the flash itself programmed (host writes plus garbage collection); 0 where unknown.
    pub programmed_bytes: u64,
    /// Erase operations of the flash; 0 where unknown.
    pub erases: u64,
}

/// Where the caller carries out a write that has begun ([`Device::begin_write`]).
#[derive(Debug)]
pub struct WritePlace {
    /// The open file; `None`: only [`Device::write_begun`] can write.
    pub file: Option<QueuedFile>,
    /// Byte offset in the file.
    pub offset: u64,
}

/// A block device. Its operations block: the caller waits until its requests are done, in either runtime.
///
/// A completed write is readable at once. It is durable only when a later [`Device::sync`] has returned.
/// After a crash, each 512-byte sector of an unsynced write has its old or its new content.
pub trait Device: Send + Sync {
    /// Shape of the device.
    fn geometry(&self) -> Geometry;
    /// Submits all requests together, at the device's own queue depth, and returns when all have completed.
    /// On error some may have been carried out; the first error is returned.
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError>;
    /// Makes all completed writes durable.
    fn sync(&self) -> Result<(), DeviceError>;
    /// Waits for syncs that the device makes by itself, not for its user. An error: one has failed, and
    /// writes since the one before may be lost, though no sync of the user has failed.
    fn await_own_syncs(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Whether a failed sync loses no write: a later one that succeeds is for all writes before it, and no
    /// read gives older bytes meanwhile ([`crate::RedoDevice`]).
    fn keeps_unsynced(&self) -> bool {
        false
    }
    /// Tells the device that the range's content is no longer needed. Later reads of it return arbitrary
    /// bytes.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError>;
    /// Makes zeros of the range: as a write of zeros. If `may_punch`, a sparse file may give its room back.
    fn zero(&self, offset: u64, length: u64, _may_punch: bool) -> Result<(), DeviceError> {
        let zeros = AlignedBuffer::new(ZEROS_BYTES.min(length) as usize);
        for from in (offset..offset + length).step_by(ZEROS_BYTES as usize) {
            let some = (offset + length - from).min(ZEROS_BYTES) as usize;
            self.write(from, &zeros[..some])?;
        }
        Ok(())
    }
    /// Looks at the size anew, which may have changed below the device: its geometry has that from now on. A
    /// regular file gets the size `bytes` first, if that is given, with its room reserved. Returns the
    /// capacity in bytes. Devices whose size is fixed return it.
    fn resize(&self, _bytes: Option<u64>) -> Result<u64, DeviceError> {
        Ok(self.geometry().capacity_bytes)
    }
    /// Drops the operating system's cached copy of the device, so that the next read is from the medium.
    /// Called after the sync of an open: after an earlier failed sync pages in the cache may be readable,
    /// count as clean, and never be durable (ext4).
    fn drop_cached(&self) -> Result<(), DeviceError>;
    /// The counters so far.
    fn counters(&self) -> Counters;
    /// Begins a write of `length` bytes that the caller carries out itself, by [`Device::write_begun`] or
    /// with a [`crate::FileQueue`]. Never waits. `None`: only [`Device::write`] can do it now.
    fn begin_write(&self, offset: u64, length: usize) -> Option<WritePlace> {
        let _ = length;
        Some(WritePlace { file: self.queued(), offset })
    }
    /// Carries out a write that has begun, in the caller's thread.
    fn write_begun(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.write(offset, data)
    }
    /// A write that has begun has ended; each does once. Until then the caller waits for nothing but it.
    /// `is_written` false: it has failed, or was not made, and the device may have any part of it. An error:
    /// as one of [`Device::write`].
    fn end_write(&self, offset: u64, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        let _ = (offset, data, is_written);
        Ok(())
    }
    /// Whether a sync is due, so that writes do not have to wait for one later: what the device remembers of
    /// them is bounded ([`crate::RedoDevice`]).
    fn is_sync_due(&self) -> bool {
        false
    }
    /// The open file that has the device's bytes, for reads with a [`crate::FileQueue`]. `None`: there is no
    /// such file.
    fn queued(&self) -> Option<QueuedFile> {
        None
    }
    /// Reads one range.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.run(&mut [Io::Read { offset, buffer }])
    }
    /// Writes one range.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.run(&mut [Io::Write { offset, data }])
    }
}

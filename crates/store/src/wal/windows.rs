//! Parts of the log in memory while it is read.
//!
//! A restart reads the log twice, for its analysis and for redo. What was read forward first is kept, up to
//! [`KEPT_BYTES`], so that redo need not read it again. A window with an unreadable sector is not kept: it
//! may be readable the next time.

use super::ring::Ring;
use entresol_device::{Device, DeviceError};

/// Bytes that are kept beside the window that was read last.
const KEPT_BYTES: usize = 64 << 20;

/// Log bytes `[start, start + bytes.len())`.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn holds(&self, at: u64, length: u64) -> bool {
        self.start <= at && at + length <= self.start + self.bytes.len() as u64
    }

    fn slice(&self, at: u64, length: u64) -> &[u8] {
        let at = (at - self.start) as usize;
        &self.bytes[at..at + length as usize]
    }
}

/// What was read last, and what is kept of before.
#[derive(Default)]
pub(super) struct Windows {
    last: Window,
    /// In the order of their reading.
    kept: Vec<Window>,
    kept_bytes: usize,
    /// A read error in the last window.
    unreadable: Option<DeviceError>,
}

impl Windows {
    /// Log bytes `[at, at + length)`, if they are in memory.
    pub(super) fn find(&self, at: u64, length: u64) -> Option<&[u8]> {
        let windows = std::iter::once(&self.last).chain(&self.kept);
        windows.into_iter().find(|window| window.holds(at, length)).map(|window| window.slice(at, length))
    }

    /// Reads log bytes `[start, start + size)`.
    pub(super) fn read(
        &mut self,
        device: &dyn Device,
        ring: Ring,
        start: u64,
        size: u64,
    ) -> Result<(), DeviceError> {
        self.make_way();
        self.last.start = start;
        self.last.bytes.resize(size as usize, 0);
        self.unreadable = ring.read(device, start, &mut self.last.bytes)?;
        Ok(())
    }

    /// Keeps the last window if there is room for it.
    fn make_way(&mut self) {
        let bytes = self.last.bytes.len();
        if bytes > 0 && self.unreadable.is_none() && self.kept_bytes + bytes <= KEPT_BYTES {
            self.kept_bytes += bytes;
            self.kept.push(std::mem::take(&mut self.last));
        }
    }

    /// The read error in the last window.
    pub(super) fn unreadable(&self) -> Option<&DeviceError> {
        self.unreadable.as_ref()
    }

    /// Nothing is in memory: everything is read again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

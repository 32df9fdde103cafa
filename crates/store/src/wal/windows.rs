//! Parts of the log in memory during reads.
//!
//! A restart reads the log twice, for its analysis and for redo. Windows of the first pass are kept, up to
//! [`KEPT_BYTES`], so that redo need not read them again. A window with an unreadable sector is not kept: the
//! sector may be readable the next time.

use super::ring::Ring;
use entresol_device::{Device, DeviceError};

/// Maximum bytes that are kept in addition to the last window.
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

/// The last window, and kept earlier ones.
#[derive(Default)]
pub(super) struct Windows {
    last: Window,
    /// In the order of the reads.
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

    /// Forgets all windows, so that everything is read again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

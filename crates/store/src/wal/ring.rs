//! The positions of log bytes on the device, and reads that tolerate unreadable sectors.

use crate::points;
use entresol_device::{Device, DeviceError, Io};

/// Device offset of the circular area.
pub(crate) const LOG_START: u64 = 8192;
/// Fills the rest of a sector after the last record of a flush. It is not zero: a sector that has lost its
/// records, and reads as zeros, must not look like padding. It is neither [`UNREADABLE`] nor the value
/// that erased flash reads as.
pub(crate) const PADDING: u8 = 0x3d;
/// LSN of a new log's first record: a page that was never changed has LSN 0.
pub(crate) const FIRST_LSN: u64 = 4096;

/// All LSNs are below this, so that sums of LSNs and lengths cannot overflow. At a gigabyte a second, that is
/// sufficient for 73 years.
pub(crate) const LSN_MAX: u64 = 1 << 61;
/// Minimum size of the circular area.
pub(super) const AREA_MIN: u64 = 1 << 20;
/// The bytes that replace an unreadable sector: neither padding nor the length of a record.
pub(super) const UNREADABLE: u8 = 0xee;

/// The circular area: the byte with a given LSN is at `LOG_START + (lsn + shift) mod area`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub area: u64,
    /// 0 until the log moves into a larger area (see [`super::grow`]).
    pub shift: u64,
}

impl Ring {
    /// Splits `[lsn, lsn + length)` where it wraps: device offset and length of one or two pieces.
    pub(crate) fn pieces(self, lsn: u64, length: u64) -> [(u64, u64); 2] {
        let at = (lsn + self.shift) % self.area;
        let first = length.min(self.area - at);
        [(LOG_START + at, first), (LOG_START, length - first)]
    }

    /// Reads the log from `lsn` on. Unreadable sectors are replaced by bytes of [`UNREADABLE`]; the error of
    /// the last one is returned.
    ///
    /// These bytes must never be written back: the sectors may be readable again later.
    pub(super) fn read(
        self,
        device: &dyn Device,
        lsn: u64,
        buffer: &mut [u8],
    ) -> Result<Option<DeviceError>, DeviceError> {
        let [(first_offset, first), (second_offset, second)] = self.pieces(lsn, buffer.len() as u64);
        let (head, rest) = buffer.split_at_mut(first as usize);
        if second == 0 {
            return read_readable(device, first_offset, head);
        }
        let both = device.run(&mut [
            Io::Read { offset: first_offset, buffer: &mut *head },
            Io::Read { offset: second_offset, buffer: &mut *rest },
        ]);
        match both {
            Err(error) if error.is_unreadable() => {
                let first = read_readable(device, first_offset, head)?;
                Ok(read_readable(device, second_offset, rest)?.or(first))
            }
            result => result.map(|()| None),
        }
    }

    /// Writes the log from `lsn` on; not synced.
    pub(super) fn write(self, device: &dyn Device, lsn: u64, data: &[u8]) -> Result<(), DeviceError> {
        let [(first_offset, first), (second_offset, second)] = self.pieces(lsn, data.len() as u64);
        let (head, rest) = data.split_at(first as usize);
        if second == 0 {
            return device.write(first_offset, head);
        }
        device.run(&mut [
            Io::Write { offset: first_offset, data: head },
            Io::Write { offset: second_offset, data: rest },
        ])
    }
}

/// Reads a range. After a read error, reads its halves, down to single sectors.
fn read_readable(
    device: &dyn Device,
    offset: u64,
    buffer: &mut [u8],
) -> Result<Option<DeviceError>, DeviceError> {
    let error = match device.read(offset, buffer) {
        Err(error) if error.is_unreadable() => error,
        result => return result.map(|()| None),
    };
    let sector = device.geometry().sector_bytes.max(1) as usize;
    if buffer.len() <= sector {
        points::LOG_UNREADABLE.reach();
        buffer.fill(UNREADABLE);
        return Ok(Some(error));
    }
    let half = (buffer.len() / 2).next_multiple_of(sector);
    let (head, rest) = buffer.split_at_mut(half);
    let first = read_readable(device, offset, head)?;
    Ok(read_readable(device, offset + half as u64, rest)?.or(first))
}

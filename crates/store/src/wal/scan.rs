//! Reads records from the device.

use super::master::Master;
use super::record::{RECORD_HEADER_BYTES, RecordHeader};
use super::ring::Ring;
use super::ring::{FIRST_LSN, LSN_MAX, PADDING};
use super::windows::Windows;
use crate::{StoreError, points};
use entresol_core::Lsn;
use entresol_device::Device;

/// Bytes read at once in a forward scan.
const WINDOW_FORWARD: u64 = 8 << 20;
/// Bytes read at once in a backward scan.
const WINDOW_BACKWARD: u64 = 8 << 20;
/// Bytes read at once for a single record.
const WINDOW_SINGLE: u64 = 64 << 10;

/// Reads records at given LSNs.
pub(crate) struct LogScan<'a> {
    device: &'a dyn Device,
    ring: Ring,
    id: u32,
    pub(super) sector: u64,
    pub(super) windows: Windows,
}

impl<'a> LogScan<'a> {
    pub(crate) fn new(device: &'a dyn Device, master: &Master) -> LogScan<'a> {
        let (ring, sector) = (master.ring(), master.sector.into());
        LogScan { device, ring, id: master.id, sector, windows: Windows::default() }
    }

    /// Continues after the log may have moved.
    pub(crate) fn follow(&mut self, master: &Master) {
        if self.ring != master.ring() {
            *self = Self::new(self.device, master);
        }
    }

    /// The record at `at` or, after padding, the next one; `None` at the end of the log. `epoch` is the
    /// newest seen so far.
    pub(crate) fn next(&mut self, at: Lsn, epoch: u32) -> Result<Option<(RecordHeader, &[u8])>, StoreError> {
        let lsn = self.past_padding(at)?;
        let Some(header) = self.header(Lsn(lsn), WINDOW_FORWARD, 0)? else { return Ok(None) };
        if !header.continues(at, epoch) {
            points::LOG_LEFTOVER.reach();
            return Ok(None);
        }
        let record = self.bytes(lsn, header.length as u64, WINDOW_FORWARD, 0)?;
        Ok(Some((header, &record[RECORD_HEADER_BYTES..])))
    }

    /// Bytes of the circular area.
    pub(super) fn area(&self) -> u64 {
        self.ring.area
    }

    /// The position of the record at `at` or after its padding. Padding fills the rest of a sector. So a
    /// length that damage has turned into the padding value is not mistaken for padding.
    pub(super) fn past_padding(&mut self, at: Lsn) -> Result<u64, StoreError> {
        let lsn = at.0.next_multiple_of(8);
        let next = lsn.next_multiple_of(self.sector);
        let is_padding =
            lsn < next && self.bytes(lsn, next - lsn, WINDOW_FORWARD, 0)?.iter().all(|byte| *byte == PADDING);
        Ok(if is_padding { next } else { lsn })
    }

    /// The record at exactly `lsn`, which must be there. For backward scans.
    pub(crate) fn at(&mut self, lsn: Lsn) -> Result<(RecordHeader, &[u8]), StoreError> {
        self.exactly(lsn, WINDOW_BACKWARD, WINDOW_BACKWARD / 2)
    }

    /// As [`LogScan::at`], if no other records near it will be read.
    pub(crate) fn single(&mut self, lsn: Lsn) -> Result<(RecordHeader, &[u8]), StoreError> {
        self.exactly(lsn, WINDOW_SINGLE, 0)
    }

    fn exactly(&mut self, lsn: Lsn, window: u64, back: u64) -> Result<(RecordHeader, &[u8]), StoreError> {
        let possible = (FIRST_LSN..LSN_MAX).contains(&lsn.0) && lsn.0.is_multiple_of(8);
        let found = if possible { self.header(lsn, window, back)? } else { None };
        let Some(header) = found else {
            return Err(self.missing(lsn));
        };
        let record = self.bytes(lsn.0, header.length as u64, window, back)?;
        Ok((header, &record[RECORD_HEADER_BYTES..]))
    }

    /// The bytes of the sector at `start`.
    pub(super) fn sector_at(&mut self, start: u64) -> Result<&[u8], StoreError> {
        self.bytes(start, self.sector, self.sector, 0)
    }

    /// Whether the last read range has an unreadable sector.
    pub(super) fn is_unreadable(&self) -> bool {
        self.windows.unreadable().is_some()
    }

    /// The error for a missing record that must be at `lsn`: the device's error, if the place is unreadable.
    pub(crate) fn missing(&self, lsn: Lsn) -> StoreError {
        match self.windows.unreadable() {
            Some(error) => StoreError::Log(error.clone()),
            None => StoreError::Corrupt {
                place: format!("log at LSN {}", lsn.0),
                expected: "a whole record".into(),
                found: "none with this LSN and a right checksum".into(),
            },
        }
    }

    pub(super) fn header(
        &mut self,
        lsn: Lsn,
        window: u64,
        back: u64,
    ) -> Result<Option<RecordHeader>, StoreError> {
        let prefix = self.bytes(lsn.0, RECORD_HEADER_BYTES as u64, window, back)?;
        let Some(length) = RecordHeader::length_at(prefix, lsn) else { return Ok(None) };
        if length as u64 > self.ring.area / 2 {
            return Ok(None);
        }
        let id = self.id;
        Ok(RecordHeader::open(self.bytes(lsn.0, length as u64, window, back)?, lsn, id))
    }

    /// Log bytes `[at, at + length)`. If they are not in memory, reads `window` bytes, beginning `back` bytes
    /// earlier.
    pub(super) fn bytes(
        &mut self,
        at: u64,
        length: u64,
        window: u64,
        back: u64,
    ) -> Result<&[u8], StoreError> {
        if self.windows.find(at, length).is_none() {
            let start = at.saturating_sub(back.min(self.ring.area / 4)) / self.sector * self.sector;
            let size = (at + length - start).max(window).next_multiple_of(self.sector).min(self.ring.area);
            self.windows.read(self.device, self.ring, start, size)?;
        }
        Ok(self.windows.find(at, length).expect("it was read just now"))
    }
}

//! Reading records back from the device.

use super::master::Master;
use super::record::{RECORD_HEADER_BYTES, RecordHeader};
use super::ring::Ring;
use super::{FIRST_LSN, LSN_MAX, PADDING};
use crate::{StoreError, points};
use entresol_core::{Lsn, mutant};
use entresol_device::{Device, DeviceError};

/// Bytes read at once going forward.
const WINDOW_FORWARD: u64 = 8 << 20;
/// Bytes read at once going backward.
const WINDOW_BACKWARD: u64 = 8 << 20;

/// A window on the log, moved as needed.
pub(crate) struct LogScan<'a> {
    device: &'a dyn Device,
    ring: Ring,
    id: u32,
    pub(super) sector: u64,
    pub(super) window: Vec<u8>,
    window_start: u64,
    /// A read error in the window.
    pub(super) unreadable: Option<DeviceError>,
}

impl<'a> LogScan<'a> {
    pub(crate) fn new(device: &'a dyn Device, master: &Master) -> LogScan<'a> {
        let (ring, sector) = (master.ring(), master.sector.into());
        LogScan { device, ring, id: master.id, sector, window: Vec::new(), window_start: 0, unreadable: None }
    }

    /// The record at or, past padding, behind `at`; `None` at the end of the log. `epoch` is the newest seen so far.
    pub(crate) fn next(&mut self, at: Lsn, epoch: u32) -> Result<Option<(RecordHeader, &[u8])>, StoreError> {
        let lsn = self.past_padding(at)?;
        let Some(header) = self.header(Lsn(lsn), WINDOW_FORWARD, 0)? else { return Ok(None) };
        if header.epoch < epoch && !mutant!("log-of-older-epoch-accepted") {
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

    /// Where the record at or, past padding, after `at` begins. Padding fills the rest of a sector: a length that turned into
    /// padding by damage is none.
    pub(super) fn past_padding(&mut self, at: Lsn) -> Result<u64, StoreError> {
        let lsn = at.0.next_multiple_of(8);
        let next = lsn.next_multiple_of(self.sector);
        let is_padding =
            lsn < next && self.bytes(lsn, next - lsn, WINDOW_FORWARD, 0)?.iter().all(|byte| *byte == PADDING);
        Ok(if is_padding { next } else { lsn })
    }

    /// The record at exactly `lsn`, which must be there. For reading backward.
    pub(crate) fn at(&mut self, lsn: Lsn) -> Result<(RecordHeader, &[u8]), StoreError> {
        let back = WINDOW_BACKWARD / 2;
        let possible = (FIRST_LSN..LSN_MAX).contains(&lsn.0) && lsn.0.is_multiple_of(8);
        let found = if possible { self.header(lsn, WINDOW_BACKWARD, back)? } else { None };
        let Some(header) = found else {
            return Err(self.missing(lsn));
        };
        let record = self.bytes(lsn.0, header.length as u64, WINDOW_BACKWARD, back)?;
        Ok((header, &record[RECORD_HEADER_BYTES..]))
    }

    /// The error for a record that must be at `lsn` and is not: the device's, if it could not read all that lies there.
    pub(crate) fn missing(&self, lsn: Lsn) -> StoreError {
        match &self.unreadable {
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

    /// Log bytes `[at, at + length)`; reads `window` bytes, from `back` bytes earlier, unless they are in memory.
    pub(super) fn bytes(
        &mut self,
        at: u64,
        length: u64,
        window: u64,
        back: u64,
    ) -> Result<&[u8], StoreError> {
        let end = self.window_start + self.window.len() as u64;
        if at < self.window_start || at + length > end {
            let start = at.saturating_sub(back.min(self.ring.area / 4)) / self.sector * self.sector;
            let size = (at + length - start).max(window).next_multiple_of(self.sector).min(self.ring.area);
            self.window.resize(size as usize, 0);
            self.window_start = start;
            self.unreadable = self.ring.read(self.device, start, &mut self.window)?;
        }
        let at = (at - self.window_start) as usize;
        Ok(&self.window[at..at + length as usize])
    }
}

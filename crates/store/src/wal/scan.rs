//! Reading records back from the device.

use super::master::Master;
use super::record::{RECORD_HEADER_BYTES, RecordHeader};
use super::{FIRST_LSN, LSN_MAX, pieces};
use crate::{StoreError, points};
use entresol_core::{Lsn, mutant};
use entresol_device::{Device, Io};

/// Bytes read at once going forward.
const WINDOW_FORWARD: u64 = 8 << 20;
/// Bytes read at once going backward.
const WINDOW_BACKWARD: u64 = 8 << 20;

/// A window on the log, moved as needed.
pub(crate) struct LogScan<'a> {
    device: &'a dyn Device,
    area: u64,
    id: u32,
    sector: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a> LogScan<'a> {
    pub(crate) fn new(device: &'a dyn Device, master: &Master) -> LogScan<'a> {
        let sector = u64::from(device.geometry().sector_bytes.max(512));
        LogScan { device, area: master.area, id: master.id, sector, window: Vec::new(), window_start: 0 }
    }

    /// Bytes of a sector.
    pub(crate) fn sector(&self) -> u64 {
        self.sector
    }

    /// The record at or, past padding, behind `at`; `None` at the end of the log. `epoch` is the newest seen so far.
    pub(crate) fn next(&mut self, at: Lsn, epoch: u32) -> Result<Option<(RecordHeader, &[u8])>, StoreError> {
        let mut lsn = at.0.next_multiple_of(8);
        if !lsn.is_multiple_of(self.sector) && self.bytes(lsn, 4, WINDOW_FORWARD, 0)? == [0; 4] {
            lsn = lsn.next_multiple_of(self.sector);
        }
        let Some(header) = self.header(Lsn(lsn), WINDOW_FORWARD, 0)? else { return Ok(None) };
        if header.epoch < epoch && !mutant!("log-of-older-epoch-accepted") {
            points::LOG_LEFTOVER.reach();
            return Ok(None);
        }
        let record = self.bytes(lsn, header.length as u64, WINDOW_FORWARD, 0)?;
        Ok(Some((header, &record[RECORD_HEADER_BYTES..])))
    }

    /// The record at exactly `lsn`, which must be there. For reading backward.
    pub(crate) fn at(&mut self, lsn: Lsn) -> Result<(RecordHeader, &[u8]), StoreError> {
        let back = WINDOW_BACKWARD / 2;
        let possible = (FIRST_LSN..LSN_MAX).contains(&lsn.0) && lsn.0.is_multiple_of(8);
        let found = if possible { self.header(lsn, WINDOW_BACKWARD, back)? } else { None };
        let Some(header) = found else {
            return Err(StoreError::Corrupt {
                place: format!("log at LSN {}", lsn.0),
                expected: "a whole record".into(),
                found: "none with this LSN and a right checksum".into(),
            });
        };
        let record = self.bytes(lsn.0, header.length as u64, WINDOW_BACKWARD, back)?;
        Ok((header, &record[RECORD_HEADER_BYTES..]))
    }

    fn header(&mut self, lsn: Lsn, window: u64, back: u64) -> Result<Option<RecordHeader>, StoreError> {
        let prefix = self.bytes(lsn.0, RECORD_HEADER_BYTES as u64, window, back)?;
        let Some(length) = RecordHeader::length_of(prefix) else { return Ok(None) };
        if length as u64 > self.area / 2 {
            return Ok(None);
        }
        let id = self.id;
        Ok(RecordHeader::open(self.bytes(lsn.0, length as u64, window, back)?, lsn, id))
    }

    /// Log bytes `[at, at + length)`; reads `window` bytes, from `back` bytes earlier, unless they are in memory.
    fn bytes(&mut self, at: u64, length: u64, window: u64, back: u64) -> Result<&[u8], StoreError> {
        let end = self.window_start + self.window.len() as u64;
        if at < self.window_start || at + length > end {
            let start = at.saturating_sub(back.min(self.area / 4)) / self.sector * self.sector;
            let size = (at + length - start).max(window).next_multiple_of(self.sector).min(self.area);
            self.window.resize(size as usize, 0);
            self.window_start = start;
            let [(first_offset, first), (second_offset, second)] = pieces(start, size, self.area);
            let (head, rest) = self.window.split_at_mut(first as usize);
            if second == 0 {
                self.device.read(first_offset, head)?;
            } else {
                self.device.run(&mut [
                    Io::Read { offset: first_offset, buffer: head },
                    Io::Read { offset: second_offset, buffer: rest },
                ])?;
            }
        }
        let at = (at - self.window_start) as usize;
        Ok(&self.window[at..at + length as usize])
    }
}

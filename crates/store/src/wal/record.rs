//! Log records.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length, header included |
//! | 4 | 4 | CRC32C of the payload, then of bytes 8 .. 40, seeded with the log's id |
//! | 8 | 8 | LSN |
//! | 16 | 8 | transaction, 0: the system |
//! | 24 | 8 | LSN of the transaction's record before, 0: none |
//! | 32 | 4 | epoch: number of the restart since which the record was written |
//! | 36 | 1 | kind |
//! | 37 | 3 | claim: an LSN that was durable before the flush of this record began, as (LSN - that) / 8 + 1; 0: none |
//! | 40 | | payload |
//!
//! Records start at multiples of 8. For the use of claims, see [`super::hole`].

use crate::TxnId;
use crate::bytes::{set_u32, set_u64, u32_at, u64_at};
use entresol_core::Lsn;
use entresol_format::checksum;

/// Bytes before the payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 40;
/// Maximum length of a record: a limit for lengths read from a device.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A transaction's change: its undo, then the changes of pages.
    Update = 1,
    /// Compensation: LSN of the next record to undo, then the changes of pages.
    Compensation = 2,
    /// The transaction is committed.
    Commit = 3,
    /// The transaction is rolled back completely.
    End = 4,
    /// A change of the system (structure modification): the changes of pages.
    System = 5,
    /// A checkpoint.
    Checkpoint = 6,
    /// Versions of pages that are durable in the layer below (see [`crate::durable`]).
    Durable = 7,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        Some(match byte {
            1 => RecordKind::Update,
            2 => RecordKind::Compensation,
            3 => RecordKind::Commit,
            4 => RecordKind::End,
            5 => RecordKind::System,
            6 => RecordKind::Checkpoint,
            7 => RecordKind::Durable,
            _ => return None,
        })
    }
}

/// A record's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub length: usize,
    pub lsn: Lsn,
    pub txn: TxnId,
    pub previous: Lsn,
    pub epoch: u32,
    pub kind: RecordKind,
    /// Everything before this LSN was durable before the flush of this record began.
    pub claim: Option<Lsn>,
}

/// Encodes the claim of a record at `lsn` for its header.
fn claim_bytes(lsn: Lsn, claim: Option<Lsn>) -> [u8; 3] {
    let code = claim.and_then(|claim| lsn.0.checked_sub(claim.0)).map_or(0, |distance| distance / 8 + 1);
    let code = if code < 1 << 24 { code as u32 } else { 0 };
    let [low, middle, high, _] = code.to_le_bytes();
    [low, middle, high]
}

/// The reverse of [`claim_bytes`].
fn claim_of(lsn: Lsn, bytes: &[u8]) -> Option<Lsn> {
    let code = u64::from(bytes[0]) | u64::from(bytes[1]) << 8 | u64::from(bytes[2]) << 16;
    lsn.0.checked_sub(code.checked_sub(1)? * 8).map(Lsn)
}

impl RecordHeader {
    /// Writes the header over the first 40 bytes of `record`, whose payload has the checksum `payload_sum`.
    pub(crate) fn seal(&self, record: &mut [u8], payload_sum: u32) {
        set_u32(record, 0, self.length as u32);
        set_u64(record, 8, self.lsn.0);
        set_u64(record, 16, self.txn.0);
        set_u64(record, 24, self.previous.0);
        set_u32(record, 32, self.epoch);
        record[36] = self.kind as u8;
        record[37..40].copy_from_slice(&claim_bytes(self.lsn, self.claim));
        let sum = checksum::append(payload_sum, &record[8..RECORD_HEADER_BYTES]);
        set_u32(record, 4, sum);
    }

    /// The lowest possible LSN of the next record.
    pub(crate) fn end(&self) -> Lsn {
        Lsn((self.lsn.0 + self.length as u64).next_multiple_of(8))
    }

    /// Whether this is the next record of a log that ends at `end`, after records of up to `epoch`. Padding
    /// ends a part of the buffer ([`super::tail`]), so a record after padding is the first one of its part,
    /// and claims its own LSN:
    ///
    /// 1. Power fails during a flush. A piece of its first sector is lost, and with it a record; the device
    ///    tears what counts as a sector here ([`super::master`]). The next sector is whole.
    /// 2. A restart ends the log at the lost record, and fills the rest of the sector with padding. Or the
    ///    lost piece reads as padding of an earlier round through the area.
    /// 3. The record in the next sector is of the same epoch. But it claims the LSN at which its flush began.
    pub(crate) fn continues(&self, end: Lsn, epoch: u32) -> bool {
        let is_first = || self.claim.is_none_or(|claim| claim == self.lsn);
        self.epoch >= epoch && (self.lsn <= Lsn(end.0.next_multiple_of(8)) || is_first())
    }

    /// The length in a header, if a record at `lsn` can have it.
    pub(crate) fn length_at(header: &[u8], lsn: Lsn) -> Option<usize> {
        let length = u32_at(header, 0) as usize;
        let possible = (RECORD_HEADER_BYTES..=RECORD_BYTES_MAX).contains(&length);
        (possible && u64_at(header, 8) == lsn.0).then_some(length)
    }

    /// Verifies that `record` is a whole record at `lsn` of the log `id`.
    pub(crate) fn open(record: &[u8], lsn: Lsn, id: u32) -> Option<RecordHeader> {
        let length = Self::length_at(record, lsn)?;
        if record.len() != length {
            return None;
        }
        let sum = checksum::append(
            payload_sum(id, &record[RECORD_HEADER_BYTES..]),
            &record[8..RECORD_HEADER_BYTES],
        );
        if sum != u32_at(record, 4) {
            return None;
        }
        Some(RecordHeader {
            length,
            lsn,
            txn: TxnId(u64_at(record, 16)),
            previous: Lsn(u64_at(record, 24)),
            epoch: u32_at(record, 32),
            kind: RecordKind::from_byte(record[36])?,
            claim: claim_of(lsn, &record[37..40]),
        })
    }
}

/// First part of a record's checksum.
pub(crate) fn payload_sum(id: u32, payload: &[u8]) -> u32 {
    checksum::append(id, payload)
}

/// Clears `record` and leaves space for the header.
pub(crate) fn start(record: &mut Vec<u8>) {
    record.clear();
    record.resize(RECORD_HEADER_BYTES, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_survives_its_encoding_or_is_none() {
        let there_and_back = |lsn, claim: u64| claim_of(Lsn(lsn), &claim_bytes(Lsn(lsn), Some(Lsn(claim))));
        for (lsn, claim) in [(4096, 4096), (4104, 4096), (1 << 40, (1 << 40) - (8 << 20)), (1 << 27, 16)] {
            assert_eq!(there_and_back(lsn, claim), Some(Lsn(claim)));
        }
        assert_eq!(there_and_back(1 << 40, (1 << 40) - (1 << 27)), None, "too far");
        assert_eq!(there_and_back(4096, 5000), None, "not of what follows");
        assert_eq!(claim_bytes(Lsn(4096), None), [0; 3]);
        assert_eq!(claim_of(Lsn(4096), &[0xff; 3]), None, "before the log's first byte");
    }
}

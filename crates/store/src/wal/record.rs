//! Log records.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length, header included; 0: the rest of the sector is padding |
//! | 4 | 4 | CRC32C of the payload, then of bytes 8 .. 40, seeded with the log's id |
//! | 8 | 8 | LSN |
//! | 16 | 8 | transaction, 0: the system |
//! | 24 | 8 | LSN of the transaction's record before, 0: none |
//! | 32 | 4 | epoch: number of the restart since which the record was written |
//! | 36 | 1 | kind |
//! | 37 | 3 | zero |
//! | 40 | | payload |
//!
//! Records start at multiples of 8.

use crate::TxnId;
use crate::page::bytes::{set_u32, set_u64, u32_at, u64_at};
use entresol_core::{Lsn, mutant};

/// Bytes before the payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 40;
/// Longest record: a bound for what is read from a device.
pub(crate) const RECORD_BYTES_MAX: usize = 4 << 20;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A transaction's change: how to undo it, then the pages' changes.
    Update = 1,
    /// Compensation: LSN of the next record to undo, then the pages' changes.
    Compensation = 2,
    /// The transaction is committed.
    Commit = 3,
    /// The transaction is rolled back completely.
    End = 4,
    /// The system's change (structure modification): the pages' changes.
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
}

impl RecordHeader {
    /// Writes the header over the first 40 bytes of `record`, whose payload has the checksum `payload_sum`.
    pub(crate) fn seal(&self, record: &mut [u8], payload_sum: u32) {
        set_u32(record, 0, self.length as u32);
        set_u64(record, 8, self.lsn.0);
        set_u64(record, 16, self.txn.0);
        set_u64(record, 24, self.previous.0);
        set_u32(record, 32, self.epoch);
        record[36..40].copy_from_slice(&[self.kind as u8, 0, 0, 0]);
        let sum = crc32c::crc32c_append(payload_sum, &record[8..RECORD_HEADER_BYTES]);
        set_u32(record, 4, sum);
    }

    /// Where the next record may be.
    pub(crate) fn end(&self) -> Lsn {
        Lsn((self.lsn.0 + self.length as u64).next_multiple_of(8))
    }

    /// The length that a record's first bytes tell, if it can be one.
    pub(crate) fn length_of(prefix: &[u8]) -> Option<usize> {
        let length = u32_at(prefix, 0) as usize;
        (RECORD_HEADER_BYTES..=RECORD_BYTES_MAX).contains(&length).then_some(length)
    }

    /// Proves that `record` is a whole record at `lsn` of the log `id`.
    pub(crate) fn open(record: &[u8], lsn: Lsn, id: u32) -> Option<RecordHeader> {
        let length = Self::length_of(record)?;
        if record.len() != length || u64_at(record, 8) != lsn.0 {
            return None;
        }
        let sum = crc32c::crc32c_append(
            payload_sum(id, &record[RECORD_HEADER_BYTES..]),
            &record[8..RECORD_HEADER_BYTES],
        );
        if sum != u32_at(record, 4) && !mutant!("torn-log-record-accepted") {
            return None;
        }
        Some(RecordHeader {
            length,
            lsn,
            txn: TxnId(u64_at(record, 16)),
            previous: Lsn(u64_at(record, 24)),
            epoch: u32_at(record, 32),
            kind: RecordKind::from_byte(record[36])?,
        })
    }
}

/// First part of a record's checksum.
pub(crate) fn payload_sum(id: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(id, payload)
}

/// Clears `record` and leaves room for the header.
pub(crate) fn start(record: &mut Vec<u8>) {
    record.clear();
    record.resize(RECORD_HEADER_BYTES, 0);
}

//! The records in memory that are not on the device yet.
//!
//! A buffer of more than [`PART_BYTES`] has *parts*. Each part begins on a sector boundary, and is made
//! durable before the next one is written. So each record can claim that a near LSN was durable before (see
//! [`super::hole`]).

use super::master::Master;
use super::record::{RECORD_HEADER_BYTES, RecordHeader, RecordKind, payload_sum};
use super::ring::PADDING;
use super::room::Room;
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A part of the buffer that has at least this many bytes gets no further record.
pub(super) const PART_BYTES: u64 = 512 << 10;

/// A record to append; the payload is after the space for the header in `bytes`.
pub(crate) struct Draft<'a> {
    pub kind: RecordKind,
    pub txn: TxnId,
    /// The transaction's newest LSN. It becomes the record's `previous`, and is set to the record's LSN.
    pub chain: Option<&'a AtomicU64>,
    /// The redo point under which the need for full images was decided.
    pub redo_point: Option<Lsn>,
    /// The room that was reserved for the record; no record is appended without room ([`crate::log_room`]).
    pub room: &'a Room<'a>,
}

/// See the module's header.
pub(crate) struct Tail {
    /// Seed of the records' checksums.
    id: u32,
    sector: u64,
    pending: TinyMutex<Pending>,
    /// A copy of the pending records' value, for reads without the lock.
    redo_point: AtomicU64,
}

struct Pending {
    buffer: Vec<u8>,
    /// LSN of the buffer's first byte; a sector boundary.
    start: u64,
    /// LSN of the first byte of the buffer's last part. All earlier bytes are durable before that part is
    /// written.
    part: u64,
    /// Offsets in the buffer at which its parts begin, without the first part.
    parts: Vec<usize>,
    /// [`PART_BYTES`], or less in tests.
    part_bytes: u64,
    epoch: u32,
    redo_point: Lsn,
}

impl Pending {
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Pads the buffer and begins a new part.
    fn begin_part(&mut self, sector: u64) {
        let padded = self.buffer.len().next_multiple_of(sector as usize);
        self.buffer.resize(padded, PADDING);
        self.parts.push(padded);
        self.part = self.end();
    }
}

impl Tail {
    /// The tail of the log of `master`, which continues at `start`, a sector boundary.
    pub(super) fn new(master: &Master, start: u64, redo_point: Lsn) -> Tail {
        let pending = Pending {
            buffer: Vec::new(),
            start,
            part: start,
            parts: Vec::new(),
            part_bytes: PART_BYTES,
            epoch: master.epoch,
            redo_point,
        };
        Tail {
            id: master.id,
            sector: master.sector.into(),
            pending: TinyMutex::new(Rank::LogTail, pending),
            redo_point: AtomicU64::new(redo_point.0),
        }
    }

    /// Appends a record and returns its LSN; `None` if the redo point has moved since the caller read it.
    pub(crate) fn append(&self, record: &mut Vec<u8>, draft: Draft<'_>) -> Option<Lsn> {
        let length = record.len();
        draft.room.assert_holds(length as u64);
        record.resize(length.next_multiple_of(8), 0);
        let sum = payload_sum(self.id, &record[RECORD_HEADER_BYTES..length]);
        let mut tail = self.pending.lock();
        if draft.redo_point.is_some_and(|seen| seen != tail.redo_point) {
            drop(tail);
            record.truncate(length);
            return None;
        }
        if tail.end() - tail.part >= tail.part_bytes {
            tail.begin_part(self.sector);
        }
        let lsn = Lsn(tail.end());
        let claim = Some(Lsn(tail.part));
        let previous = Lsn(draft.chain.map_or(0, |chain| chain.swap(lsn.0, Relaxed)));
        let header = RecordHeader {
            length,
            lsn,
            txn: draft.txn,
            previous,
            epoch: tail.epoch,
            kind: draft.kind,
            claim,
        };
        header.seal(record, sum);
        tail.buffer.extend_from_slice(record);
        Some(lsn)
    }

    /// A lower bound of the next record's LSN.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.pending.lock().end())
    }

    /// As [`Tail::end`], without waiting. `None`: a task appends or flushes right now.
    pub(super) fn try_end(&self) -> Option<Lsn> {
        Some(Lsn(self.pending.try_lock()?.end()))
    }

    /// Makes the end of the log the redo point, and runs `snapshot` while no record can be appended. If
    /// `snapshot` fails, the redo point stays.
    pub(crate) fn set_redo_point<T, E>(
        &self,
        snapshot: impl FnOnce(Lsn) -> Result<T, E>,
    ) -> Result<(Lsn, T), E> {
        let mut tail = self.pending.lock();
        let point = Lsn(tail.end());
        let taken = snapshot(point)?;
        tail.redo_point = point;
        self.redo_point.store(point.0, Release);
        Ok((point, taken))
    }

    /// A page with an older LSN needs a full image at its next change.
    pub(crate) fn redo_point(&self) -> Lsn {
        Lsn(self.redo_point.load(Acquire))
    }

    /// Exchanges the buffer with `buffer`, which is empty, after padding it to a sector. Returns its LSN and
    /// the offsets at which its parts begin, without the first part. If `check` refuses the padded end,
    /// nothing is taken.
    pub(super) fn take(
        &self,
        buffer: &mut Vec<u8>,
        check: impl FnOnce(u64) -> Result<(), StoreError>,
    ) -> Result<(u64, Vec<usize>), StoreError> {
        let mut tail = self.pending.lock();
        let padded = tail.buffer.len().next_multiple_of(self.sector as usize);
        check(tail.start + padded as u64)?;
        tail.buffer.resize(padded, PADDING);
        std::mem::swap(buffer, &mut tail.buffer);
        let start = tail.start;
        tail.start += padded as u64;
        tail.part = tail.start;
        Ok((start, std::mem::take(&mut tail.parts)))
    }

    #[cfg(test)]
    pub(super) fn set_part_bytes(&self, bytes: u64) {
        self.pending.lock().part_bytes = bytes;
    }
}

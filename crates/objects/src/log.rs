//! The log: changes of the table, in blocks that are written once.
//!
//! ```text
//!    durable blocks    under way     filled        open
//!  ├─────────────────┼────────────┼────────────┼──────────┤
//! log_from         acked        handed        open     open + 1      (block numbers)
//! ```
//!
//! The blocks from `acked` on are in the region's buffers. Block `b` is in buffer `b mod 8`, and at place
//! `b mod log blocks` of both copies on flash.
//!
//! A change that finds no free buffer, or no free place on flash, is not recorded, and neither are those
//! after it. Only a snapshot makes them durable. So a change never waits and never fails.

use crate::blocks::{Block, CUT, DEFINE, LOG_MAGIC, RECORDS_IN_BLOCK, RETIRE, RawBound, RawLog, RawRecord};
use crate::entry::Locator;
use crate::region::LOG_BUFFERS;
use crate::table::Objects;
use entresol_core::Position;
use entresol_format::block;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The number of a change of the table, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// What must be written before all changes are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// All changes are durable.
    Nothing,
    /// Log blocks: [`Objects::next_log_block`].
    Log,
    /// A snapshot: [`Objects::snapshot`].
    Snapshot,
    /// A snapshot is under way. Ask again after [`Objects::snapshot_written`].
    SnapshotUnderWay,
}

/// Names a log block that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogToken(pub(crate) u64);

/// A log block to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// Its place in both copies, in blocks from the beginning of the log area.
    pub place: u32,
    /// For [`Objects::log_written`].
    pub token: LogToken,
}

/// A change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Define { object: u32, locator: Locator },
    Retire { object: u32, rear: Position },
    Cut { object: u32, number: u32, rear: Position },
}

impl Record {
    fn encode(&self) -> RawRecord {
        let bound = |rear: Position, number| {
            let raw = RawBound { rear: U64::new(rear.0), number: U32::new(number), zero: [0; 12] };
            zerocopy::transmute!(raw)
        };
        let (kind, object, body) = match *self {
            Self::Define { object, locator } => (DEFINE, object, locator),
            Self::Retire { object, rear } => (RETIRE, object, bound(rear, 0)),
            Self::Cut { object, number, rear } => (CUT, object, bound(rear, number)),
        };
        RawRecord { kind: U32::new(kind), object: U32::new(object), body }
    }

    /// Reads one back. `None`: there is no such kind.
    pub fn decode(raw: &RawRecord) -> Option<Self> {
        let object = raw.object.get();
        let bound: RawBound = zerocopy::transmute!(raw.body);
        let rear = Position(bound.rear.get());
        match raw.kind.get() {
            DEFINE => Some(Self::Define { object, locator: raw.body }),
            RETIRE => Some(Self::Retire { object, rear }),
            CUT => Some(Self::Cut { object, number: bound.number.get(), rear }),
            _ => None,
        }
    }
}

/// The scalars of the log and of the snapshots.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct LogHead {
    /// Sequence of the next change.
    pub next: u64,
    /// All changes up to this one are durable.
    pub durable: u64,
    /// Records of the open block.
    pub open_records: u32,
    /// Whether changes are recorded. If not, only a snapshot makes them durable.
    pub recording: u32,
    /// The block that is filled next.
    pub open: u64,
    /// The block that is handed out next.
    pub handed: u64,
    /// All blocks below are durable, or covered by a snapshot.
    pub acked: u64,
    /// The newest durable snapshot.
    pub snapshot: u64,
    /// The log after the newest durable snapshot begins with this block.
    pub log_from: u64,
    /// The snapshot under way; 0: none.
    pub taken: u64,
    /// It covers the changes up to this one.
    pub taken_last: u64,
    /// The log after it begins with this block.
    pub taken_log_from: u64,
}

impl LogHead {
    pub fn format(&mut self) {
        self.next = 1;
    }
}

fn raw_mut(block: &mut Block) -> &mut RawLog {
    zerocopy::transmute_mut!(block)
}

impl Objects<'_> {
    /// The sequence of the newest change.
    pub fn last(&self) -> Sequence {
        Sequence(self.log.next - 1)
    }

    /// All changes up to this one survive a crash.
    pub fn durable(&self) -> Sequence {
        Sequence(self.log.durable)
    }

    /// What must be written before all changes are durable.
    pub fn pending(&self) -> Pending {
        if self.log.taken != 0 {
            Pending::SnapshotUnderWay
        } else if self.log.recording == 0 {
            Pending::Snapshot
        } else if self.durable() == self.last() {
            Pending::Nothing
        } else {
            Pending::Log
        }
    }

    /// Hands out the next log block: copies it into `block`. `None`: all blocks are handed out, or a snapshot
    /// must be written first. A block that was handed out is not changed any more.
    pub fn next_log_block(&mut self, block: &mut Block) -> Option<LogWrite> {
        if self.log.taken != 0 {
            return None;
        }
        if self.log.handed == self.log.open {
            if self.log.open_records == 0 {
                return None;
            }
            self.seal();
        }
        let number = self.log.handed;
        *block = *self.buffer(number);
        self.log.handed += 1;
        let place = (number % u64::from(self.config.log_blocks)) as u32;
        Some(LogWrite { place, token: LogToken(number) })
    }

    /// Tells the table that the block of `token` and all that were handed out before it are written to both
    /// copies and synced: their changes are durable.
    ///
    /// # Panics
    /// If the block was not handed out.
    pub fn log_written(&mut self, token: LogToken) {
        assert!(token.0 < self.log.handed, "log block {} was never handed out", token.0);
        if token.0 < self.log.acked {
            return;
        }
        let raw = raw_mut(self.buffer(token.0));
        let last = raw.first.get() + u64::from(raw.count.get()) - 1;
        self.log.durable = self.log.durable.max(last);
        self.log.acked = token.0 + 1;
    }

    /// Counts a change, and records it unless only a snapshot can make it durable.
    pub(crate) fn record(&mut self, record: &Record) {
        let sequence = self.log.next;
        self.log.next += 1;
        if self.log.recording == 0 {
            return;
        }
        if self.log.open_records == 0 {
            if !self.has_room() {
                self.log.recording = 0;
                return;
            }
            let raw = raw_mut(self.buffer(self.log.open));
            raw.zero();
            raw.first.set(sequence);
        }
        let at = self.log.open_records as usize;
        raw_mut(self.buffer(self.log.open)).records[at] = record.encode();
        self.log.open_records += 1;
        if self.log.open_records as usize == RECORDS_IN_BLOCK {
            self.seal();
        }
    }

    /// Whether there are a buffer, and a place that no snapshot needs, for another block.
    fn has_room(&self) -> bool {
        let log_from = if self.log.taken != 0 { self.log.taken_log_from } else { self.log.log_from };
        self.log.open - self.log.acked < LOG_BUFFERS as u64
            && self.log.open - log_from < u64::from(self.config.log_blocks)
    }

    /// Completes the open block.
    fn seal(&mut self) {
        let (open, cache, front, count) =
            (self.log.open, self.config.cache, self.table.front, self.log.open_records);
        let (durable, snapshot) = (self.log.durable, self.log.snapshot);
        let block = self.buffer(open);
        let raw = raw_mut(block);
        raw.cache = cache;
        raw.front.set(front);
        raw.durable.set(durable);
        raw.snapshot.set(snapshot);
        raw.count.set(count);
        block::seal(block, LOG_MAGIC, open);
        (self.log.open, self.log.open_records) = (open + 1, 0);
    }

    fn buffer(&mut self, number: u64) -> &mut Block {
        &mut self.buffers[(number % LOG_BUFFERS as u64) as usize]
    }
}

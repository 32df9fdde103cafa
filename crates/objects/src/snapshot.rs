//! Snapshots: the whole table, written to two areas in turn, each in both copies.
//!
//! The caller copies a snapshot out under its latch. It computes the checksums and writes without the latch.

use crate::blocks::{OBJECTS_IN_BLOCK, RawObject, RawSnapshot, SNAPSHOT_MAGIC};
use crate::config::ObjectsConfig;
use crate::entry::{Entry, State};
use crate::log::{LogHead, Pending};
use crate::table::Objects;
use entresol_format::block::{self, BLOCK_BYTES};
use entresol_format::checksum;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros};

/// One of the two areas of each copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotArea {
    /// That of snapshots with even numbers.
    Even,
    /// That of snapshots with odd numbers.
    Odd,
}

impl SnapshotArea {
    pub(crate) const fn of(number: u64) -> Self {
        if number.is_multiple_of(2) { Self::Even } else { Self::Odd }
    }
}

impl std::fmt::Display for SnapshotArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Even => "even",
            Self::Odd => "odd",
        })
    }
}

/// Names a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotToken(u64);

/// A snapshot to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWrite {
    /// Where it is written in both copies, from the beginning of the area.
    pub area: SnapshotArea,
    /// Its blocks.
    pub blocks: u32,
    /// For [`Objects::snapshot_written`].
    pub token: SnapshotToken,
}

impl SnapshotWrite {
    /// Computes the checksums in `bytes`, as filled by [`Objects::snapshot`]. Needs no latch.
    ///
    /// # Panics
    /// If `bytes` is shorter than the snapshot.
    pub fn seal(&self, bytes: &mut [u8]) {
        let (head, body) = bytes[..self.blocks as usize * BLOCK_BYTES].split_at_mut(BLOCK_BYTES);
        let raw = RawSnapshot::mut_from_bytes(head).expect("a header is a block");
        raw.checksum.set(checksum::of(body));
        block::seal(head, SNAPSHOT_MAGIC, self.token.0);
    }
}

/// Blocks of a snapshot with `objects` objects.
pub(crate) const fn blocks_of(objects: u32) -> u32 {
    1 + objects.div_ceil(OBJECTS_IN_BLOCK as u32)
}

impl Entry {
    fn store(&self) -> RawObject {
        RawObject {
            locator: self.locator,
            state: U32::new(self.state().code()),
            high: U32::new(self.high),
            numbers: self.numbers.map(U32::new),
            rears: self.rears.map(U32::new),
        }
    }

    /// From the bytes on flash. `None`: no table can hold it.
    pub(crate) fn restore(raw: &RawObject) -> Option<Self> {
        let mut entry = Self::new_zeroed();
        entry.locator = raw.locator;
        entry.set_state(State::of(raw.state.get())?);
        entry.high = raw.high.get();
        entry.numbers = raw.numbers.map(U32::get);
        entry.rears = raw.rears.map(U32::get);
        entry.is_possible().then_some(entry)
    }
}

impl Objects<'_> {
    /// Whether a snapshot should be written: more than half of the log is in use, or changes are pending that
    /// the log has no room for.
    pub fn snapshot_due(&self) -> bool {
        match self.pending() {
            Pending::Snapshot => true,
            Pending::SnapshotUnderWay => false,
            Pending::Nothing | Pending::Log => {
                (self.log.open - self.log.log_from) * 2 > u64::from(self.config.log_blocks)
            }
        }
    }

    /// Blocks of the snapshot whose first block is `head`, as far as that can be told. `None`: it is none of
    /// this table. So a reader need not read the whole area.
    pub fn snapshot_length(head: &[u8], config: &ObjectsConfig) -> Option<u32> {
        block::open(head, SNAPSHOT_MAGIC).ok()?;
        let raw = RawSnapshot::ref_from_bytes(head).ok()?;
        let objects = raw.objects.get();
        (raw.cache == config.cache && objects <= config.objects_max).then(|| blocks_of(objects))
    }

    /// Blocks of a snapshot that is taken now.
    pub fn snapshot_blocks(&self) -> u32 {
        blocks_of(self.table.defined)
    }

    /// Takes a snapshot: copies it into `bytes`, which has at least [`Objects::snapshot_blocks`] blocks. The
    /// caller completes it with [`SnapshotWrite::seal`], writes and syncs it. `None`: one is under way. Until
    /// that one is durable, the table hands out no log block.
    ///
    /// # Panics
    /// If `bytes` is too short.
    pub fn snapshot(&mut self, bytes: &mut [u8]) -> Option<SnapshotWrite> {
        if self.log.taken != 0 {
            return None;
        }
        let (number, last, log_from) = (self.log.snapshot + 1, self.log.next - 1, self.log.handed);
        let (blocks, objects) = (self.snapshot_blocks(), self.table.defined);
        let bytes = &mut bytes[..blocks as usize * BLOCK_BYTES];
        bytes.fill(0);
        let (head, body) = RawSnapshot::mut_from_prefix(bytes).expect("a snapshot is longer than its header");
        head.cache = self.config.cache;
        head.last.set(last);
        head.log_from.set(log_from);
        head.front.set(self.table.front);
        head.log_blocks.set(self.config.log_blocks);
        head.objects.set(objects);
        let (stored, _) = <[RawObject]>::mut_from_prefix_with_elems(body, objects as usize)
            .expect("the blocks have room for the objects");
        for (raw, entry) in stored.iter_mut().zip(&*self.entries) {
            *raw = entry.store();
        }
        // The snapshot covers all changes so far. The buffers are not needed any more.
        *self.log = LogHead {
            open_records: 0,
            recording: 1,
            open: log_from,
            acked: log_from,
            taken: number,
            taken_last: last,
            taken_log_from: log_from,
            ..*self.log
        };
        Some(SnapshotWrite { area: SnapshotArea::of(number), blocks, token: SnapshotToken(number) })
    }

    /// Tells the table that the snapshot is written and synced: its changes are durable, and the log before
    /// it is not needed any more.
    ///
    /// # Panics
    /// If this snapshot is not under way.
    pub fn snapshot_written(&mut self, token: SnapshotToken) {
        assert!(token.0 == self.log.taken, "snapshot {} is not under way", token.0);
        self.log.durable = self.log.durable.max(self.log.taken_last);
        (self.log.snapshot, self.log.log_from) = (token.0, self.log.taken_log_from);
        self.log.taken = 0;
    }
}

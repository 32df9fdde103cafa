//! What the copies of the superblock on flash record: kept in memory, so that writers know which slots may be
//! overwritten.

use crate::buffer::AlignedBuffer;
use entresol_core::Position;
use entresol_format::BLOCK_BYTES;
use entresol_format::superblock::{COPIES, Superblock};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The superblock as last written.
pub(crate) struct Superblocks {
    pub(super) last: Mutex<Last>,
    recorded_front: AtomicU64,
    /// The oldest durable position that a copy records, and the newest.
    pub(super) oldest_durable: AtomicU64,
    pub(super) newest_durable: AtomicU64,
    pub(super) first_segment_missing: AtomicU64,
    /// The newest `unsure_from`.
    pub(super) unsure_from: AtomicU64,
    /// The newest position in the owner's log.
    pub(super) log: AtomicU64,
    /// The owner's mark of the last checkpoint, and the rear then.
    marked: (AtomicU64, AtomicU64),
    pub cache: entresol_format::Uuid,
    pub epoch: u64,
}

/// The copies in memory, with a block to write one.
pub(super) struct Last {
    pub block: AlignedBuffer,
    /// The copies, by their places.
    pub copies: [Superblock; COPIES as usize],
}

impl Last {
    pub(super) fn newest(&self) -> Superblock {
        *self.copies.iter().max_by_key(|copy| copy.sequence).expect("there are copies")
    }
}

impl Superblocks {
    /// `last` was written to all copies.
    pub(crate) fn new(last: Superblock) -> Self {
        Self {
            recorded_front: AtomicU64::new(last.front.0),
            oldest_durable: AtomicU64::new(last.durable.0),
            newest_durable: AtomicU64::new(last.durable.0),
            first_segment_missing: AtomicU64::new(last.segment_next),
            unsure_from: AtomicU64::new(last.unsure_from.0),
            log: AtomicU64::new(last.log.lsn),
            marked: (AtomicU64::new(0), AtomicU64::new(0)),
            cache: last.cache,
            epoch: last.epoch,
            last: Mutex::new(
                Rank::Superblock,
                Last { block: AlignedBuffer::new(BLOCK_BYTES), copies: [last; COPIES as usize] },
            ),
        }
    }

    /// How many copies have the newest renewal of the label.
    pub(crate) fn with_newest_renewal(&self) -> usize {
        let last = self.last.lock();
        let newest = last.newest().renewal;
        last.copies.iter().filter(|copy| copy.renewal == newest).count()
    }

    /// How many copies have these marks of the owner.
    pub(crate) fn with_marks(&self, marks: [u64; 2]) -> usize {
        self.last.lock().copies.iter().filter(|copy| copy.marks == marks).count()
    }

    /// A copy says so durably: how far the owner's log was.
    pub(crate) fn log_recorded(&self) -> u64 {
        self.log.load(SeqCst)
    }

    /// All positions below this one are durably recorded as dequeued for good.
    pub(crate) fn recorded_front(&self) -> Position {
        Position(self.recorded_front.load(SeqCst))
    }

    /// A durable record says that all positions below `front` are dequeued for good.
    pub(crate) fn front_is_recorded(&self, front: Position) {
        self.recorded_front.fetch_max(front.0, SeqCst);
    }

    /// What is on flash below this position is on disk, too, unless it is dirty.
    pub(crate) fn sure(&self) -> Position {
        Position(self.unsure_from.load(SeqCst))
    }

    /// The owner makes a checkpoint called `marks[1]`, with everything below `rear` in the cache; its last
    /// complete one is called `marks[0]`. Returns the position below which it knows its own writes to be
    /// durable: the rear at that checkpoint. One task asks.
    pub(super) fn complete_below(&self, marks: [u64; 2], rear: Position) -> Position {
        let (mark, at) = &self.marked;
        let complete = if mark.load(SeqCst) == marks[0] { Position(at.load(SeqCst)) } else { Position(0) };
        // A repeated checkpoint says nothing new of what came since.
        if mark.swap(marks[1], SeqCst) != marks[1] {
            at.store(rear.0, SeqCst);
        }
        complete
    }

    /// The number of the next directory segment to write.
    pub(crate) fn segment_next(&self) -> u64 {
        self.first_segment_missing.load(SeqCst)
    }
}

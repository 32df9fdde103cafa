//! Writing superblocks.
//!
//! Invariant (the *recorded front*): a slot is overwritten only when a durable record, a group summary or
//! every copy of the superblock, says that the position it held is dequeued for good. So whatever recovery
//! finds at or above the recorded front is still whole, and no entry that it brings back points into a group
//! that was being written when the power failed.
//!
//! Second invariant: no group is written more than seven eighths of a ring beyond the durable position of any
//! of the superblock's copies. So a scan that starts there finds the rear without meeting groups of another
//! round, whichever copy is left. The copies are written in turn, at even distances: a small write between
//! the groups costs a drive more than its time.

use super::shared::Shared;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use entresol_core::{Position, mutant};
use entresol_format::BLOCK_BYTES;
use entresol_format::superblock::{COPIES, Superblock};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The superblock as last written.
pub(crate) struct Superblocks {
    last: Mutex<Last>,
    recorded_front: AtomicU64,
    /// The oldest durable position that a copy records, and the newest.
    oldest_durable: AtomicU64,
    newest_durable: AtomicU64,
    first_segment_missing: AtomicU64,
    pub cache: entresol_format::Uuid,
    pub epoch: u64,
}

struct Last {
    block: AlignedBuffer,
    /// The copies, by their places.
    copies: [Superblock; COPIES as usize],
}

impl Last {
    fn newest(&self) -> Superblock {
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
            cache: last.cache,
            epoch: last.epoch,
            last: Mutex::new(
                Rank::Superblock,
                Last { block: AlignedBuffer::new(BLOCK_BYTES), copies: [last; COPIES as usize] },
            ),
        }
    }

    /// All positions below this one are durably recorded as dequeued for good.
    pub(crate) fn recorded_front(&self) -> Position {
        Position(self.recorded_front.load(SeqCst))
    }

    /// A durable record says that all positions below `front` are dequeued for good.
    pub(crate) fn front_is_recorded(&self, front: Position) {
        self.recorded_front.fetch_max(front.0, SeqCst);
    }

    /// The number of the next directory segment to write.
    pub(crate) fn segment_next(&self) -> u64 {
        self.first_segment_missing.load(SeqCst)
    }
}

impl Shared {
    /// Writes a superblock with the present positions and whatever `change` sets, durably.
    pub(crate) fn write_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), TierError> {
        self.write_next(&mut self.superblocks.last.lock(), change)
    }

    fn write_next(&self, last: &mut Last, change: impl FnOnce(&mut Superblock)) -> Result<(), TierError> {
        let mut next = last.newest();
        let Last { block, copies } = last;
        if self.is_log() {
            let ((front, rear), published) =
                self.with(|partition| (partition.window(), partition.published()));
            (next.front, next.rear, next.durable) = (front, rear, published);
            if mutant!("durable-position-runs-ahead") {
                let group = u64::from(self.config.group_pages);
                next.durable = Position(rear.0 / group * group);
            }
        }
        change(&mut next);
        next.sequence += 1;
        next.encode(block);
        self.flash.write(next.offset(), block).map_err(flash_error)?;
        if !mutant!("superblock-not-synced") {
            self.sync_flash()?;
        }
        copies[(next.sequence % COPIES) as usize] = next;
        let oldest =
            |field: fn(&Superblock) -> Position| copies.iter().map(field).min().expect("there are copies");
        self.superblocks.front_is_recorded(oldest(|copy| copy.front));
        self.superblocks.oldest_durable.store(oldest(|copy| copy.durable).0, SeqCst);
        self.superblocks.newest_durable.store(next.durable.0, SeqCst);
        self.superblocks.first_segment_missing.store(next.segment_next, SeqCst);
        Ok(())
    }

    /// Sees to it that groups up to the position `end` may be written.
    pub(crate) fn allow_writes_to(&self, end: Position) -> Result<(), TierError> {
        let slots = u64::from(self.config.slots);
        let front_needed = end.0.saturating_sub(slots);
        let oldest_needed = end.0.saturating_sub(slots * 7 / 8);
        let newest_needed = end.0.saturating_sub(slots * 7 / (8 * COPIES));
        let allowed = || {
            (self.superblocks.recorded_front().0 >= front_needed
                || mutant!("front-not-recorded-before-reuse"))
                && self.superblocks.oldest_durable.load(SeqCst) >= oldest_needed
                && self.superblocks.newest_durable.load(SeqCst) >= newest_needed
        };
        if allowed() {
            return Ok(());
        }
        let mut last = self.superblocks.last.lock();
        // Another writer may have done it meanwhile.
        for _ in 0..COPIES {
            if allowed() {
                break;
            }
            self.write_next(&mut last, |_| ())?;
        }
        Ok(())
    }
}

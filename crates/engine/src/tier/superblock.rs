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

use super::back::Back;
use super::superblock_copies::Last;
use crate::TierError;
use crate::error::flash_error;
use entresol_core::{Position, mutant};
use entresol_format::superblock::{COPIES, Superblock};
use std::sync::atomic::Ordering::SeqCst;

impl Back {
    /// Writes a superblock with the present positions and whatever `change` sets, durably.
    pub(crate) fn write_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), TierError> {
        self.write_next(&mut self.superblocks.last.lock(), change)
    }

    fn write_next(&self, last: &mut Last, change: impl FnOnce(&mut Superblock)) -> Result<(), TierError> {
        let mut next = last.newest();
        let Last { block, copies } = last;
        if self.is_log() {
            let ((front, rear), published) =
                self.front.with(|partition| (partition.window(), partition.published()))?;
            (next.front, next.rear, next.durable) = (front, rear, published);
            if mutant!("durable-position-runs-ahead") {
                let group = u64::from(self.front.config.group_pages);
                next.durable = Position(rear.0 / group * group);
            }
        }
        if let Some(marks) = self.front.board.marks() {
            next.marks = marks;
        }
        if let Some(log) = self.disk.log() {
            next.log = log.position();
            next.mark_digests = log.digests_at(next.marks);
        }
        change(&mut next);
        next.sequence += 1;
        next.encode(block);
        self.flash.write(next.offset(), block).map_err(flash_error)?;
        if !mutant!("superblock-not-synced") {
            self.flash.sync_writes()?;
        }
        copies[(next.sequence % COPIES) as usize] = next;
        let oldest =
            |field: fn(&Superblock) -> Position| copies.iter().map(field).min().expect("there are copies");
        self.superblocks.front_is_recorded(oldest(|copy| copy.front));
        if self.is_log() {
            let front = self.superblocks.recorded_front();
            self.front.records_are_durable(0, front)?;
        }
        self.superblocks.oldest_durable.store(oldest(|copy| copy.durable).0, SeqCst);
        self.superblocks.newest_durable.store(next.durable.0, SeqCst);
        self.superblocks.first_segment_missing.store(next.segment_next, SeqCst);
        self.superblocks.unsure_from.store(next.unsure_from.0, SeqCst);
        self.superblocks.log.store(next.log.lsn, SeqCst);
        Ok(())
    }

    /// Sees to it that groups up to the position `end` may be written.
    pub(crate) fn allow_writes_to(&self, end: Position) -> Result<(), TierError> {
        let slots = u64::from(self.front.config.slots);
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

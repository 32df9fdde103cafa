//! Writing superblocks, and what the copies on flash record: kept in memory, so that writers know which slots
//! may be overwritten.
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

use super::flash::Flash;
use crate::TierError;
use crate::access::{Access, BoardRef, Directory, ObjectTable};
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::error::flash_error;
use entresol_core::{Config, Position};
use entresol_format::BLOCK_BYTES;
use entresol_format::superblock::{COPIES, Superblock};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The superblock as last written.
pub(crate) struct Superblocks {
    directory: Arc<Directory>,
    table: Arc<ObjectTable>,
    board: BoardRef,
    flash: Arc<Flash>,
    disk: Arc<DiskPages>,
    last: Mutex<Last>,
    recorded_front: AtomicU64,
    /// The oldest durable position that a copy records, and the newest.
    oldest_durable: AtomicU64,
    newest_durable: AtomicU64,
    /// The greatest durable position that a durable summary records.
    summary_durable: AtomicU64,
    first_segment_missing: AtomicU64,
    /// The newest `unsure_from`.
    unsure_from: AtomicU64,
    /// The newest position in the owner's log.
    log: AtomicU64,
    /// The owner's mark of the last checkpoint, and the rear then.
    marked: (AtomicU64, AtomicU64),
    pub cache: entresol_format::Uuid,
    pub epoch: u64,
}

/// The copies in memory, with a block to write one.
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
    pub(crate) fn new(
        access: &Arc<Access>,
        flash: &Arc<Flash>,
        disk: &Arc<DiskPages>,
        last: Superblock,
    ) -> Self {
        Self {
            directory: access.directory.clone(),
            table: access.objects.clone(),
            board: access.board.clone(),
            flash: flash.clone(),
            disk: disk.clone(),
            recorded_front: AtomicU64::new(last.front.0),
            oldest_durable: AtomicU64::new(last.durable.0),
            newest_durable: AtomicU64::new(last.durable.0),
            summary_durable: AtomicU64::new(0),
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

    /// Writes a superblock with the present positions and whatever `change` sets, durably.
    pub(crate) fn write(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), TierError> {
        self.write_next(&mut self.last.lock(), change)
    }

    fn write_next(&self, last: &mut Last, change: impl FnOnce(&mut Superblock)) -> Result<(), TierError> {
        let mut next = last.newest();
        let Last { block, copies } = last;
        if self.directory.is_log() {
            let ((front, rear), published) =
                self.directory.with(|partition| (partition.window(), partition.published()))?;
            (next.front, next.rear, next.durable) = (front, rear, published);
        }
        if let Some((checkpoint, horizon)) = self.horizon()? {
            next.checkpoint = checkpoint.max(next.checkpoint);
            next.horizon = horizon.max(next.horizon).min(next.checkpoint);
        }
        if let Some(marks) = self.board.marks() {
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
        self.flash.sync_writes()?;
        copies[(next.sequence % COPIES) as usize] = next;
        let oldest =
            |field: fn(&Superblock) -> Position| copies.iter().map(field).min().expect("there are copies");
        self.front_is_recorded(oldest(|copy| copy.front));
        if self.directory.is_log() {
            let front = self.recorded_front();
            self.table.records_are_durable(0, front)?;
        }
        self.oldest_durable.store(oldest(|copy| copy.durable).0, SeqCst);
        self.newest_durable.store(next.durable.0, SeqCst);
        self.first_segment_missing.store(next.segment_next, SeqCst);
        self.unsure_from.store(next.unsure_from.0, SeqCst);
        self.log.store(next.log.lsn, SeqCst);
        Ok(())
    }

    /// The owner's last complete checkpoint, and the horizon, if the cache keeps bases.
    fn horizon(&self) -> Result<Option<(u64, u64)>, TierError> {
        if !self.directory.config.keeps_bases {
            return Ok(None);
        }
        Ok(self.directory.with(|partition| {
            let log = partition.log().filter(|log| log.keeps_bases());
            log.map(|log| (log.last_checkpoint(), log.horizon()))
        })?)
    }

    /// Sees to it that groups up to the position `end` may be written.
    pub(crate) fn allow_writes_to(&self, end: Position) -> Result<(), TierError> {
        let Config { slots, group_pages, refusals, .. } = self.directory.config;
        let slots = u64::from(slots);
        // So that a restart finds a group free for what the disk may refuse.
        let kept_free = if refusals { u64::from(group_pages) } else { 0 };
        let free_needed = Position((end.0 + kept_free).saturating_sub(slots));
        // What is kept now may have taken that group.
        let released = self.directory.with(|partition| partition.window().0)?;
        let front_needed = free_needed.min(released).0.max(end.0.saturating_sub(slots));
        let oldest_needed = end.0.saturating_sub(slots * 7 / 8);
        let newest_needed = end.0.saturating_sub(slots * 7 / (8 * COPIES));
        let allowed = || {
            self.recorded_front().0 >= front_needed
                && self.oldest_durable.load(SeqCst) >= oldest_needed
                && self.newest_durable.load(SeqCst) >= newest_needed
        };
        if allowed() {
            return Ok(());
        }
        let mut last = self.last.lock();
        // Another writer may have done it meanwhile.
        for _ in 0..COPIES {
            if allowed() {
                break;
            }
            self.write_next(&mut last, |_| ())?;
        }
        Ok(())
    }

    /// The owner's marks are durable from now on.
    pub(crate) fn mark(&self, marks: [u64; 2]) -> Result<(), TierError> {
        self.board.set_marks(marks);
        self.write(|_| ())?;
        self.double_marks()
    }

    /// New marks of the owner are on two copies, so that one may be lost.
    pub(crate) fn double_marks(&self) -> Result<(), TierError> {
        let Some(marks) = self.board.marks() else { return Ok(()) };
        let copies = self.last.lock().copies.iter().filter(|copy| copy.marks == marks).count();
        if copies < 2 { self.write(|_| ()) } else { Ok(()) }
    }

    /// How many copies have the newest renewal of the label.
    pub(crate) fn with_newest_renewal(&self) -> usize {
        let last = self.last.lock();
        let newest = last.newest().renewal;
        last.copies.iter().filter(|copy| copy.renewal == newest).count()
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
    pub(crate) fn complete_below(&self, marks: [u64; 2], rear: Position) -> Position {
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

    /// A durable summary says that groups below this position were durable.
    pub(crate) fn summary_says(&self, durable: Position) {
        self.summary_durable.fetch_max(durable.0, SeqCst);
    }

    /// A durable block on flash says that groups below this position are durable.
    pub(crate) fn told_durable(&self) -> Position {
        Position(self.summary_durable.load(SeqCst).max(self.newest_durable.load(SeqCst)))
    }
}

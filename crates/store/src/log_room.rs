//! Room in the log: a record is appended only if it has room, and a restart has its own room.
//!
//! Checkpoints free the oldest part of the log, but no record that an active transaction may need for its
//! undo. So there must always be room to roll back all active transactions, now or in a restart. Otherwise
//! the store could never be opened again.
//!
//! The following parts of an area of `A` bytes are counted:
//!
//! - `U`, used: from the oldest needed record to the end, rounded up to a sector;
//! - `R`, reserved: bytes that operations in progress may still append ([`Room`]), each with the padding of a
//!   sector;
//! - `N`, needed: bytes that rollbacks and ends of the active transactions may append ([`crate::undo`]).
//!
//! Rules:
//!
//! 1. A client's change, a structure modification, a new table, a bulk load and a note of durable pages
//!    reserve their worst case before they append, and release it afterwards. They are admitted if `U + R <=
//!    A/2` and `U + R + N <= 7/8 A`.
//! 2. A change is added to the transaction's need before it is logged. It is refused unless `N <= 3/8 A` and
//!    `U + R + N <= 7/8 A`.
//! 3. A commit, an abort and every record of a rollback use the transaction's part of `N`, and reserve
//!    nothing.
//! 4. A checkpoint moves the redo point only if `U + R + N` and its own record fit in `15/16 A`. Here `N` is
//!    the full need: a rollback does not reduce it, because pages may need an image again. No checkpoint
//!    begins if active transactions hold so much of the log that it could not make room for a change.
//!
//! Why a restart always has room:
//!
//! 1. By rules 1 and 2, `U + R + N <= 7/8 A` after each admission. A reserved append moves bytes from `R` to
//!    `U`. A split also moves bytes from `R` to `N` (its reservation has room for that). An append of rule 3
//!    moves bytes from the rest of `N` to `U`. So `U` and the rest of `N` stay within `7/8 A`, and with a
//!    checkpoint's record within `15/16 A`.
//! 2. After a crash, the same bytes bound the content of the log and the bytes that undo has yet to append. A
//!    restart keeps the redo point of its checkpoint. So a page that has an image gets no second one, however
//!    often restarts are cut off. Notes are admitted by rule 1 only.
//! 3. A sixteenth remains for bytes that no need counts: inner pages above a split parent, a flush torn by a
//!    crash, and the padding and the record of the restart's own checkpoint. If a restart wrote a checkpoint
//!    record but could not make it the newest checkpoint, the next restart does so (`crate::recovery`). So
//!    these records do not add up.
//!
//! The log that is kept for the loss of the flash is a part of `U`. It is at most a quarter of the log's
//! device, so clients are admitted once the log has grown into that. A checkpoint that makes room for them
//! brings pages to disk until it is free.
//!
//! A task that waits for room holds no room and no permit of the pool. So it waits only for operations that
//! end by themselves (`R`) or for a checkpoint. A reservation is never held during a wait for a row lock or
//! for a checkpoint. The modification lock may be held: no task that has room waits for it.

use crate::StoreError;
use crate::checkpoint::Checkpointer;
use crate::undo::{IMAGES_OF_SPLIT, LogBounds, padding_share};
use crate::wal::{Room, Wal};
use entresol_runtime::sync::{Hold, Rank};
use std::sync::Arc;

/// Images in the records of one step of a structure modification: at most nine pages that are not cleared,
/// and a bitmap.
const IMAGES_OF_STEP: u64 = 10;
/// Bytes of a step's records without its images.
const STEP_BYTES: u64 = 2048;
/// How many checkpoints a client makes for room before it gives up.
const ROUNDS: usize = 8;

/// See the module's header.
pub(crate) struct LogRoom {
    wal: Arc<Wal>,
    bounds: Arc<LogBounds>,
    checkpointer: Arc<Checkpointer>,
    page_bytes: usize,
}

impl LogRoom {
    pub(crate) fn new(
        wal: Arc<Wal>,
        bounds: Arc<LogBounds>,
        checkpointer: Arc<Checkpointer>,
        page_bytes: usize,
    ) -> LogRoom {
        LogRoom { wal, bounds, checkpointer, page_bytes }
    }

    /// Called before a change, without any latch. If a third of the log or more is used, a checkpoint is made
    /// in the background, provided that it frees half of the used bytes.
    pub(crate) fn make(&self) {
        if self.checkpointer.is_overdue() {
            // The bound of the log that is kept for the loss of the flash. Errors are permanent, or the
            // room's.
            let _ = self.checkpointer.catch_up();
        }
        let used = self.wal.ledger().used();
        if self.checkpointer.is_due() && self.bounds.log_held() < used / 2 {
            return self.checkpointer.request();
        }
        if used < self.wal.ledger().area() / 3 || self.bounds.log_held() >= used / 2 {
            return;
        }
        self.checkpointer.request();
    }

    /// Before and after changes that are not in the log: see [`Checkpointer::settle`]. The caller may hold
    /// the modification lock, and holds no permit, no latch and no room.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        self.checkpointer.settle()
    }

    /// Room for the change of a row.
    pub(crate) fn for_change(&self) -> Result<Room<'_>, StoreError> {
        self.reserve(self.bounds.change_bytes())
    }

    /// Room for one step of a structure modification, which may increase the need of other transactions. The
    /// caller may hold the modification lock, and holds no permit and no latch.
    pub(crate) fn for_step(&self) -> Result<Room<'_>, StoreError> {
        let sector = self.wal.ledger().sector();
        let split = IMAGES_OF_SPLIT * (self.page_bytes as u64 + 64 + padding_share(sector));
        self.reserve(STEP_BYTES + IMAGES_OF_STEP * (self.page_bytes as u64 + 64) + 2 * sector + split)
    }

    /// Reserves `bytes`; waits for operations in progress or for a checkpoint. [`StoreError::LogFull`] if
    /// active transactions hold the log.
    fn reserve(&self, bytes: u64) -> Result<Room<'_>, StoreError> {
        // The wait may be for a checkpoint.
        Hold::may_wait(Rank::Checkpoint);
        let mut rounds = 0;
        loop {
            if let Some(room) = self.wal.ledger().try_reserve(bytes, self.bounds.undo_need_estimate()) {
                return Ok(room);
            }
            let need = self.bounds.undo_need();
            if let Some(room) = self.wal.ledger().try_reserve(bytes, need) {
                return Ok(room);
            }
            if self.wal.ledger().wait_for_release(bytes, need) {
                continue;
            }
            if rounds == ROUNDS || self.bounds.is_held_against(bytes) {
                return Err(self.bounds.log_full());
            }
            self.checkpointer.make_for(bytes)?;
            rounds += 1;
        }
    }
}

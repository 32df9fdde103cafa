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
//! - `N`, needed: bytes that rollbacks and ends of the active transactions may append ([`crate::undo_need`]).
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
//! A task that waits for room holds no room and no permit of the pool. So it waits only for operations that
//! end by themselves (`R`) or for a checkpoint. A reservation is never held during a wait for a row lock or
//! for a checkpoint. The modification lock may be held: no task that has room waits for it.

use crate::StoreError;
use crate::core::Core;
use crate::page::node::max_row;
use crate::txn::active::TxnState;
use crate::undo_need::{IMAGES_OF_SPLIT, Sizes, UndoNeed, padding_share};
use crate::wal::Room;
use entresol_runtime::sync::{Hold, Rank};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Images in the records of one step of a structure modification: at most nine pages that are not cleared,
/// and a bitmap.
const IMAGES_OF_STEP: u64 = 10;
/// Bytes of a step's records without its images.
const STEP_BYTES: u64 = 2048;
/// Bytes of a page change without the page and the row: header, undo entry, padding.
const CHANGE_BYTES: u64 = 128;
/// How many checkpoints a client makes for room before it gives up.
const ROUNDS: usize = 8;

impl Core {
    /// Called before a change, without any latch. If a third of the log or more is used, a checkpoint is made
    /// in the background, provided that it frees half of the used bytes.
    pub(crate) fn make_log_room(self: &Arc<Self>) {
        let used = self.wal.ledger().used();
        if used < self.wal.ledger().area() / 3 || self.log_held() >= used / 2 {
            return;
        }
        if !self.checkpoint_wanted.swap(true, Relaxed) {
            let core = self.clone();
            entresol_runtime::spawn("checkpoint for log space", move || {
                // Errors of the log and the layer are permanent: the next client gets them.
                let _ = core.make_checkpoint_unless_closed();
                core.checkpoint_wanted.store(false, Relaxed);
            });
        }
    }

    /// Room for the change of a row.
    pub(crate) fn room_for_change(&self) -> Result<Room<'_>, StoreError> {
        self.reserve(self.change_bytes())
    }

    /// Room for one step of a structure modification, which may increase the need of other transactions. The
    /// caller may hold the modification lock, and holds no permit and no latch.
    pub(crate) fn room_for_step(&self) -> Result<Room<'_>, StoreError> {
        let sector = self.wal.ledger().sector();
        let split = IMAGES_OF_SPLIT * (self.page_bytes() as u64 + 64 + padding_share(sector));
        self.reserve(STEP_BYTES + IMAGES_OF_STEP * (self.page_bytes() as u64 + 64) + 2 * sector + split)
    }

    /// Reserves `bytes`; waits for operations in progress or for a checkpoint. [`StoreError::LogFull`] if
    /// active transactions hold the log.
    fn reserve(&self, bytes: u64) -> Result<Room<'_>, StoreError> {
        // The wait may be for a checkpoint.
        Hold::may_wait(Rank::Checkpoint);
        let mut rounds = 0;
        loop {
            if let Some(room) = self.wal.ledger().try_reserve(bytes, self.undo_need_estimate()) {
                return Ok(room);
            }
            let need = self.undo_need();
            if let Some(room) = self.wal.ledger().try_reserve(bytes, need) {
                return Ok(room);
            }
            if self.wal.ledger().wait_for_release(bytes, need) {
                continue;
            }
            if rounds == ROUNDS || self.is_held_against(bytes) {
                return Err(self.log_full());
            }
            self.make_checkpoint_for(bytes)?;
            rounds += 1;
        }
    }

    /// Makes a checkpoint, unless another one has made room for `bytes` meanwhile.
    fn make_checkpoint_for(&self, bytes: u64) -> Result<(), StoreError> {
        let _lock = self.checkpoint.lock();
        match self.wal.ledger().used() + bytes <= self.wal.ledger().shares().clients_max()
            && self.log_held() < self.wal.ledger().used() / 2
        {
            true => Ok(()),
            false => self.checkpoint_alone().map(drop),
        }
    }

    /// Called before the transaction logs a change whose undo may append `need` (rule 2).
    pub(crate) fn enter(&self, txn: &Arc<TxnState>, need: UndoNeed) -> Result<(), StoreError> {
        let need = if txn.has_records() { need } else { need.with_end() };
        self.active.add(txn, need);
        let fits = |total_need: u64| {
            let filled = self.wal.ledger().used() + self.wal.ledger().reserved();
            total_need <= self.wal.ledger().shares().need_max()
                && filled + total_need <= self.wal.ledger().shares().total_max()
        };
        let refused = !fits(self.undo_need_estimate()) && !fits(self.undo_need());
        if refused {
            self.active.subtract(txn, need);
            return Err(self.log_full());
        }
        self.active.enter(txn, &self.wal, self.space.allocations());
        Ok(())
    }

    /// An error if a checkpoint may not move the redo point to `end` (rule 4).
    pub(crate) fn check_checkpoint(&self, end: u64, actives: usize) -> Result<(), StoreError> {
        let used = self.wal.ledger().used_to(end);
        let total =
            used + self.wal.ledger().reserved() + self.undo_need_estimate() + self.checkpoint_bytes(actives);
        match actives == 0 || total <= self.wal.ledger().shares().checkpoint_max() {
            true => Ok(()),
            false => Err(self.wal.ledger().full(used, self.undo_need_estimate())),
        }
    }

    /// An error if the active transactions hold so much of the log that no checkpoint may be made.
    pub(crate) fn check_log_held(&self) -> Result<(), StoreError> {
        match self.is_held_against(self.change_bytes()) {
            true => Err(self.log_full()),
            false => Ok(()),
        }
    }

    /// Whether no checkpoint can make room for `bytes`.
    fn is_held_against(&self, bytes: u64) -> bool {
        self.log_held() + bytes + self.checkpoint_bytes(0) > self.wal.ledger().shares().clients_max()
    }

    /// Maximum number of bytes that the change of a row appends, including the padding of a flush.
    fn change_bytes(&self) -> u64 {
        let page_bytes = self.page_bytes();
        CHANGE_BYTES + (page_bytes + 2 * max_row(page_bytes)) as u64 + self.wal.ledger().sector()
    }

    /// Maximum number of bytes that a checkpoint appends, including the padding of its two flushes.
    fn checkpoint_bytes(&self, actives: usize) -> u64 {
        64 + 24 * actives as u64 + 2 * self.wal.ledger().sector()
    }

    /// Bytes of the log that no checkpoint can free, because an active transaction may need them.
    fn log_held(&self) -> u64 {
        self.active.first().map_or(0, |first| self.wal.tail().end().0.saturating_sub(first.0))
    }

    /// Number of bytes that rollbacks of the active transactions may append.
    pub(crate) fn undo_need(&self) -> u64 {
        self.active.find_oldest(self.space.allocations());
        self.undo_need_estimate()
    }

    /// As [`Core::undo_need`], but may also count splits from before the oldest active transaction.
    fn undo_need_estimate(&self) -> u64 {
        let splits = self.active.splits(self.space.allocations());
        let sizes = Sizes {
            pages: self.space.end().into(),
            page_bytes: self.options.page_bytes.into(),
            sector: self.wal.ledger().sector(),
        };
        self.active.undo_needs().log_bytes(splits, sizes)
    }

    fn log_full(&self) -> StoreError {
        self.wal.ledger().full(self.wal.ledger().used(), self.undo_need())
    }
}

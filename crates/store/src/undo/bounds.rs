//! Which changes and which checkpoints the needs of the active transactions admit: rules 2 and 4 of
//! [`crate::log_room`].

use super::active::{ActiveTable, TxnState};
use super::need::{Sizes, UndoNeed};
use crate::StoreError;
use crate::page::node::max_row;
use crate::space::Space;
use crate::wal::Wal;
use std::sync::Arc;

/// Bytes of a page change without the page and the row: header, undo entry, padding.
const CHANGE_BYTES: u64 = 128;

/// See the module's header.
pub(crate) struct LogBounds {
    wal: Arc<Wal>,
    active: Arc<ActiveTable>,
    space: Arc<Space>,
    page_bytes: usize,
}

impl LogBounds {
    pub(crate) fn new(wal: Arc<Wal>, active: Arc<ActiveTable>, space: Arc<Space>) -> LogBounds {
        LogBounds { page_bytes: space.page_bytes(), wal, active, space }
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
    pub(crate) fn is_held_against(&self, bytes: u64) -> bool {
        self.log_held() + bytes + self.checkpoint_bytes(0) > self.wal.ledger().shares().clients_max()
    }

    /// Maximum number of bytes that the change of a row appends, including the padding of a flush.
    pub(crate) fn change_bytes(&self) -> u64 {
        let page_bytes = self.page_bytes;
        CHANGE_BYTES + (page_bytes + 2 * max_row(page_bytes)) as u64 + self.wal.ledger().sector()
    }

    /// Maximum number of bytes that a checkpoint appends, including the padding of its two flushes.
    fn checkpoint_bytes(&self, actives: usize) -> u64 {
        96 + 24 * actives as u64 + 2 * self.wal.ledger().sector()
    }

    /// Bytes of the log that no checkpoint can free, because an active transaction may need them.
    pub(crate) fn log_held(&self) -> u64 {
        self.active.first().map_or(0, |first| self.wal.tail().end().0.saturating_sub(first.0))
    }

    /// Number of bytes that rollbacks of the active transactions may append.
    pub(crate) fn undo_need(&self) -> u64 {
        self.active.find_oldest(self.space.allocations());
        self.undo_need_estimate()
    }

    /// As [`LogBounds::undo_need`], but may also count splits from before the oldest active transaction.
    pub(crate) fn undo_need_estimate(&self) -> u64 {
        let splits = self.active.splits(self.space.allocations());
        let sizes = Sizes {
            pages: self.space.end().into(),
            page_bytes: self.page_bytes as u64,
            sector: self.wal.ledger().sector(),
        };
        self.active.undo_needs().log_bytes(splits, sizes)
    }

    pub(crate) fn log_full(&self) -> StoreError {
        self.wal.ledger().full(self.wal.ledger().used(), self.undo_need())
    }
}

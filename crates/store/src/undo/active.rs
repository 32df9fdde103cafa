//! The active transactions: those that have logged a record and have not ended.
//!
//! Invariant: a transaction enters the table before its first record is appended. Its last record (commit or
//! end) is appended under the table's lock, together with its removal. So a snapshot taken under the lock,
//! with the redo point, contains exactly the transactions that have records before the redo point but no
//! commit or end record, with their newest LSNs.

use super::need::{UndoNeed, UndoNeeds};
use crate::wal::Wal;
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The shared state of a transaction.
#[derive(Debug)]
pub(crate) struct TxnState {
    id: TxnId,
    /// A lower bound of the LSNs of its records; 0 while it has none.
    first: AtomicU64,
    /// LSN of its newest record, set under the log's lock.
    last: AtomicU64,
    /// Number of pages that had been allocated when it logged its first record.
    allocations: AtomicU64,
    /// The need of all its changes. A rollback does not reduce it.
    undo_needs: UndoNeeds,
}

impl TxnState {
    pub(crate) fn new(id: TxnId) -> Arc<TxnState> {
        Arc::new(TxnState {
            id,
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            undo_needs: UndoNeeds::default(),
        })
    }

    pub(crate) fn id(&self) -> TxnId {
        self.id
    }

    pub(crate) fn last(&self) -> &AtomicU64 {
        &self.last
    }

    /// Whether it has logged any record.
    pub(crate) fn has_records(&self) -> bool {
        self.first.load(Relaxed) != 0
    }
}

/// A transaction in a checkpoint record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActiveTxn {
    pub id: TxnId,
    pub first: Lsn,
    pub last: Lsn,
}

/// See the module's header.
pub(crate) struct ActiveTable {
    next: AtomicU64,
    /// The sum over all entries.
    undo_needs: UndoNeeds,
    /// Number of pages that had been allocated when the oldest entry entered; a lower bound.
    allocations: AtomicU64,
    entries: TinyMutex<BTreeMap<TxnId, Arc<TxnState>>>,
}

impl ActiveTable {
    /// A table whose first transaction gets the number `next`.
    pub(crate) fn new(next: u64) -> ActiveTable {
        ActiveTable {
            next: AtomicU64::new(next),
            undo_needs: UndoNeeds::default(),
            allocations: AtomicU64::new(0),
            entries: TinyMutex::new(Rank::ActiveTable, BTreeMap::new()),
        }
    }

    /// A new transaction.
    pub(crate) fn begin(&self) -> Arc<TxnState> {
        TxnState::new(TxnId(self.next.fetch_add(1, Relaxed)))
    }

    /// Increases the undo need of the transaction.
    pub(crate) fn add(&self, txn: &TxnState, need: UndoNeed) {
        txn.undo_needs.add(need);
        self.undo_needs.add(need);
    }

    /// Subtracts the need that was added last.
    pub(crate) fn subtract(&self, txn: &TxnState, need: UndoNeed) {
        txn.undo_needs.subtract(need);
        self.undo_needs.subtract(need);
    }

    /// Called before the transaction logs a change; `allocations` pages have been allocated so far.
    pub(crate) fn enter(&self, txn: &Arc<TxnState>, wal: &Wal, allocations: u64) {
        if !txn.has_records() {
            let mut entries = self.entries.lock();
            if entries.is_empty() {
                self.allocations.store(allocations, Relaxed);
            }
            txn.allocations.store(allocations, Relaxed);
            txn.first.store(wal.tail().end().0, Relaxed);
            entries.insert(txn.id, txn.clone());
        }
    }

    /// Appends the transaction's last record with `append`, and removes the transaction.
    pub(crate) fn leave(&self, txn: &TxnState, append: impl FnOnce() -> Lsn) -> Lsn {
        let mut entries = self.entries.lock();
        entries.remove(&txn.id);
        // The need includes the last record, so it is released after the append.
        let lsn = append();
        self.undo_needs.subtract(txn.undo_needs.total());
        lsn
    }

    /// Adds a transaction found by restart, with records between `first` and `last`.
    pub(crate) fn restore(&self, found: ActiveTxn) -> Arc<TxnState> {
        let txn = Arc::new(TxnState {
            id: found.id,
            first: AtomicU64::new(found.first.0.max(1)),
            last: AtomicU64::new(found.last.0),
            allocations: AtomicU64::new(0),
            undo_needs: UndoNeeds::default(),
        });
        self.entries.lock().insert(found.id, txn.clone());
        txn
    }

    /// The undo need of all active transactions.
    pub(crate) fn undo_needs(&self) -> UndoNeed {
        self.undo_needs.total()
    }

    /// Number of pages allocated since the oldest active transaction entered, an upper bound; `now`: pages
    /// allocated so far.
    pub(crate) fn splits(&self, now: u64) -> u64 {
        now.saturating_sub(self.allocations.load(Relaxed))
    }

    /// Makes [`ActiveTable::splits`] exact at this moment.
    pub(crate) fn find_oldest(&self, now: u64) {
        let entries = self.entries.lock();
        let oldest = entries.values().map(|txn| txn.allocations.load(Relaxed)).min();
        self.allocations.store(oldest.unwrap_or(now), Relaxed);
    }

    /// A lower bound of the LSNs of all their records; `None` if there are none.
    pub(crate) fn first(&self) -> Option<Lsn> {
        let entries = self.entries.lock();
        entries.values().map(|txn| Lsn(txn.first.load(Relaxed))).min()
    }

    /// Sets the redo point, unless `check` fails for it and the number of active transactions. Returns it,
    /// the number of the next transaction, and all transactions active at that point.
    pub(crate) fn snapshot(
        &self,
        wal: &Wal,
        check: impl FnOnce(Lsn, usize) -> Result<(), StoreError>,
    ) -> Result<(Lsn, u64, Vec<ActiveTxn>), StoreError> {
        let entries = self.entries.lock();
        let (point, active) = wal.tail().set_redo_point(|end| {
            check(end, entries.len())?;
            let active = entries
                .values()
                .map(|txn| ActiveTxn {
                    id: txn.id,
                    first: Lsn(txn.first.load(Relaxed)),
                    last: Lsn(txn.last.load(Relaxed)),
                })
                .collect();
            Ok::<_, StoreError>(active)
        })?;
        Ok((point, self.next.load(Relaxed), active))
    }
}

//! The transactions that have logged something and have not ended.
//!
//! Invariant: a transaction enters before its first record is appended, and its last record (commit or end)
//! is appended under this table's lock together with its leaving. So a snapshot taken under the lock, with
//! the redo point, holds exactly the transactions that have records before the redo point and none of commit
//! or end, with their newest LSNs.

use crate::undo_need::{UndoNeed, UndoNeeds};
use crate::wal::Wal;
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What others need to know of a transaction.
#[derive(Debug)]
pub(crate) struct TxnState {
    id: TxnId,
    /// No record of it is older; 0 while it has none.
    first: AtomicU64,
    /// Its newest record, set under the log's lock.
    last: AtomicU64,
    /// Pages that had been allocated when it logged its first record.
    allocations: AtomicU64,
    /// For all that it has done; rolling back does not lessen it.
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

    /// Whether it has logged anything.
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
    /// Of all entries.
    undo_needs: UndoNeeds,
    /// Pages that had been allocated when the oldest entry entered, or fewer.
    allocations: AtomicU64,
    entries: TinyMutex<BTreeMap<TxnId, Arc<TxnState>>>,
}

impl ActiveTable {
    /// A table whose first transaction will be `next`.
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

    /// Undoing the transaction may need this much more.
    pub(crate) fn add(&self, txn: &TxnState, need: UndoNeed) {
        txn.undo_needs.add(need);
        self.undo_needs.add(need);
    }

    /// Takes back what was added last.
    pub(crate) fn subtract(&self, txn: &TxnState, need: UndoNeed) {
        txn.undo_needs.subtract(need);
        self.undo_needs.subtract(need);
    }

    /// The transaction is about to log a change; `allocations` pages have been allocated so far.
    pub(crate) fn enter(&self, txn: &Arc<TxnState>, wal: &Wal, allocations: u64) {
        if !txn.has_records() {
            let mut entries = self.entries.lock();
            if entries.is_empty() {
                self.allocations.store(allocations, Relaxed);
            }
            txn.allocations.store(allocations, Relaxed);
            txn.first.store(wal.end().0, Relaxed);
            entries.insert(txn.id, txn.clone());
        }
    }

    /// Appends the transaction's last record with `append`, and takes the transaction out.
    pub(crate) fn leave(&self, txn: &TxnState, append: impl FnOnce() -> Lsn) -> Lsn {
        let mut entries = self.entries.lock();
        entries.remove(&txn.id);
        // What it needed pays for its last record, so it is given back after that.
        let lsn = append();
        self.undo_needs.subtract(txn.undo_needs.total());
        lsn
    }

    /// A transaction found by restart: its records lie between `first` and `last`.
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

    /// What rolling back all of them may need.
    pub(crate) fn undo_needs(&self) -> UndoNeed {
        self.undo_needs.total()
    }

    /// Pages allocated since the oldest of them entered, or more; `now`: pages allocated so far.
    pub(crate) fn splits(&self, now: u64) -> u64 {
        now.saturating_sub(self.allocations.load(Relaxed))
    }

    /// Makes [`ActiveTable::splits`] exact for now.
    pub(crate) fn find_oldest(&self, now: u64) {
        let entries = self.entries.lock();
        let oldest = entries.values().map(|txn| txn.allocations.load(Relaxed)).min();
        self.allocations.store(oldest.unwrap_or(now), Relaxed);
    }

    /// No record of any of them is older; `None` if there are none.
    pub(crate) fn first(&self) -> Option<Lsn> {
        let entries = self.entries.lock();
        entries.values().map(|txn| Lsn(txn.first.load(Relaxed))).min()
    }

    /// Sets the redo point, unless `check` of it and the number of active transactions fails; returns it, the
    /// number of the next transaction, and all transactions active at that point.
    pub(crate) fn snapshot(
        &self,
        wal: &Wal,
        check: impl FnOnce(Lsn, usize) -> Result<(), StoreError>,
    ) -> Result<(Lsn, u64, Vec<ActiveTxn>), StoreError> {
        let entries = self.entries.lock();
        let (point, active) = wal.set_redo_point(|end| {
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

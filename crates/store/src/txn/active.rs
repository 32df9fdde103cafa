//! The transactions that have logged something and have not ended.
//!
//! Invariant: a transaction enters before its first record is appended, and its last record (commit or end) is appended
//! under this table's lock together with its leaving. So a snapshot taken under the lock, with the redo point, holds
//! exactly the transactions that have records before the redo point and none of commit or end, with their newest LSNs.

use crate::TxnId;
use crate::log_room::{UndoNeed, UndoNeeds};
use crate::wal::Wal;
use entresol_core::Lsn;
use parking_lot::Mutex as TinyMutex;
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
    /// For all that it has done; rolling back does not lessen it.
    undo_needs: UndoNeeds,
}

impl TxnState {
    pub(crate) fn new(id: TxnId) -> Arc<TxnState> {
        Arc::new(TxnState {
            id,
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
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
    entries: TinyMutex<BTreeMap<TxnId, Arc<TxnState>>>,
}

impl ActiveTable {
    /// A table whose first transaction will be `next`.
    pub(crate) fn new(next: u64) -> ActiveTable {
        ActiveTable {
            next: AtomicU64::new(next),
            undo_needs: UndoNeeds::default(),
            entries: TinyMutex::new(BTreeMap::new()),
        }
    }

    /// A new transaction.
    pub(crate) fn begin(&self) -> Arc<TxnState> {
        TxnState::new(TxnId(self.next.fetch_add(1, Relaxed)))
    }

    /// The transaction is about to log a change, whose undoing may need as much as `need`.
    pub(crate) fn enter(&self, txn: &Arc<TxnState>, wal: &Wal, need: UndoNeed) {
        txn.undo_needs.add(need);
        self.undo_needs.add(need);
        if !txn.has_records() {
            let mut entries = self.entries.lock();
            txn.first.store(wal.end().0, Relaxed);
            entries.insert(txn.id, txn.clone());
        }
    }

    /// Appends the transaction's last record with `append`, and takes the transaction out.
    pub(crate) fn leave(&self, txn: &TxnState, append: impl FnOnce() -> Lsn) -> Lsn {
        let mut entries = self.entries.lock();
        entries.remove(&txn.id);
        self.undo_needs.subtract(txn.undo_needs.total());
        append()
    }

    /// A transaction found by restart: its records lie between `first` and `last`.
    pub(crate) fn restore(&self, found: ActiveTxn) -> Arc<TxnState> {
        let txn = Arc::new(TxnState {
            id: found.id,
            first: AtomicU64::new(found.first.0.max(1)),
            last: AtomicU64::new(found.last.0),
            undo_needs: UndoNeeds::default(),
        });
        self.entries.lock().insert(found.id, txn.clone());
        txn
    }

    /// What rolling back all of them may need.
    pub(crate) fn undo_needs(&self) -> UndoNeed {
        self.undo_needs.total()
    }

    /// No record of any of them is older; `None` if there are none.
    pub(crate) fn first(&self) -> Option<Lsn> {
        let entries = self.entries.lock();
        entries.values().map(|txn| Lsn(txn.first.load(Relaxed))).min()
    }

    /// Sets the redo point; returns it, the number of the next transaction, and all transactions active at that point.
    pub(crate) fn snapshot(&self, wal: &Wal) -> (Lsn, u64, Vec<ActiveTxn>) {
        let entries = self.entries.lock();
        let (point, active) = wal.set_redo_point(|| {
            entries
                .values()
                .map(|txn| ActiveTxn {
                    id: txn.id,
                    first: Lsn(txn.first.load(Relaxed)),
                    last: Lsn(txn.last.load(Relaxed)),
                })
                .collect()
        });
        (point, self.next.load(Relaxed), active)
    }
}

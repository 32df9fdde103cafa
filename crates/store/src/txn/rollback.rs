//! Undo of a transaction's changes with compensation records, in a rollback or a restart.
//!
//! Invariant: each compensation names the next change to undo. So no change is undone twice, however often a
//! restart is interrupted.

use crate::btree::rows::{Author, Rows};
use crate::bytes::Reader;
use crate::undo::{ActiveTable, TxnState, Undo, UndoLog};
use crate::wal::{Draft, RecordKind, Room, Wal, record};
use crate::work::Work;
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use std::sync::Arc;

/// Rolls transactions back.
pub(crate) struct Rollback {
    wal: Arc<Wal>,
    active: Arc<ActiveTable>,
    rows: Arc<Rows>,
}

impl Rollback {
    pub(crate) fn new(wal: Arc<Wal>, active: Arc<ActiveTable>, rows: Arc<Rows>) -> Rollback {
        Rollback { wal, active, rows }
    }

    /// Undoes one change of `txn`; `next` is the change to undo after it.
    pub(crate) fn undo_one(
        &self,
        work: &mut Work,
        txn: &Arc<TxnState>,
        undo: Undo<'_>,
        next: Lsn,
    ) -> Result<(), StoreError> {
        let author = Author::Rollback(txn, next);
        let (done, root, key) = match undo {
            Undo::Insert { root, key } => (self.rows.delete(work, author, root, key)?, root, key),
            Undo::Delete { root, key, value } => {
                let inserted = match self.rows.insert(work, author, root, key, value) {
                    Err(StoreError::DuplicateKey) => false,
                    other => other.map(|()| true)?,
                };
                (inserted, root, key)
            }
            Undo::Update { root, key, value } => {
                (self.rows.update(work, author, root, key, value)?, root, key)
            }
            Undo::Patch { root, key, at, bytes } => {
                (self.rows.patch(work, author, root, key, at, bytes)?, root, key)
            }
        };
        if done {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            place: format!("table {root}, key {key:02x?}"),
            expected: format!("the row as transaction {} left it", txn.id()),
            found: "a row that cannot be changed back".into(),
        })
    }

    /// Undoes all of `log` and ends the transaction.
    pub(crate) fn roll_back(
        &self,
        work: &mut Work,
        txn: &Arc<TxnState>,
        log: &UndoLog,
    ) -> Result<(), StoreError> {
        for index in (0..log.len()).rev() {
            let (bytes, next) = log.entry(index);
            let undo = Undo::decode(&mut Reader(bytes)).expect("an undo log holds what was encoded into it");
            self.undo_one(work, txn, undo, next)?;
        }
        self.log_end(work, txn, RecordKind::End);
        Ok(())
    }

    /// Appends the transaction's last record, and removes the transaction from the active table. Its need
    /// includes the record and the padding of a flush.
    pub(crate) fn log_end(&self, work: &mut Work, txn: &TxnState, kind: RecordKind) -> Lsn {
        record::start(&mut work.record);
        self.active.leave(txn, || self.append(&mut work.record, kind, txn))
    }

    fn append(&self, bytes: &mut Vec<u8>, kind: RecordKind, txn: &TxnState) -> Lsn {
        debug_assert!(txn.id() != TxnId::SYSTEM);
        let draft =
            Draft { kind, txn: txn.id(), chain: Some(txn.last()), redo_point: None, room: &Room::kept() };
        self.wal.tail().append(bytes, draft).expect("an append without a redo point is never refused")
    }
}

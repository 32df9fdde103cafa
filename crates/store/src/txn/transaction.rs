//! The transactions of clients.

use super::buffers::Buffers;
use super::shared::Transactions;
use crate::btree::rows::Author;
use crate::btree::scan::Range;
use crate::locks::LockName;
use crate::undo::TxnState;
use crate::wal::RecordKind;
use crate::{Direction, Lock, StoreError, Table};
use entresol_core::Lsn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A transaction: strict two-phase row locks, which are released when its commit is durable or its changes
/// are undone. A drop aborts it.
///
/// Row locks protect rows, not gaps. A scan may miss a row that another transaction has deleted but not yet
/// committed. It does not prevent inserts of other transactions into its range (no protection from phantoms).
///
/// After any error but [`StoreError::DuplicateKey`] and [`StoreError::RowTooLarge`] the transaction must be
/// aborted.
pub struct Txn {
    all: Arc<Transactions>,
    state: Arc<TxnState>,
    buffers: Buffers,
    ended: bool,
}

impl Txn {
    pub(crate) fn begin(all: &Arc<Transactions>) -> Txn {
        Txn { state: all.active.begin(), buffers: all.buffers.take(), all: all.clone(), ended: false }
    }

    /// Copies the row into `value` (cleared first); false if there is none. The lock is taken in both cases.
    pub fn get(
        &mut self,
        table: Table,
        key: &[u8],
        lock: Lock,
        value: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        value.clear();
        self.lock(table, key, lock)?;
        let found = self
            .all
            .rows
            .get(&mut self.buffers.work, table.root(), key, |row| value.extend_from_slice(row))?;
        Ok(found.is_some())
    }

    /// Adds a row; [`StoreError::DuplicateKey`] if there is one with this key. Takes the exclusive lock.
    pub fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.all.log_room.make();
        self.lock(table, key, Lock::Exclusive)?;
        let author = Author::Forward(&self.state, &mut self.buffers.undo);
        self.all.rows.insert(&mut self.buffers.work, author, table.root(), key, value)
    }

    /// Replaces the row's value (any length); false if there is none. Takes the exclusive lock.
    pub fn update(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        self.all.log_room.make();
        self.lock(table, key, Lock::Exclusive)?;
        let author = Author::Forward(&self.state, &mut self.buffers.undo);
        self.all.rows.update(&mut self.buffers.work, author, table.root(), key, value)
    }

    /// Removes the row; false if there is none. Takes the exclusive lock.
    pub fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        self.all.log_room.make();
        self.lock(table, key, Lock::Exclusive)?;
        let author = Author::Forward(&self.state, &mut self.buffers.undo);
        self.all.rows.delete(&mut self.buffers.work, author, table.root(), key)
    }

    /// Calls `visit` for the rows with `from <= key < to` in the direction's order, each under `lock`, until
    /// `visit` returns false. `visit` runs with the page latched: it must not call the store or wait.
    pub fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        lock: Lock,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let range = Range { root: table.root(), from, to, direction, lock };
        self.all.scanner.scan(&mut self.buffers.work, &range, self.state.id(), &mut self.buffers.locks, visit)
    }

    /// Commits. The commit is durable when this returns (group commit). Returns the LSN of the commit record,
    /// `Lsn(0)` if nothing was changed. After an error it is unknown until the next restart whether the
    /// transaction is committed.
    pub fn commit(mut self) -> Result<Lsn, StoreError> {
        self.consume_cpu();
        self.ended = true;
        let mut lsn = Lsn(0);
        if self.state.has_records() {
            lsn = self.all.rollback.log_end(&mut self.buffers.work, &self.state, RecordKind::Commit);
            let durable = self.all.wal.flush(lsn);
            self.release_locks();
            durable?;
        } else {
            self.release_locks();
        }
        self.all.counters.commits.fetch_add(1, Relaxed);
        Ok(lsn)
    }

    /// Undoes all changes of the transaction.
    pub fn abort(mut self) -> Result<(), StoreError> {
        self.end_by_abort()
    }

    /// Page accesses so far.
    pub fn fixes(&self) -> u64 {
        self.buffers.work.fixes
    }

    fn end_by_abort(&mut self) -> Result<(), StoreError> {
        self.ended = true;
        if self.state.has_records() {
            // If this fails, the rows stay locked: they contain changes that only a restart can undo.
            self.all
                .rollback
                .roll_back(&mut self.buffers.work, &self.state, &self.buffers.undo)
                .inspect_err(|error| self.all.locks.fail(error))?;
        }
        self.consume_cpu();
        self.release_locks();
        self.all.counters.aborts.fetch_add(1, Relaxed);
        Ok(())
    }

    fn lock(&mut self, table: Table, key: &[u8], lock: Lock) -> Result<(), StoreError> {
        if lock == Lock::None {
            return Ok(());
        }
        let name = LockName::new(table.root(), key);
        match self.all.locks.lock(self.state.id(), name, lock) {
            Ok(true) => self.buffers.locks.push(name),
            Ok(false) => {}
            Err(error) => {
                if matches!(error, StoreError::Deadlock) {
                    self.all.counters.deadlocks.fetch_add(1, Relaxed);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn release_locks(&mut self) {
        for name in self.buffers.locks.drain(..) {
            self.all.locks.release(self.state.id(), name);
        }
    }

    fn consume_cpu(&self) {
        let Some(model) = self.all.cpu.get() else { return };
        let time = model.time(self.buffers.work.fixes);
        if !time.is_zero() {
            entresol_runtime::consume_cpu(time);
        }
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        if self.ended {
            self.all.buffers.give_back(std::mem::take(&mut self.buffers));
            return;
        }
        if std::thread::panicking() || entresol_runtime::sim::is_halted() {
            // A change may be incomplete: only a restart can roll this transaction back, and until then its
            // rows stay locked. A simulation ends with its first panic; otherwise no task may wait for these
            // locks.
            if !entresol_runtime::is_simulated() {
                self.all.locks.fail(&StoreError::Other(format!(
                    "transaction {} was cut off by a panic of the program; its rows stay locked until the store is opened again",
                    self.state.id()
                )));
            }
            return;
        }
        // The error is that of the log or the layer; the next operation on these gets it.
        let _ = self.end_by_abort();
    }
}

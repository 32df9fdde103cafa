//! Reads, inserts, changes and deletes of a row.

use super::descend::Target;
use super::ground::Ground;
use super::split::Splitter;
use super::unlink::Unlinker;
use crate::bytes::put_u64;
use crate::page::node::{Node, SLOT_BYTES, max_key, max_row};
use crate::page::op::PageOp;
use crate::pool::PageWrite;
use crate::undo::{LogBounds, Reshaping, TxnState, Undo, UndoLog, UndoNeed};
use crate::wal::record::{self, RECORD_HEADER_BYTES};
use crate::wal::{RecordKind, Room};
use crate::work::Work;
use crate::{PageNumber, StoreError};
use entresol_core::Lsn;
use std::sync::Arc;

/// The author of a row change, which determines what is logged.
pub(crate) enum Author<'a> {
    /// A transaction before its rollback. The record contains the undo information, and so does the
    /// transaction's undo log.
    Forward(&'a Arc<TxnState>, &'a mut UndoLog),
    /// A transaction in rollback. The record names the next record to be undone.
    Rollback(&'a Arc<TxnState>, Lsn),
}

impl Author<'_> {
    /// Whether room reserved for rollbacks may be used.
    fn rolls_back(&self) -> bool {
        matches!(self, Author::Rollback(..))
    }
}

/// Reads and changes rows.
pub(crate) struct Rows {
    ground: Ground,
    splitter: Arc<Splitter>,
    unlinker: Unlinker,
    bounds: Arc<LogBounds>,
}

impl Rows {
    pub(crate) fn new(ground: &Ground, splitter: Arc<Splitter>, bounds: Arc<LogBounds>) -> Rows {
        Rows { ground: ground.clone(), splitter, unlinker: Unlinker::new(ground), bounds }
    }

    /// Calls `visit` with the row; `None` if there is none.
    pub(crate) fn get<T>(
        &self,
        work: &mut Work,
        root: PageNumber,
        key: &[u8],
        visit: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let _permit = self.ground.pool.enter();
        let leaf = self.ground.descent.leaf_shared(work, root, Target::Key(key))?;
        let node = Node(&leaf);
        Ok(node.find(key).ok().map(|slot| visit(node.value(slot))))
    }

    /// Adds a row.
    pub(crate) fn insert(
        &self,
        work: &mut Work,
        mut author: Author<'_>,
        root: PageNumber,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        self.check_row(key, value)?;
        let need = key.len() + value.len() + SLOT_BYTES;
        loop {
            let room = self.room_of(&author)?;
            let permit = self.ground.pool.enter();
            let leaf = self.ground.descent.leaf_exclusive(work, root, Target::Key(key))?;
            let node = Node(&leaf);
            let Err(slot) = node.find(key) else { return Err(StoreError::DuplicateKey) };
            if need <= node.free() && !author.rolls_back() && !self.ground.disk_room.has(0) {
                drop(leaf);
                drop((permit, room));
                self.ground.disk_room.check(0)?;
                continue;
            }
            if need <= node.free() {
                self.begin_change(work, &author, &Undo::Insert { root, key });
                let op = PageOp::Insert { slot: slot as u16, key, value };
                return self.finish_change(work, &room, &mut author, leaf, op, Reshaping::Shrinks);
            }
            drop(leaf);
            drop((permit, room));
            self.splitter.make_room(work, root, key, need, author.rolls_back())?;
        }
    }

    /// Replaces a row's value. False if there is no such row.
    pub(crate) fn update(
        &self,
        work: &mut Work,
        mut author: Author<'_>,
        root: PageNumber,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        self.check_row(key, value)?;
        loop {
            let room = self.room_of(&author)?;
            let permit = self.ground.pool.enter();
            let leaf = self.ground.descent.leaf_exclusive(work, root, Target::Key(key))?;
            let node = Node(&leaf);
            let Ok(slot) = node.find(key) else { return Ok(false) };
            let old = node.value(slot);
            if old.len() == value.len() {
                let Some((at, end)) = difference(old, value) else { return Ok(true) };
                let undo = Undo::Patch { root, key, at: at as u16, bytes: &old[at..end] };
                self.begin_change(work, &author, &undo);
                let op = PageOp::Patch { slot: slot as u16, at: at as u16, bytes: &value[at..end] };
                self.finish_change(work, &room, &mut author, leaf, op, Reshaping::None)?;
                return Ok(true);
            }
            let reshaping = match old.len().checked_sub(value.len()) {
                Some(bytes) => Reshaping::Grows(bytes),
                None => Reshaping::Shrinks,
            };
            let need = value.len().saturating_sub(old.len());
            let grows = need > 0 && !author.rolls_back();
            if grows && need <= node.free() && !self.ground.disk_room.has(0) {
                drop(leaf);
                drop((permit, room));
                self.ground.disk_room.check(0)?;
                continue;
            }
            if need <= node.free() {
                self.begin_change(work, &author, &Undo::Update { root, key, value: old });
                let op = PageOp::SetValue { slot: slot as u16, value };
                self.finish_change(work, &room, &mut author, leaf, op, reshaping)?;
                return Ok(true);
            }
            drop(leaf);
            drop((permit, room));
            self.splitter.make_room(work, root, key, need, author.rolls_back())?;
        }
    }

    /// Replaces bytes of a row's value. False if there is no such row, or it is too short.
    pub(crate) fn patch(
        &self,
        work: &mut Work,
        mut author: Author<'_>,
        root: PageNumber,
        key: &[u8],
        at: u16,
        bytes: &[u8],
    ) -> Result<bool, StoreError> {
        let room = self.room_of(&author)?;
        let _permit = self.ground.pool.enter();
        let leaf = self.ground.descent.leaf_exclusive(work, root, Target::Key(key))?;
        let Ok(slot) = Node(&leaf).find(key) else { return Ok(false) };
        let end = at as usize + bytes.len();
        if end > Node(&leaf).value(slot).len() {
            return Ok(false);
        }
        let old = &Node(&leaf).value(slot)[at as usize..end];
        self.begin_change(work, &author, &Undo::Patch { root, key, at, bytes: old });
        let op = PageOp::Patch { slot: slot as u16, at, bytes };
        self.finish_change(work, &room, &mut author, leaf, op, Reshaping::None)?;
        Ok(true)
    }

    /// Removes a row. False if there is none.
    pub(crate) fn delete(
        &self,
        work: &mut Work,
        mut author: Author<'_>,
        root: PageNumber,
        key: &[u8],
    ) -> Result<bool, StoreError> {
        let room = self.room_of(&author)?;
        let permit = self.ground.pool.enter();
        let leaf = self.ground.descent.leaf_exclusive(work, root, Target::Key(key))?;
        let Ok(slot) = Node(&leaf).find(key) else { return Ok(false) };
        let empties = Node(&leaf).count() == 1 && leaf.number() != root;
        let value = Node(&leaf).value(slot);
        let reshaping = Reshaping::Grows(key.len() + value.len() + SLOT_BYTES);
        self.begin_change(work, &author, &Undo::Delete { root, key, value });
        let op = PageOp::Remove { slot: slot as u16 };
        self.finish_change(work, &room, &mut author, leaf, op, reshaping)?;
        if empties {
            drop((permit, room));
            self.unlinker.unlink_empty(work, root, key, author.rolls_back())?;
        }
        Ok(true)
    }

    /// Starts the record of a row change, with its undo information or the next record to be undone.
    fn begin_change(&self, work: &mut Work, author: &Author<'_>, undo: &Undo<'_>) {
        record::start(&mut work.record);
        match author {
            Author::Forward(..) => undo.encode(&mut work.record),
            Author::Rollback(_, next) => put_u64(&mut work.record, next.0),
        }
    }

    /// Makes and logs a row change. `reshaping`: the effect of its undo on the leaf. Nothing is changed if
    /// the log has no room for the undo.
    fn finish_change(
        &self,
        work: &mut Work,
        room: &Room<'_>,
        author: &mut Author<'_>,
        leaf: PageWrite<'_>,
        op: PageOp<'_>,
        reshaping: Reshaping,
    ) -> Result<(), StoreError> {
        let (kind, txn) = match author {
            Author::Forward(txn, log) => {
                let undo = &work.record[RECORD_HEADER_BYTES..];
                let need = UndoNeed::of_change(undo.len(), reshaping, log.visit(leaf.number()));
                self.bounds.enter(txn, need)?;
                log.draft(undo);
                (RecordKind::Update, *txn)
            }
            Author::Rollback(txn, _) => (RecordKind::Compensation, *txn),
        };
        let mut mtr = self.ground.mtrs.begin(room, &mut work.record);
        mtr.change(leaf, &[op]);
        let (lsn, _) = mtr.commit(kind, txn.id(), Some(txn.last()));
        if let Author::Forward(_, log) = author {
            log.seal(lsn);
        }
        Ok(())
    }

    /// Room in the log for a change by `author`.
    fn room_of(&self, author: &Author<'_>) -> Result<Room<'_>, StoreError> {
        if author.rolls_back() { Ok(Room::kept()) } else { self.ground.log_room.for_change() }
    }

    fn check_row(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let (max_key, max_row) = (max_key(self.ground.page_bytes), max_row(self.ground.page_bytes));
        if key.len() > max_key || key.len() + value.len() > max_row {
            return Err(StoreError::RowTooLarge { key: key.len(), value: value.len(), max_key, max_row });
        }
        Ok(())
    }
}

/// The range in which two values of equal length differ, from the first different byte to after the last one.
/// `None` if they are equal.
fn difference(old: &[u8], new: &[u8]) -> Option<(usize, usize)> {
    let first = old.iter().zip(new).position(|(a, b)| a != b)?;
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    Some((first, old.len() - same))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn difference_is_the_smallest_range() {
        assert_eq!(difference(b"abcdef", b"abcdef"), None);
        assert_eq!(difference(b"abcdef", b"aXcdYf"), Some((1, 5)));
        assert_eq!(difference(b"a", b"b"), Some((0, 1)));
    }
}

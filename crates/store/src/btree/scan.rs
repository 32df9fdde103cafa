//! Rows in key order, forward and backward, along the links between leaves.
//!
//! A forward scan latches the next leaf before it releases the current one. A backward scan in that order
//! could deadlock with writers. So it only tries to latch the left leaf. If that leaf is latched by another
//! task, the scan releases the current leaf, waits for the left one, and seeks its position again. A row lock
//! is tried under the latch. If another transaction has it, the scan releases all latches, waits, and seeks
//! again.

use super::descend::{Descent, Target, check_level};
use crate::locks::{LockName, LockTable, Request};
use crate::page::node::Node;
use crate::pool::{PageRead, Pin, Pool};
use crate::space::Space;
use crate::work::Work;
use crate::{Direction, Lock, PageNumber, StoreError, TxnId};
use std::sync::Arc;

/// The range of a scan.
pub(crate) struct Range<'a> {
    pub root: PageNumber,
    pub from: &'a [u8],
    pub to: &'a [u8],
    pub direction: Direction,
    pub lock: Lock,
}

/// The position at which a scan continues.
struct Place {
    key: Vec<u8>,
    inclusive: bool,
}

/// Why the work on a leaf ended.
enum Step {
    Done,
    /// A row lock is not available: `Place` names the row.
    Busy(LockName),
    NextLeaf,
}

/// Scans trees.
pub(crate) struct Scanner {
    pool: Arc<Pool>,
    descent: Descent,
    space: Arc<Space>,
    locks: Arc<LockTable>,
}

impl Scanner {
    pub(crate) fn new(
        pool: Arc<Pool>,
        descent: Descent,
        space: Arc<Space>,
        locks: Arc<LockTable>,
    ) -> Scanner {
        Scanner { pool, descent, space, locks }
    }

    /// Visits the rows of `range` until `visit` returns false. New row locks are pushed to `held`.
    pub(crate) fn scan(
        &self,
        work: &mut Work,
        range: &Range<'_>,
        txn: TxnId,
        held: &mut Vec<LockName>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        if range.from >= range.to {
            return Ok(());
        }
        let mut place = match range.direction {
            Direction::Forward => Place { key: range.from.to_vec(), inclusive: true },
            Direction::Backward => Place { key: range.to.to_vec(), inclusive: false },
        };
        loop {
            let busy = {
                let _permit = self.pool.enter();
                self.scan_leaves(work, range, txn, held, visit, &mut place)?
            };
            let Some(name) = busy else { return Ok(()) };
            if self.locks.lock(txn, name, range.lock)? {
                held.push(name);
            }
        }
    }

    /// Scans from `place` until the end (`None`), or until a row lock is not available.
    fn scan_leaves<'a>(
        &'a self,
        work: &mut Work,
        range: &Range<'_>,
        txn: TxnId,
        held: &mut Vec<LockName>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        place: &mut Place,
    ) -> Result<Option<LockName>, StoreError> {
        let backward = range.direction == Direction::Backward;
        'seek: loop {
            let target = match (range.direction, place.inclusive) {
                (Direction::Backward, false) => Target::Before(&place.key),
                _ => Target::Key(&place.key),
            };
            let mut leaf = self.descent.leaf_shared(work, range.root, target)?;
            let mut slot = match (Node(&leaf).find(&place.key), backward) {
                (Err(slot), _) => slot,
                (Ok(slot), false) => slot + usize::from(!place.inclusive),
                (Ok(slot), true) => slot + usize::from(place.inclusive),
            };
            let mut leaves = 0;
            loop {
                match self.scan_leaf(&leaf, slot, range, txn, held, visit, place) {
                    Step::Done => return Ok(None),
                    Step::Busy(name) => return Ok(Some(name)),
                    Step::NextLeaf => {}
                }
                let node = Node(&leaf);
                let next = if backward { node.left() } else { node.right() };
                if !next.is_some() {
                    return Ok(None);
                }
                leaves += 1;
                if leaves > self.space.end() {
                    return Err(StoreError::Corrupt {
                        place: format!("links of the leaves of table {}", range.root),
                        expected: format!("an end after at most {} leaves", self.space.end()),
                        found: "a circle".into(),
                    });
                }
                work.fixes += 1;
                let latch = |pin: Pin<'a>| if backward { pin.try_read().ok() } else { pin.read() };
                let page = match self.pool.try_pin(next).and_then(latch) {
                    Some(page) => page,
                    None => {
                        let (lsn, here) = (leaf.lsn(), leaf.unlatch());
                        let next = self.pool.fix_shared(next)?.unlatch();
                        // If the leaf has not changed meanwhile, its link is still valid.
                        let Some(_here) = here.read().filter(|leaf| leaf.lsn() == lsn) else {
                            continue 'seek;
                        };
                        let Some(page) = latch(next) else { continue 'seek };
                        page
                    }
                };
                check_level(&page, next, 0)?;
                slot = if backward { Node(&page).count() } else { 0 };
                leaf = page;
            }
        }
    }

    /// Visits the rows of one leaf, from `slot` on (forward) or from the one before it (backward).
    #[allow(clippy::too_many_arguments)]
    fn scan_leaf(
        &self,
        leaf: &PageRead<'_>,
        mut slot: usize,
        range: &Range<'_>,
        txn: TxnId,
        held: &mut Vec<LockName>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        place: &mut Place,
    ) -> Step {
        let node = Node(leaf);
        let backward = range.direction == Direction::Backward;
        let mut last = None;
        loop {
            if backward && slot == 0 || !backward && slot == node.count() {
                if let Some(key) = last {
                    place.set(key, false);
                }
                return Step::NextLeaf;
            }
            let index = if backward { slot - 1 } else { slot };
            let (key, value) = node.cell(index);
            if backward && key < range.from || !backward && key >= range.to {
                return Step::Done;
            }
            if range.lock != Lock::None {
                let name = LockName::new(range.root, key);
                match self.locks.try_lock(txn, name, range.lock) {
                    Request::Granted => held.push(name),
                    Request::Held => {}
                    Request::Busy => {
                        place.set(key, true);
                        return Step::Busy(name);
                    }
                }
            }
            if !visit(key, value) {
                return Step::Done;
            }
            last = Some(key);
            slot = if backward { slot - 1 } else { slot + 1 };
        }
    }
}

impl Place {
    fn set(&mut self, key: &[u8], inclusive: bool) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.inclusive = inclusive;
    }
}

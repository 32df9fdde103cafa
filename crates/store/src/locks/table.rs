//! Row locks: shared or exclusive on the hash of table and key.
//!
//! Invariants:
//! 1. All holders of a lock are shared, or there is one exclusive holder. Waiters are granted first in, first
//!    out; only an upgrade of a holder precedes them.
//! 2. A transaction waits for at most one lock, and never with a page latched or pinned.
//! 3. No transaction waits for one that will not end: see [`LockTable::fail`].
//! 4. Two keys with the same 64-bit hash share a lock. This can cause an unnecessary wait, but never misses a
//!    conflict.

use super::waits::WaitsFor;
use crate::{Lock, PageNumber, StoreError, TxnId};
use entresol_runtime::Task;
use entresol_runtime::sync::{Rank, TinyMutex, assert_nothing_held};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A row's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockName(u64);

impl LockName {
    /// The lock of the row `key` of the tree at `root`.
    pub(crate) fn new(root: PageNumber, key: &[u8]) -> LockName {
        let mut state = mix(u64::from(root.0) << 32 | key.len() as u64);
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state = mix(state ^ u64::from_le_bytes(word));
        }
        LockName(state)
    }
}

fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db_u128;
    (product >> 64) as u64 ^ product as u64
}

/// Uses lock names as hashes, because they are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, _: &[u8]) {
        unreachable!("lock names hash as one integer");
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

struct Waiter {
    txn: TxnId,
    exclusive: bool,
    granted: Arc<AtomicBool>,
    task: Task,
}

struct Head {
    exclusive: bool,
    owner: TxnId,
    /// Other shared holders.
    others: Vec<TxnId>,
    waiters: VecDeque<Waiter>,
}

impl Head {
    fn holds(&self, txn: TxnId) -> bool {
        self.owner == txn || self.others.contains(&txn)
    }
}

type Shard = HashMap<LockName, Head, BuildHasherDefault<Identity>>;

const SHARD_BITS: u32 = 6;

/// The result of a request that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Granted now: the lock must be released at the end.
    Granted,
    /// The transaction already held the lock, in this mode or a stronger one.
    Held,
    /// The lock conflicts with those of other transactions.
    Busy,
}

/// See the module's header.
pub(crate) struct LockTable {
    shards: Box<[TinyMutex<Shard>]>,
    waits: WaitsFor,
    failed: TinyMutex<Option<StoreError>>,
}

impl LockTable {
    pub(crate) fn new() -> LockTable {
        LockTable {
            shards: (0..1 << SHARD_BITS).map(|_| TinyMutex::new(Rank::RowLocks, Shard::default())).collect(),
            waits: WaitsFor::default(),
            failed: TinyMutex::new(Rank::Failure, None),
        }
    }

    /// Some locks will never be released, because their transaction could not be rolled back due to `error`.
    /// Transactions that wait for a lock, or would have to wait, get that error instead.
    pub(crate) fn fail(&self, error: &StoreError) {
        self.failed.lock().get_or_insert_with(|| error.clone());
        for shard in &self.shards {
            shard.lock().values().flat_map(|head| &head.waiters).for_each(|waiter| waiter.task.unpark());
        }
    }

    fn shard(&self, name: LockName) -> &TinyMutex<Shard> {
        // The hash map uses the low bits and the top seven.
        &self.shards[(name.0 >> 40) as usize & ((1 << SHARD_BITS) - 1)]
    }

    /// Takes the lock if no other transaction's lock conflicts; never waits.
    pub(crate) fn try_lock(&self, txn: TxnId, name: LockName, lock: Lock) -> Request {
        let exclusive = lock == Lock::Exclusive;
        let mut shard = self.shard(name).lock();
        let Some(head) = shard.get_mut(&name) else {
            let head = Head { exclusive, owner: txn, others: Vec::new(), waiters: VecDeque::new() };
            shard.insert(name, head);
            return Request::Granted;
        };
        if head.holds(txn) {
            if head.exclusive || !exclusive {
                return Request::Held;
            }
            if head.others.is_empty() {
                head.exclusive = true;
                return Request::Held;
            }
            return Request::Busy;
        }
        if exclusive || head.exclusive || !head.waiters.is_empty() {
            return Request::Busy;
        }
        head.others.push(txn);
        Request::Granted
    }

    /// Takes the lock; waits while other transactions conflict. True if the lock must be released at the end,
    /// false if the transaction already held it. `Deadlock` if the wait would never end.
    pub(crate) fn lock(&self, txn: TxnId, name: LockName, lock: Lock) -> Result<bool, StoreError> {
        match self.try_lock(txn, name, lock) {
            Request::Granted => Ok(true),
            Request::Held => Ok(false),
            Request::Busy => self.wait(txn, name, lock == Lock::Exclusive),
        }
    }

    #[cold]
    fn wait(&self, txn: TxnId, name: LockName, exclusive: bool) -> Result<bool, StoreError> {
        assert_nothing_held("a task waits for a row lock");
        let granted = Arc::new(AtomicBool::new(false));
        let upgrade = {
            let mut shard = self.shard(name).lock();
            let head = match shard.get_mut(&name) {
                Some(head) => head,
                None => {
                    // It was released after the first try.
                    let head = Head { exclusive, owner: txn, others: Vec::new(), waiters: VecDeque::new() };
                    shard.insert(name, head);
                    return Ok(true);
                }
            };
            let upgrade = head.holds(txn);
            let waiter =
                Waiter { txn, exclusive, granted: granted.clone(), task: entresol_runtime::current() };
            let others = || std::iter::once(&head.owner).chain(&head.others).filter(|holder| **holder != txn);
            let blockers: Vec<TxnId> = if upgrade {
                others().copied().collect()
            } else {
                others().copied().chain(head.waiters.iter().map(|waiter| waiter.txn)).collect()
            };
            if !self.waits.try_wait(txn, blockers) {
                return Err(StoreError::Deadlock);
            }
            if upgrade {
                head.waiters.push_front(waiter);
            } else {
                head.waiters.push_back(waiter);
            }
            self.grant(head);
            upgrade
        };
        let waiting = Waiting { table: self, txn, name, granted: &granted };
        while !granted.load(Ordering::Acquire) {
            let failed = self.failed.lock().clone();
            if let Some(failed) = failed {
                return Err(failed);
            }
            entresol_runtime::park();
        }
        drop(waiting);
        Ok(!upgrade)
    }

    /// Releases a lock.
    pub(crate) fn release(&self, txn: TxnId, name: LockName) {
        let mut shard = self.shard(name).lock();
        let Some(head) = shard.get_mut(&name) else { return };
        if head.owner == txn {
            match head.others.pop() {
                Some(other) => head.owner = other,
                None => {
                    let Some(next) = head.waiters.pop_front() else {
                        shard.remove(&name);
                        return;
                    };
                    head.owner = next.txn;
                    head.exclusive = next.exclusive;
                    self.wake(&next);
                }
            }
        } else {
            head.others.retain(|holder| *holder != txn);
        }
        self.grant(head);
    }

    /// Grants what can be granted at the front of the queue.
    fn grant(&self, head: &mut Head) {
        while let Some(front) = head.waiters.front() {
            let upgrade = head.holds(front.txn);
            let free = if upgrade { head.others.is_empty() } else { !front.exclusive && !head.exclusive };
            if !free {
                return;
            }
            if upgrade {
                head.exclusive = true;
            } else {
                head.others.push(front.txn);
            }
            if let Some(front) = head.waiters.pop_front() {
                self.wake(&front);
            }
        }
    }

    /// The waiter has the lock. It does not wait any more, but may not run at once.
    fn wake(&self, waiter: &Waiter) {
        self.waits.done(waiter.txn);
        waiter.granted.store(true, Ordering::Release);
        waiter.task.unpark();
    }
}

/// Ends the wait, also when the task is unwound.
struct Waiting<'a> {
    table: &'a LockTable,
    txn: TxnId,
    name: LockName,
    granted: &'a AtomicBool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.granted.load(Ordering::Acquire) {
            self.table.waits.done(self.txn);
            let mut shard = self.table.shard(self.name).lock();
            if let Some(head) = shard.get_mut(&self.name) {
                head.waiters.retain(|waiter| waiter.txn != self.txn);
                self.table.grant(head);
            }
        }
    }
}

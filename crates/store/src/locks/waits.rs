//! The waits-for graph. It is searched for a cycle when a transaction is about to wait.
//!
//! Invariant: an edge leads from a waiting transaction to each transaction that blocked it when its wait
//! began. Under strict two-phase locking these block it until they end, perhaps after a wait of their own. So
//! no edge is missing, and an outdated edge leads to a transaction that will end.

use crate::TxnId;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::collections::BTreeMap;

/// See the module's header.
pub(crate) struct WaitsFor {
    edges: TinyMutex<BTreeMap<TxnId, Vec<TxnId>>>,
}

impl Default for WaitsFor {
    fn default() -> Self {
        Self { edges: TinyMutex::new(Rank::WaitsFor, BTreeMap::new()) }
    }
}

impl WaitsFor {
    /// Adds edges from `waiter` to `blockers`, unless that would close a cycle; then returns false.
    pub(crate) fn try_wait(&self, waiter: TxnId, blockers: Vec<TxnId>) -> bool {
        let mut edges = self.edges.lock();
        let mut seen = Vec::new();
        let mut stack = blockers.clone();
        while let Some(txn) = stack.pop() {
            if txn == waiter {
                return false;
            }
            if !seen.contains(&txn) {
                seen.push(txn);
                if let Some(next) = edges.get(&txn) {
                    stack.extend_from_slice(next);
                }
            }
        }
        edges.insert(waiter, blockers);
        true
    }

    /// Removes the edges of `waiter`, which no longer waits.
    pub(crate) fn done(&self, waiter: TxnId) {
        self.edges.lock().remove(&waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_exactly_what_closes_a_cycle() {
        let waits = WaitsFor::default();
        let [a, b, c, d] = [1, 2, 3, 4].map(TxnId);
        assert!(waits.try_wait(a, vec![b]));
        assert!(waits.try_wait(b, vec![c, d]));
        assert!(!waits.try_wait(c, vec![a]));
        waits.done(b);
        assert!(waits.try_wait(c, vec![a]));
        assert!(!waits.try_wait(b, vec![c]));
        assert!(waits.try_wait(b, vec![d]));
    }
}

//! Row locks in simulation: compatibility, order, upgrades, deadlocks.

use super::{LockName, LockTable, Request};
use crate::{Lock, PageNumber, StoreError, TxnId};
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{sleep, spawn};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const A: TxnId = TxnId(1);
const B: TxnId = TxnId(2);
const C: TxnId = TxnId(3);
const D: TxnId = TxnId(4);

fn name(row: u8) -> LockName {
    LockName::new(PageNumber(3), &[row])
}

fn simulate(main: impl FnOnce() + Send) {
    Simulation::new(SimConfig::default()).run(main).unwrap();
}

/// Takes the lock in a new task after `millis`, records the grant, and holds the lock for a while.
fn later(
    table: &Arc<LockTable>,
    grants: &Arc<Mutex<Vec<TxnId>>>,
    (txn, lock, millis): (TxnId, Lock, u64),
) -> entresol_runtime::JoinHandle {
    let (table, grants) = (table.clone(), grants.clone());
    spawn("locker", move || {
        sleep(Duration::from_millis(millis));
        let new = table.lock(txn, name(1), lock).unwrap();
        grants.lock().unwrap().push(txn);
        sleep(Duration::from_millis(100));
        assert!(new);
        table.release(txn, name(1));
    })
}

#[test]
fn shared_locks_agree_and_exclusive_ones_do_not() {
    let table = LockTable::new();
    assert_eq!(table.try_lock(A, name(1), Lock::Shared), Request::Granted);
    assert_eq!(table.try_lock(A, name(1), Lock::Shared), Request::Held);
    assert_eq!(table.try_lock(B, name(1), Lock::Shared), Request::Granted);
    assert_eq!(table.try_lock(C, name(1), Lock::Exclusive), Request::Busy);
    assert_eq!(table.try_lock(A, name(1), Lock::Exclusive), Request::Busy);
    assert_eq!(table.try_lock(C, name(2), Lock::Exclusive), Request::Granted);
    assert_eq!(table.try_lock(C, name(2), Lock::Shared), Request::Held);
    assert_eq!(table.try_lock(A, name(2), Lock::Shared), Request::Busy);
    table.release(B, name(1));
    assert_eq!(table.try_lock(A, name(1), Lock::Exclusive), Request::Held, "the only holder is upgraded");
    assert_eq!(table.try_lock(B, name(1), Lock::Shared), Request::Busy);
    table.release(A, name(1));
    assert_eq!(table.try_lock(B, name(1), Lock::Exclusive), Request::Granted);
}

#[test]
fn waiters_come_first_in_first_out_and_readers_together() {
    simulate(|| {
        let (table, grants) = (Arc::new(LockTable::new()), Arc::new(Mutex::new(Vec::new())));
        let tasks = [
            (A, Lock::Exclusive, 1),
            (B, Lock::Shared, 2),
            (C, Lock::Shared, 3),
            (D, Lock::Exclusive, 4),
            (TxnId(5), Lock::Shared, 5),
        ]
        .map(|request| later(&table, &grants, request));
        sleep(Duration::from_millis(150));
        assert_eq!(*grants.lock().unwrap(), [A, B, C], "both readers, not past the writer");
        tasks.into_iter().for_each(|task| task.join());
        assert_eq!(*grants.lock().unwrap(), [A, B, C, D, TxnId(5)]);
    });
}

#[test]
fn an_upgrade_goes_before_those_who_wait() {
    simulate(|| {
        let (table, grants) = (Arc::new(LockTable::new()), Arc::new(Mutex::new(Vec::new())));
        assert!(table.lock(A, name(1), Lock::Shared).unwrap());
        let reader = later(&table, &grants, (B, Lock::Shared, 0));
        let writer = later(&table, &grants, (C, Lock::Exclusive, 1));
        sleep(Duration::from_millis(10));
        // B holds it too and releases it at 100 ms; C has waited since 1 ms.
        assert!(!table.lock(A, name(1), Lock::Exclusive).unwrap(), "held before: to be released once");
        assert_eq!(*grants.lock().unwrap(), [B]);
        table.release(A, name(1));
        reader.join();
        writer.join();
        assert_eq!(*grants.lock().unwrap(), [B, C]);
    });
}

#[test]
fn the_one_who_closes_a_cycle_is_refused() {
    simulate(|| {
        let table = Arc::new(LockTable::new());
        for (txn, row) in [(A, 1), (B, 2), (C, 3)] {
            table.lock(txn, name(row), Lock::Exclusive).unwrap();
        }
        let wait = |txn: TxnId, row: u8| {
            let table = table.clone();
            spawn("waiter", move || {
                table.lock(txn, name(row), Lock::Shared).unwrap();
                table.release(txn, name(row));
                table.release(txn, name(txn.0 as u8));
            })
        };
        let waiters = [wait(A, 2), wait(B, 3)];
        sleep(Duration::from_millis(1));
        let refused = table.lock(C, name(1), Lock::Exclusive);
        assert!(matches!(refused, Err(StoreError::Deadlock)));
        table.release(C, name(3));
        waiters.into_iter().for_each(|waiter| waiter.join());
        // All locks are free again.
        for row in 1..=3 {
            assert_eq!(table.try_lock(D, name(row), Lock::Exclusive), Request::Granted);
        }
    });
}

#[test]
fn nobody_waits_for_a_transaction_that_will_not_end() {
    simulate(|| {
        let table = Arc::new(LockTable::new());
        table.lock(A, name(1), Lock::Exclusive).unwrap();
        let waiter = {
            let table = table.clone();
            spawn("waiter", move || {
                let refused = table.lock(B, name(1), Lock::Shared);
                assert!(matches!(refused, Err(StoreError::DuplicateKey)), "{refused:?}");
            })
        };
        sleep(Duration::from_millis(1));
        table.fail(&StoreError::DuplicateKey);
        waiter.join();
        assert!(table.lock(C, name(1), Lock::Shared).is_err(), "later ones do not wait, either");
        assert!(table.lock(C, name(2), Lock::Shared).is_ok(), "what is free can be had");
    });
}

#[test]
fn two_upgrades_of_one_row_are_a_deadlock() {
    simulate(|| {
        let table = Arc::new(LockTable::new());
        table.lock(A, name(1), Lock::Shared).unwrap();
        table.lock(B, name(1), Lock::Shared).unwrap();
        let other = {
            let table = table.clone();
            spawn("upgrade", move || {
                assert!(!table.lock(A, name(1), Lock::Exclusive).unwrap());
                table.release(A, name(1));
            })
        };
        sleep(Duration::from_millis(1));
        assert!(matches!(table.lock(B, name(1), Lock::Exclusive), Err(StoreError::Deadlock)));
        table.release(B, name(1));
        other.join();
    });
}

#[test]
fn names_tell_rows_apart() {
    let mut names: Vec<LockName> = Vec::new();
    for root in 2..5 {
        for length in 0..12 {
            for byte in 0..40u8 {
                names.push(LockName::new(PageNumber(root), &vec![byte; length]));
            }
        }
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    // The empty key is one row of each of the three tables.
    assert_eq!(names.len(), all - 3 * 39);
}

//! The locks under shuttle: every access to a lock's word and queue is a point at which another task may run.
//! Random and priority-based schedules search for orders in which two tasks hold the lock, or a task sleeps
//! for ever (which shuttle reports as a deadlock). The code under test is that of the locks themselves.
//!
//! ```text
//! cargo test -p entresol-runtime --features shuttle --test models
//! ```

use entresol_runtime::spawn;
use entresol_runtime::sync::{Condvar, Mutex, Rank, RwLatch, Semaphore};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

/// Schedules of each kind.
const SCHEDULES: usize = 3000;

fn check(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    for depth in 2..5 {
        shuttle::check_pct(model, SCHEDULES / 3, depth);
    }
}

fn team(count: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let tasks: Vec<_> = (0..count)
        .map(|id| {
            let body = body.clone();
            spawn("member", move || body(id))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
}

#[test]
fn one_writer_or_many_readers_and_nobody_is_forgotten() {
    check(|| {
        let latch = Arc::new(RwLatch::new(Rank::Test));
        let inside = Arc::new(AtomicIsize::new(0));
        let end = latch.clone();
        team(4, move |id| {
            for _ in 0..2 {
                if id < 2 {
                    latch.lock_exclusive();
                    assert_eq!(inside.swap(-1, SeqCst), 0);
                    assert_eq!(inside.swap(0, SeqCst), -1);
                    latch.unlock_exclusive();
                } else {
                    latch.lock_shared();
                    assert!(inside.fetch_add(1, SeqCst) >= 0);
                    assert!(inside.fetch_sub(1, SeqCst) > 0);
                    latch.unlock_shared();
                }
            }
        });
        assert!(!end.is_locked());
        assert!(end.try_lock_exclusive(), "the free latch still counts a waiter or holder");
    });
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer_between() {
    check(|| {
        let latch = Arc::new(RwLatch::new(Rank::Test));
        let value = Arc::new(AtomicUsize::new(0));
        team(3, move |id| {
            if id == 2 {
                latch.lock_shared();
                value.load(SeqCst);
                latch.unlock_shared();
                return;
            }
            latch.lock_exclusive();
            value.store(id + 1, SeqCst);
            latch.downgrade();
            assert_eq!(value.load(SeqCst), id + 1, "another writer came between");
            latch.unlock_shared();
        });
    });
}

#[test]
fn attempts_and_upgrades_never_let_two_in() {
    check(|| {
        let latch = Arc::new(RwLatch::new(Rank::Test));
        let inside = Arc::new(AtomicIsize::new(0));
        team(3, move |id| {
            let alone = match id {
                0 => latch.try_lock_exclusive(),
                1 => {
                    latch.lock_shared();
                    let upgraded = latch.try_upgrade();
                    if !upgraded {
                        latch.unlock_shared();
                    }
                    upgraded
                }
                _ => {
                    latch.lock_exclusive();
                    true
                }
            };
            if alone {
                assert_eq!(inside.swap(-1, SeqCst), 0);
                assert_eq!(inside.swap(0, SeqCst), -1);
                latch.unlock_exclusive();
            }
        });
    });
}

#[test]
fn a_condition_wakes_whoever_waits_for_it() {
    check(|| {
        let queue = Arc::new((Mutex::new(Rank::Test, VecDeque::new()), Condvar::new()));
        let sum = Arc::new(AtomicUsize::new(0));
        let total = sum.clone();
        team(4, move |id| {
            let (items, filled) = &*queue;
            let mut items = items.lock();
            if id < 2 {
                items.push_back(id + 1);
                filled.notify_one();
            } else {
                filled.wait_while(&mut items, |items| items.is_empty());
                sum.fetch_add(items.pop_front().expect("the queue is not empty"), SeqCst);
            }
        });
        assert_eq!(total.load(SeqCst), 3);
    });
}

#[test]
fn permits_are_neither_lost_nor_made() {
    check(|| {
        let semaphore = Arc::new(Semaphore::new(Rank::Test, 2));
        let taken = Arc::new(AtomicUsize::new(0));
        let end = semaphore.clone();
        team(4, move |id| {
            let permits = 1 + id % 2;
            let held = semaphore.acquire(permits);
            assert!(taken.fetch_add(permits, SeqCst) + permits <= 2);
            taken.fetch_sub(permits, SeqCst);
            drop(held);
        });
        assert_eq!(end.available(), 2);
    });
}

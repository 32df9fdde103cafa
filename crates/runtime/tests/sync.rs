//! The locks, under the schedules of many seeds, and on real threads.

use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::sync::{Condvar, Mutex, Rank, RwLatch, RwLock, Semaphore};
use entresol_runtime::{now, random, sleep, spawn, yield_now};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::time::Duration;

/// Runs `test` under 200 seeds in random order, most of them with preemption at the locks, then on real
/// threads.
fn everywhere(test: fn()) {
    for seed in 0..200 {
        let preempt_one_of = [0, 1, 2, 7][seed as usize % 4];
        let config = SimConfig { seed, random_order: true, preempt_one_of, ..SimConfig::default() };
        Simulation::new(config).run(test).unwrap();
    }
    test();
}

fn team(count: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let tasks: Vec<_> = (0..count)
        .map(|id| {
            let body = body.clone();
            spawn(&format!("member {id}"), move || body(id))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
}

fn pause() {
    match random() % 4 {
        0 => sleep(Duration::from_nanos(random() % 50)),
        1 => yield_now(),
        _ => {}
    }
}

#[test]
fn a_mutex_excludes() {
    everywhere(|| {
        let count = Arc::new(Mutex::new(Rank::Test, 0u64));
        let inside = Arc::new(AtomicUsize::new(0));
        let result = count.clone();
        team(8, move |_| {
            for _ in 0..40 {
                pause();
                let mut held = count.lock();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                let seen = *held;
                pause();
                *held = seen + 1;
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        });
        assert_eq!(*result.lock(), 320);
    });
}

#[test]
fn a_latch_lets_in_one_writer_or_many_readers() {
    everywhere(|| {
        let latch = Arc::new(RwLatch::new(Rank::Test));
        let inside = Arc::new(AtomicIsize::new(0));
        let together = Arc::new(AtomicIsize::new(0));
        let (end, most) = (latch.clone(), together.clone());
        team(8, move |id| {
            for round in 0..40 {
                pause();
                match (id + round) % 5 {
                    0 => {
                        latch.lock_exclusive();
                        assert_eq!(inside.swap(-1, Ordering::SeqCst), 0);
                        pause();
                        assert_eq!(inside.swap(0, Ordering::SeqCst), -1);
                        if round % 2 == 0 {
                            latch.downgrade();
                            assert!(inside.fetch_add(1, Ordering::SeqCst) >= 0);
                            pause();
                            assert!(inside.fetch_sub(1, Ordering::SeqCst) > 0);
                            latch.unlock_shared();
                        } else {
                            latch.unlock_exclusive();
                        }
                    }
                    1 => {
                        if latch.try_lock_exclusive() {
                            assert_eq!(inside.swap(-1, Ordering::SeqCst), 0);
                            pause();
                            assert_eq!(inside.swap(0, Ordering::SeqCst), -1);
                            latch.unlock_exclusive();
                        }
                    }
                    _ => {
                        latch.lock_shared();
                        let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(readers >= 1);
                        together.fetch_max(readers, Ordering::SeqCst);
                        pause();
                        assert!(inside.fetch_sub(1, Ordering::SeqCst) > 0);
                        latch.unlock_shared();
                    }
                }
            }
        });
        assert!(!end.is_locked());
        assert!(end.try_lock_exclusive(), "the free latch still counts a waiter or holder");
        end.unlock_exclusive();
        if entresol_runtime::is_simulated() {
            assert!(most.load(Ordering::SeqCst) > 1, "readers never met");
        }
    });
}

#[test]
fn upgrade_only_when_alone() {
    let latch = RwLatch::new(Rank::Test);
    latch.lock_shared();
    assert!(latch.try_lock_shared());
    assert!(!latch.try_upgrade());
    latch.unlock_shared();
    assert!(latch.try_upgrade());
    assert!(!latch.try_lock_shared());
    latch.unlock_exclusive();
    assert!(!latch.is_locked());
}

#[test]
fn nobody_starves_behind_a_greedy_holder() {
    Simulation::new(SimConfig::default())
        .run(|| {
            let mutex = Arc::new(Mutex::new(Rank::Test, ()));
            let greedy = mutex.clone();
            spawn("greedy", move || {
                loop {
                    let _held = greedy.lock();
                    sleep(Duration::from_micros(1));
                }
            });
            sleep(Duration::from_nanos(1));
            for _ in 0..100 {
                let start = now();
                drop(mutex.lock());
                assert!(now().since(start) <= Duration::from_micros(2));
                sleep(Duration::from_nanos(100));
            }
        })
        .unwrap();
}

#[test]
fn a_writer_is_not_starved_by_readers() {
    Simulation::new(SimConfig::default())
        .run(|| {
            let lock = Arc::new(RwLock::new(Rank::Test, 0));
            for id in 0..4u64 {
                let lock = lock.clone();
                spawn("reader", move || {
                    sleep(Duration::from_nanos(id * 300));
                    loop {
                        let _held = lock.read();
                        sleep(Duration::from_nanos(1000));
                    }
                });
            }
            sleep(Duration::from_micros(2));
            for _ in 0..100 {
                let start = now();
                *lock.write() += 1;
                assert!(now().since(start) <= Duration::from_micros(2));
                sleep(Duration::from_nanos(100));
            }
            assert_eq!(*lock.read(), 100);
        })
        .unwrap();
}

#[test]
fn a_condvar_hands_every_item_over_once() {
    everywhere(|| {
        let queue = Arc::new((Mutex::new(Rank::Test, VecDeque::new()), Condvar::new(), Condvar::new()));
        let sum = Arc::new(AtomicUsize::new(0));
        let total = sum.clone();
        team(6, move |id| {
            let (items, filled, emptied) = &*queue;
            for item in 1..=40usize {
                pause();
                let mut items = items.lock();
                if id % 2 == 0 {
                    emptied.wait_while(&mut items, |items| items.len() >= 3);
                    items.push_back(item);
                    filled.notify_one();
                } else {
                    filled.wait_while(&mut items, |items| items.is_empty());
                    sum.fetch_add(items.pop_front().expect("the queue is not empty"), Ordering::SeqCst);
                    emptied.notify_one();
                }
            }
        });
        assert_eq!(total.load(Ordering::SeqCst), 3 * 40 * 41 / 2);
    });
}

#[test]
fn a_timed_wait_ends_in_time_and_tells_why() {
    Simulation::new(SimConfig::default())
        .run(|| {
            let pair = Arc::new((Mutex::new(Rank::Test, ()), Condvar::new()));
            let other = pair.clone();
            spawn("notifier", move || {
                sleep(Duration::from_micros(10));
                assert_eq!(other.1.notify_all(), 1);
            });
            let mut guard = pair.0.lock();
            let start = now();
            assert!(!pair.1.wait_until(&mut guard, start + Duration::from_micros(4)));
            assert_eq!(now().since(start), Duration::from_micros(4));
            assert!(pair.1.wait_until(&mut guard, start + Duration::from_secs(4)));
            assert_eq!(now().since(start), Duration::from_micros(10));
            assert!(!pair.1.notify_one(), "nobody waits any more");
        })
        .unwrap();
}

#[test]
fn a_semaphore_keeps_its_count() {
    everywhere(|| {
        let semaphore = Arc::new(Semaphore::new(Rank::Test, 5));
        let taken = Arc::new(AtomicUsize::new(0));
        let end = semaphore.clone();
        team(8, move |id| {
            for _ in 0..20 {
                pause();
                let permits = id % 5 + 1;
                let held = semaphore.acquire(permits);
                assert!(taken.fetch_add(permits, Ordering::SeqCst) + permits <= 5);
                pause();
                taken.fetch_sub(permits, Ordering::SeqCst);
                drop(held);
            }
        });
        assert_eq!(end.available(), 5);
        assert!(end.try_acquire(6).is_none());
        assert!(end.try_acquire(5).is_some());
    });
}

//! The simulated runtime: determinism, time, cores, and every way in which a world ends.

use entresol_runtime::sim::{Outcome, SimConfig, Simulation, halt, is_halted};
use entresol_runtime::sync::{Condvar, Mutex, Rank, RwLatch};
use entresol_runtime::{
    Time, consume_cpu, current, is_simulated, now, park, park_timeout, random, sleep, spawn,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

fn simulation(seed: u64, random_order: bool) -> Simulation {
    Simulation::new(SimConfig { seed, random_order, ..SimConfig::default() })
}

/// Digest of a run of 20 tasks that sleep at random and contend for a lock.
fn trace(seed: u64, random_order: bool) -> u64 {
    simulation(seed, random_order)
        .run(|| {
            let digest = Arc::new(Mutex::new(Rank::Test, 0u64));
            let tasks: Vec<_> = (0..20u64)
                .map(|id| {
                    let digest = digest.clone();
                    spawn(&format!("worker {id}"), move || {
                        for _ in 0..50 {
                            sleep(Duration::from_nanos(random() % 7));
                            let mut held = digest.lock();
                            *held = held.wrapping_mul(31).wrapping_add(id ^ now().0);
                            sleep(Duration::from_nanos(random() % 3));
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.join();
            }
            *digest.lock()
        })
        .unwrap()
}

#[test]
fn one_seed_gives_one_trace() {
    for random_order in [false, true] {
        let first = trace(1, random_order);
        assert_eq!(first, trace(1, random_order));
        assert_ne!(first, trace(2, random_order));
    }
    let elsewhere = std::thread::spawn(|| trace(1, true)).join().expect("the trace does not panic");
    assert_eq!(elsewhere, trace(1, true));
}

#[test]
fn random_order_differs_from_arrival_order() {
    let order = |random_order| {
        simulation(3, random_order)
            .run(|| {
                let log = Arc::new(Mutex::new(Rank::Test, Vec::new()));
                let tasks: Vec<_> = (0..8)
                    .map(|id| {
                        let log = log.clone();
                        spawn("logger", move || log.lock().push(id))
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join());
                log.lock().clone()
            })
            .unwrap()
    };
    assert_eq!(order(false), (0..8).collect::<Vec<_>>());
    assert_ne!(order(true), order(false));
}

#[test]
fn time_is_virtual_and_timers_fire_in_order() {
    simulation(0, false)
        .run(|| {
            assert!(is_simulated());
            let log = Arc::new(Mutex::new(Rank::Test, Vec::new()));
            let tasks: Vec<_> = [30u64, 10, 20, 10]
                .into_iter()
                .enumerate()
                .map(|(index, hours)| {
                    let log = log.clone();
                    spawn("sleeper", move || {
                        sleep(Duration::from_secs(hours * 3600));
                        log.lock().push((now().since(Time(0)).as_secs() / 3600, index));
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join());
            assert_eq!(*log.lock(), vec![(10, 1), (10, 3), (20, 2), (30, 0)]);
        })
        .unwrap();
    assert!(!is_simulated());
}

#[test]
fn unpark_before_park_is_remembered_once() {
    simulation(0, false)
        .run(|| {
            current().unpark();
            current().unpark();
            park();
            park_timeout(Duration::from_micros(5));
            assert_eq!(now(), Time(5_000));
        })
        .unwrap();
}

#[test]
fn park_with_timeout_ends_at_whatever_comes_first() {
    simulation(0, false)
        .run(|| {
            let main = current();
            spawn("waker", move || {
                sleep(Duration::from_nanos(40));
                main.unpark();
            });
            park_timeout(Duration::from_secs(100));
            assert_eq!(now(), Time(40));
            // The stale timer neither wakes a task nor advances the time.
            sleep(Duration::from_nanos(1));
            assert_eq!(now(), Time(41));
            for _ in 0..1000 {
                current().unpark();
                park_timeout(Duration::from_secs(100));
            }
            park_timeout(Duration::from_nanos(9));
            assert_eq!(now(), Time(50));
        })
        .unwrap();
}

#[test]
fn cores_are_shared_first_come_first_served() {
    let simulation = Simulation::new(SimConfig { cores: 2, ..SimConfig::default() });
    let ends = simulation
        .run(|| {
            let ends = Arc::new(Mutex::new(Rank::Test, Vec::new()));
            let tasks: Vec<_> = (0..5)
                .map(|_| {
                    let ends = ends.clone();
                    spawn("worker", move || {
                        consume_cpu(Duration::from_nanos(10));
                        ends.lock().push(now().0);
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join());
            ends.lock().clone()
        })
        .unwrap();
    assert_eq!(ends, vec![10, 10, 20, 20, 30]);
}

struct CountsDrops(Arc<AtomicUsize>);
impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tasks that wait in every possible way while they hold values with destructors.
fn crowd(drops: &Arc<AtomicUsize>) {
    let mutex = Arc::new(Mutex::new(Rank::Test, ()));
    let latch = Arc::new(RwLatch::new(Rank::Test));
    let condvar = Arc::new(Condvar::new());
    for id in 0..30 {
        let owned = CountsDrops(drops.clone());
        let (mutex, latch, condvar) = (mutex.clone(), latch.clone(), condvar.clone());
        spawn("waiter", move || {
            let _owned = owned;
            match id % 6 {
                0 => {
                    let _held = mutex.lock();
                    sleep(Duration::from_secs(1_000_000));
                }
                1 => drop(mutex.lock()),
                2 => {
                    latch.lock_shared();
                    sleep(Duration::from_secs(1_000_000));
                }
                3 => latch.lock_exclusive(),
                4 => condvar.wait(&mut mutex.lock()),
                _ => loop {
                    park();
                },
            }
        });
    }
}

#[test]
fn a_halt_drops_everything_whoever_waits_wherever() {
    for seed in 0..50 {
        let drops = Arc::new(AtomicUsize::new(0));
        let counter = drops.clone();
        let outcome: Outcome<()> = simulation(seed, true).run(move || {
            crowd(&counter);
            sleep(Duration::from_secs(seed % 3));
            halt()
        });
        assert_eq!(outcome, Outcome::Halted);
        assert_eq!(drops.load(Ordering::Relaxed), 30, "seed {seed}");
    }
}

#[test]
fn tasks_left_behind_by_main_are_dropped() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counter = drops.clone();
    let outcome = simulation(0, false).run(move || {
        crowd(&counter);
        sleep(Duration::from_secs(1));
        17
    });
    assert_eq!(outcome, Outcome::Finished(17));
    assert_eq!(drops.load(Ordering::Relaxed), 30);
}

#[test]
fn a_halt_in_a_task_stops_main() {
    let outcome: Outcome<()> = simulation(0, false).run(|| {
        spawn("injector", || {
            sleep(Duration::from_millis(1));
            halt();
        });
        loop {
            sleep(Duration::from_micros(100));
            assert!(now() <= Time(1_000_000), "time went on after the halt");
        }
    });
    assert_eq!(outcome, Outcome::Halted);
}

/// Locks, sleeps and spawns while it is being dropped.
struct BusyDrop(Arc<Mutex<u64>>);
impl Drop for BusyDrop {
    fn drop(&mut self) {
        assert!(is_halted());
        sleep(Duration::from_secs(1));
        spawn("too late", || unreachable!("nothing starts in a dying world")).join();
        *self.0.lock() += 1;
    }
}

#[test]
fn destructors_may_wait_for_each_other_in_a_dying_world() {
    for seed in 0..20 {
        let outcome: Outcome<()> = simulation(seed, true).run(|| {
            let mutex = Arc::new(Mutex::new(Rank::Test, 0));
            for _ in 0..5 {
                let mutex = mutex.clone();
                spawn("busy", move || {
                    let _busy = BusyDrop(mutex.clone());
                    park();
                });
            }
            let holder = mutex.clone();
            spawn("holder", move || {
                let _held = holder.lock();
                loop {
                    park();
                }
            });
            sleep(Duration::from_nanos(1));
            halt()
        });
        assert_eq!(outcome, Outcome::Halted);
    }
}

#[test]
fn a_destructor_that_waits_for_ever_does_not_hang_the_world() {
    struct Stuck;
    impl Drop for Stuck {
        fn drop(&mut self) {
            loop {
                park();
            }
        }
    }
    let outcome: Outcome<()> = simulation(0, false).run(|| {
        spawn("stuck", || {
            let _stuck = Stuck;
            park();
        });
        sleep(Duration::from_nanos(1));
        halt()
    });
    assert_eq!(outcome, Outcome::Halted);
    // The thread can still run further worlds.
    assert_eq!(trace(1, false), trace(1, false));
}

#[test]
fn a_deadlock_names_those_who_wait() {
    let outcome: Outcome<()> = simulation(0, false).run(|| {
        spawn("left", || {
            loop {
                park();
            }
        });
        spawn("right", || {
            loop {
                park();
            }
        });
        loop {
            park();
        }
    });
    let Outcome::Deadlock { mut parked } = outcome else { panic!("{outcome:?}") };
    parked.sort();
    assert_eq!(parked, ["left", "main", "right"]);
}

#[test]
fn a_panic_ends_the_world_with_its_message() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counter = drops.clone();
    let outcome: Outcome<()> = simulation(0, false).run(move || {
        crowd(&counter);
        spawn("clumsy", || {
            sleep(Duration::from_secs(1));
            panic!("dropped page {}", 42);
        });
        loop {
            park();
        }
    });
    assert_eq!(outcome, Outcome::Panicked("task \"clumsy\" panicked: dropped page 42".to_owned()));
    assert_eq!(drops.load(Ordering::Relaxed), 30);
}

#[test]
fn a_destructor_may_take_a_lock_while_its_task_panics() {
    let outcome: Outcome<()> = simulation(0, false).run(|| {
        let mutex = Arc::new(Mutex::new(Rank::Test, 0));
        let other = mutex.clone();
        spawn("holder", move || {
            let _held = other.lock();
            sleep(Duration::from_secs(1));
        });
        sleep(Duration::from_nanos(1));
        struct Locks(Arc<Mutex<u64>>);
        impl Drop for Locks {
            fn drop(&mut self) {
                *self.0.lock() += 1;
            }
        }
        let _locks = Locks(mutex);
        panic!("first");
    });
    assert_eq!(outcome, Outcome::Panicked("task \"main\" panicked: first".to_owned()));
}

#[test]
fn main_may_borrow() {
    let mut log = Vec::new();
    let text = String::from("borrowed");
    simulation(0, false)
        .run(|| {
            sleep(Duration::from_nanos(1));
            log.push(text.as_str());
        })
        .unwrap();
    assert_eq!(log, ["borrowed"]);
}

#[test]
fn thousands_of_worlds_one_after_the_other_and_at_once() {
    let total = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let total = total.clone();
            std::thread::spawn(move || {
                for seed in 0..500 {
                    let total = total.clone();
                    let outcome: Outcome<()> = simulation(thread * 1000 + seed, true).run(move || {
                        for _ in 0..10 {
                            spawn("waiter", || {
                                loop {
                                    sleep(Duration::from_nanos(random() % 10 + 1));
                                }
                            });
                        }
                        sleep(Duration::from_nanos(100));
                        total.fetch_add(1, Ordering::Relaxed);
                        halt()
                    });
                    assert_eq!(outcome, Outcome::Halted);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("worlds do not panic"));
    assert_eq!(total.load(Ordering::Relaxed), 2000);
}

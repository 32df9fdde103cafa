//! The order of the locks: docs/LOCKING.md shows it, and debug builds notice who breaks it.

use entresol_runtime::sync::Rank;
use std::fs;

const BEGIN: &str = "<!-- The table of ranks: crates/runtime/src/sync/rank.rs -->\n";
const END: &str = "<!-- End of the table -->\n";

/// After a change of the ranks: `UPDATE_EXPECT=1 cargo test -p entresol-runtime --test ranks`.
#[test]
fn the_documentation_shows_the_order() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LOCKING.md");
    let text = fs::read_to_string(path).expect("the file is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table has a beginning");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", Rank::table());
    expect_test::expect_file!["../../../docs/LOCKING.md"].assert_eq(&expected);
}

#[test]
fn names_are_of_one_lock() {
    let mut names: Vec<_> = Rank::ALL.iter().map(|rank| rank.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Rank::ALL.len());
    assert!(Rank::ALL.is_sorted(), "the table is in the order of the ranks");
}

#[cfg(debug_assertions)]
mod checked {
    use super::Rank;
    use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
    use entresol_runtime::sync::{
        Condvar, Hold, Mutex, RwLock, Semaphore, TinyMutex, allocation_is_forbidden, allowing_allocation,
        assert_nothing_held,
    };
    use entresol_runtime::{sleep, spawn};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::time::Duration;

    /// What `work` panics with: on a thread, and as a task of a simulation.
    fn panics(work: fn()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(work)).expect_err("it breaks a rule");
        let message = payload.downcast_ref::<String>().expect("a message").clone();
        match Simulation::new(SimConfig::default()).run(work) {
            Outcome::Panicked(simulated) => assert!(simulated.ends_with(&message), "{simulated}"),
            other => panic!("in a simulation: {other:?}"),
        }
        // What the panic has unwound is not held any more.
        assert_nothing_held("the test goes on");
        message
    }

    fn works(work: fn()) {
        work();
        Simulation::new(SimConfig::default()).run(work).unwrap();
    }

    #[test]
    fn locks_in_the_wrong_order_are_caught() {
        let message = panics(|| {
            let latch = RwLock::new(Rank::PageLatch, ());
            let gate = Mutex::new(Rank::Checkpoint, ());
            let _latched = latch.read();
            let _gate = gate.lock();
        });
        let (taken, held) = (Rank::Checkpoint, Rank::PageLatch);
        assert!(message.contains(&format!("{taken} is taken while {held} is held")), "{message}");
        assert!(message.contains(&format!("the order is {taken} before {held}")), "{message}");
        assert!(message.contains("ranks.rs"), "it says where the other one was taken: {message}");
        works(|| {
            let latch = RwLock::new(Rank::PageLatch, ());
            let gate = Mutex::new(Rank::Checkpoint, ());
            let _gate = gate.lock();
            let _latched = latch.read();
        });
    }

    #[test]
    fn permits_and_holds_have_their_place_in_the_order() {
        panics(|| {
            let permits = Semaphore::new(Rank::PoolPermit, 2);
            let _held = Hold::taken(Rank::PageLatch);
            drop(permits.acquire(1));
        });
        panics(|| {
            let permits = Semaphore::new(Rank::PoolPermit, 2);
            let _permit = permits.acquire(1);
            Hold::may_wait(Rank::LogRoom);
        });
        works(|| {
            let permits = Semaphore::new(Rank::PoolPermit, 2);
            permits.acquire(1).forget();
            Hold::may_wait(Rank::LogRoom);
        });
    }

    #[test]
    fn a_lock_that_is_taken_without_waiting_may_be_of_any_rank_and_counts_as_held() {
        works(|| {
            let shard = TinyMutex::new(Rank::PageTable, ());
            let latch = RwLock::new(Rank::PageLatch, ());
            let _shard = shard.lock();
            assert!(latch.try_read().is_some());
        });
        panics(|| {
            let latch = RwLock::new(Rank::PageLatch, ());
            let gate = Mutex::new(Rank::Checkpoint, ());
            let _latched = latch.try_write();
            let _gate = gate.lock();
        });
    }

    #[test]
    fn only_some_ranks_may_be_held_twice() {
        works(|| {
            let [root, leaf] = [(); 2].map(|()| RwLock::new(Rank::PageLatch, ()));
            let _root = root.read();
            let _leaf = leaf.write();
        });
        panics(|| {
            let [one, other] = [(); 2].map(|()| Mutex::new(Rank::Superblock, ()));
            let _one = one.lock();
            let _other = other.lock();
        });
        let message = panics(|| {
            let latch = RwLock::new(Rank::PageLatch, ());
            let _first = latch.read();
            let _second = latch.read();
        });
        assert!(message.contains("which it has held since"), "{message}");
    }

    #[test]
    fn nothing_may_be_taken_under_the_partition_not_even_without_waiting() {
        for work in [
            || {
                let [partition, other] =
                    [Rank::CachePartition, Rank::Measurement].map(|rank| TinyMutex::new(rank, ()));
                let _partition = partition.lock();
                let _other = other.lock();
            },
            || {
                let [partition, other] =
                    [Rank::CachePartition, Rank::Measurement].map(|rank| TinyMutex::new(rank, ()));
                let _partition = partition.lock();
                let _other = other.try_lock();
            },
        ] {
            let message = panics(work);
            assert!(message.contains("under") && message.contains("\"cache partition\""), "{message}");
        }
        works(|| {
            let partition = TinyMutex::new(Rank::CachePartition, ());
            assert_eq!(allocation_is_forbidden(), None);
            let held = partition.lock();
            assert_eq!(allocation_is_forbidden(), Some(Rank::CachePartition));
            assert_eq!(allowing_allocation(allocation_is_forbidden), None);
            drop(held);
            assert_eq!(allocation_is_forbidden(), None);
        });
    }

    #[test]
    fn nothing_parks_under_a_lock_that_blocks_its_thread() {
        let message = panics(|| {
            let tiny = TinyMutex::new(Rank::LogTail, ());
            let _held = tiny.lock();
            sleep(Duration::from_nanos(1));
        });
        assert!(message.contains("may park while it holds \"log tail\""), "{message}");
    }

    #[test]
    fn a_task_that_waits_for_a_condition_does_not_hold_the_mutex() {
        works(|| {
            let pair = Arc::new((Mutex::new(Rank::LogFlusher, false), Condvar::new()));
            let waker = pair.clone();
            let task = spawn("waker", move || {
                *waker.0.lock() = true;
                waker.1.notify_all();
            });
            let mut done = pair.0.lock();
            pair.1.wait_while(&mut done, |done| !*done);
            drop(done);
            assert_nothing_held("the wait is over");
            task.join();
        });
    }

    #[test]
    fn tasks_of_a_simulation_hold_their_own_locks() {
        let run = Simulation::new(SimConfig::default()).run(|| {
            let latch = Arc::new(RwLock::new(Rank::PageLatch, ()));
            let holder = {
                let latch = latch.clone();
                spawn("holder", move || {
                    let _latched = latch.write();
                    sleep(Duration::from_micros(2));
                })
            };
            sleep(Duration::from_micros(1));
            assert!(latch.try_read().is_none(), "the other task holds it");
            drop(Mutex::new(Rank::Modification, ()).lock());
            assert_nothing_held("this task holds nothing");
            holder.join();
        });
        run.unwrap();
        assert_nothing_held("the thread under the simulation holds nothing");
    }
}

//! The latch, the epoch and the table of processes under shuttle: every access to their words is a point at
//! which another task may run. Random and priority-based schedules search for orders in which two tasks hold
//! the latch, or a task sleeps for ever (which shuttle reports as a deadlock: a modelled sleep has no
//! slices). The kernel's futex is replaced by a model of it (`src/futex/modelled.rs`).
//!
//! ```text
//! cargo test --release -p entresol-shm --features shuttle --test models
//! ```

use entresol_shm::atomic::{AtomicU32, Ordering::SeqCst};
use entresol_shm::{Epoch, Gone, Holder, Latch, Plan, SeatError, Segment};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;

/// Schedules of each kind.
const SCHEDULES: usize = 10_000;
/// Any limit: a modelled sleep with one may end at any time.
const LIMIT: Option<Duration> = Some(Duration::from_secs(3600));

fn check(model: fn()) {
    check_some(SCHEDULES, model);
}

fn check_some(schedules: usize, model: fn()) {
    shuttle::check_random(model, schedules);
    for depth in 2..5 {
        shuttle::check_pct(model, schedules / 3, depth);
    }
}

fn team(count: u32, body: impl Fn(u32) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let tasks: Vec<_> = (0..count)
        .map(|id| {
            let body = body.clone();
            thread::spawn(move || body(id))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().expect("a task that panics ends the model"));
}

fn holder(id: u32) -> Holder {
    Holder::new(id + 1).expect("a small number")
}

/// Enters a section that one task at a time may be in.
fn section(inside: &AtomicU32) {
    assert_eq!(inside.swap(1, SeqCst), 0, "two tasks at once");
    assert_eq!(inside.swap(0, SeqCst), 1, "two tasks at once");
}

#[test]
fn one_task_holds_the_latch_and_nobody_is_forgotten() {
    check(|| {
        let (latch, inside) = (Arc::new(Latch::new()), Arc::new(AtomicU32::new(0)));
        let end = latch.clone();
        team(3, move |id| {
            for _ in 0..2 {
                let guard = latch.lock(holder(id)).expect("nobody poisons it");
                assert_eq!(latch.holder(), Some(holder(id)));
                section(&inside);
                drop(guard);
            }
        });
        assert_eq!(end.holder(), None);
        assert!(matches!(end.try_lock(holder(0)), Ok(Some(_))), "the free latch can be had");
    });
}

#[test]
fn an_attempt_never_lets_two_in() {
    check(|| {
        let (latch, inside) = (Arc::new(Latch::new()), Arc::new(AtomicU32::new(0)));
        team(3, move |id| {
            let guard = match id {
                0 => latch.try_lock(holder(id)).expect("nobody poisons it"),
                _ => Some(latch.lock(holder(id)).expect("nobody poisons it")),
            };
            if let Some(_guard) = guard {
                section(&inside);
            }
        });
    });
}

/// A holder dies with the latch; the back notices and poisons it.
#[test]
fn a_poisoned_latch_wakes_all_who_wait() {
    check(|| {
        let latch = Arc::new(Latch::new());
        let end = latch.clone();
        team(4, move |id| match id {
            0 => latch.poison(),
            _ => {
                for _ in 0..2 {
                    match latch.lock(holder(id)) {
                        Ok(guard) => std::mem::forget(guard),
                        Err(Gone) => assert!(latch.is_gone()),
                    }
                }
            }
        });
        assert_eq!(end.try_lock(holder(0)).err(), Some(Gone));
    });
}

/// A holder who is alive releases a latch that is poisoned meanwhile: nobody follows.
#[test]
fn nobody_gets_a_latch_after_it_was_poisoned() {
    check(|| {
        let (latch, inside) = (Arc::new(Latch::new()), Arc::new(AtomicU32::new(0)));
        let poisoned = Arc::new(AtomicU32::new(0));
        let end = latch.clone();
        team(3, move |id| {
            if id == 0 {
                latch.poison();
                poisoned.store(1, SeqCst);
                return;
            }
            for _ in 0..2 {
                let is_late = poisoned.load(SeqCst) == 1;
                if let Ok(_guard) = latch.lock(holder(id)) {
                    assert!(!is_late, "taken after it was poisoned");
                    section(&inside);
                }
            }
        });
        assert!(end.is_gone(), "a release has brought the latch back");
        assert_eq!(end.lock(holder(0)).err(), Some(Gone));
    });
}

/// The flag is set, and the number raised, at any moment between a waiter's look and its sleep.
#[test]
fn a_raise_between_a_look_and_a_sleep_is_not_lost() {
    check(|| {
        let (epoch, flag) = (Arc::new(Epoch::new()), Arc::new(AtomicU32::new(0)));
        team(3, move |id| {
            if id == 0 {
                flag.store(1, SeqCst);
                epoch.raise();
                return;
            }
            loop {
                let seen = epoch.seen();
                if flag.load(SeqCst) == 1 {
                    break;
                }
                epoch.wait(seen, None);
            }
        });
    });
}

/// Several raisers, each with a change of its own; every waiter wants the last of them.
#[test]
fn every_raise_wakes_all_who_wait() {
    check(|| {
        let (epoch, changes) = (Arc::new(Epoch::new()), Arc::new(AtomicU32::new(0)));
        team(4, move |id| {
            if id < 2 {
                changes.fetch_add(1, SeqCst);
                epoch.raise();
                return;
            }
            loop {
                let seen = epoch.seen();
                if changes.load(SeqCst) == 2 {
                    break;
                }
                epoch.wait(seen, None);
            }
        });
    });
}

/// A waiter whose time is up takes nobody else's wake-up along, and is told the truth. Another one, for a
/// later raise, keeps nobody asleep.
#[test]
fn a_waiter_with_a_limit_neither_loses_nor_invents_a_raise() {
    check(|| {
        let (epoch, flag) = (Arc::new(Epoch::new()), Arc::new(AtomicU32::new(0)));
        let (raised, start) = (Arc::new(AtomicU32::new(0)), epoch.seen());
        team(4, move |id| match id {
            0 => {
                flag.store(1, SeqCst);
                epoch.raise();
                raised.store(1, SeqCst);
            }
            1 => loop {
                let seen = epoch.seen();
                if flag.load(SeqCst) == 1 {
                    break;
                }
                epoch.wait(seen, None);
            },
            2 => {
                let seen = epoch.seen();
                epoch.wait(seen, LIMIT);
            }
            _ => {
                let was_raised = raised.load(SeqCst) == 1;
                let is_raised = epoch.wait(start, LIMIT);
                assert!(is_raised || !was_raised, "a raise is lost");
                assert!(!is_raised || flag.load(SeqCst) == 1, "a raise is invented");
            }
        });
    });
}

/// Three fronts want two seats, leave, and come again; the back looks at the table meanwhile.
#[test]
fn a_seat_has_one_owner() {
    check_some(SCHEDULES / 10, || {
        let mut plan = Plan::new(1);
        let table = plan.fronts("fronts", 2);
        let segment = Segment::create_memfd(&plan).expect("memory").publish().expect("it has no name");
        let fronts = segment.fronts(&table);
        let end = fronts.clone();
        let inside = Arc::new([const { AtomicU32::new(0) }; 4]);
        team(4, move |id| {
            if id == 3 {
                assert_eq!(fronts.watch().find_dead(), [], "all live");
                return;
            }
            for _ in 0..2 {
                match fronts.register() {
                    Ok(front) => {
                        section(&inside[front.holder().number() as usize]);
                        drop(front);
                    }
                    Err(error) => assert_eq!(error, SeatError::Full { seats: 2 }),
                }
            }
        });
        assert_eq!(end.count(), 0);
    });
}

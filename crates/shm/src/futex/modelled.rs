//! Futexes under shuttle: a table of sleepers, by the address of their word. The comparison and the sleep are
//! one step, as in the kernel. All tasks of a model share an OS thread, and so the table.
//!
//! A sleep without a limit does not end by itself, not even after [`super::SLICE`]: a sleeper whose wake-up
//! is lost sleeps on, which shuttle reports as a deadlock. A sleep with a limit may end at any time. The
//! kernel promises no order among sleepers, so any one of them is woken.

use super::Wake;
use crate::atomic::{AtomicU32, raw};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, Thread};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

struct Sleeper {
    word: usize,
    task: Thread,
    woken: Rc<Cell<bool>>,
}

thread_local! {
    static SLEEPERS: RefCell<Vec<Sleeper>> = const { RefCell::new(Vec::new()) };
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Sleeps while `word` is `expected`. A task that could sleep is, now and then, interrupted by a signal.
pub(crate) fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> Wake {
    if thread_rng().gen_bool(0.1) {
        return Wake::Signal;
    }
    let woken = Rc::new(Cell::new(false));
    let task = thread::current();
    // From here to `park` no other task runs.
    if raw(word).load(SeqCst) != expected {
        return Wake::Look;
    }
    SLEEPERS.with_borrow_mut(|all| all.push(Sleeper { word: address(word), task, woken: woken.clone() }));
    while !woken.get() {
        match limit {
            None => thread::park(),
            Some(_) if thread_rng().gen_bool(0.3) => {
                SLEEPERS.with_borrow_mut(|all| all.retain(|other| !Rc::ptr_eq(&other.woken, &woken)));
                return Wake::TimeUp;
            }
            Some(_) => thread::yield_now(),
        }
    }
    Wake::Look
}

/// Wakes one that sleeps on `word`.
pub(crate) fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all that sleep on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake(word, usize::MAX);
}

fn wake(word: &AtomicU32, count: usize) {
    let word = address(word);
    for _ in 0..count {
        let asleep = SLEEPERS.with_borrow(|all| all.iter().filter(|sleeper| sleeper.word == word).count());
        if asleep == 0 {
            return;
        }
        let nth = thread_rng().gen_range(0..asleep);
        let sleeper = SLEEPERS.with_borrow_mut(|all| {
            let mut places = (0..all.len()).filter(|place| all[*place].word == word);
            let place = places.nth(nth).expect("as many sleep");
            all.swap_remove(place)
        });
        sleeper.woken.set(true);
        sleeper.task.unpark();
    }
}

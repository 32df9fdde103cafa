//! The shared/exclusive latch on which the mutex and the read-write lock are built.
//!
//! Invariant: `state` tells the holders exactly, and `QUEUED` is set whenever the queue is not empty; both
//! change from "no waiter" to "waiter" only under the queue's lock. Hence a releaser that sees no `QUEUED`
//! owes no wake-up, and one that sees it finds the waiter in the queue.

use super::held::Tag;
use super::prim::{AtomicUsize, QueueLock};
use super::rank::{Rank, Wait};
use crate::task::{self, Task};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A task waits.
const QUEUED: usize = 1;
/// Held exclusively.
const EXCLUSIVE: usize = 2;
/// The front waiter was woken in vain: the next release is its own.
const HANDOFF: usize = 4;
/// One shared holder.
const SHARED: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

#[derive(Debug)]
struct Waiter {
    task: Task,
    ticket: u64,
    mode: Mode,
}

#[derive(Debug)]
struct Queue {
    waiters: VecDeque<Waiter>,
    next_ticket: u64,
}

/// A latch that many may hold shared, or one exclusively. It guards no data of its own: the task
/// that took it must release it, in the mode in which it took it. See the module's header for fairness and
/// cost.
#[derive(Debug)]
pub struct RwLatch {
    tag: Tag,
    state: AtomicUsize,
    queue: QueueLock<Queue>,
}

impl RwLatch {
    /// A free latch.
    pub const fn new(rank: Rank) -> Self {
        Self {
            tag: Tag::new(rank, Wait::Parks),
            state: AtomicUsize::new(0),
            queue: QueueLock::new(Queue { waiters: VecDeque::new(), next_ticket: 0 }),
        }
    }

    /// Takes the latch exclusively; waits while another task holds it.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock_exclusive(&self) {
        self.tag.may_wait();
        task::may_preempt();
        if self.state.compare_exchange_weak(0, EXCLUSIVE, Acquire, Relaxed).is_err() {
            self.lock_slow(Mode::Exclusive);
        }
        self.tag.taken();
    }

    /// Takes the latch shared; waits while another task holds it exclusively or waits for it.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock_shared(&self) {
        self.tag.may_wait();
        task::may_preempt();
        if !self.try_take_shared() {
            self.lock_slow(Mode::Shared);
        }
        self.tag.taken();
    }

    /// Takes the latch exclusively if it is free; never waits.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock_exclusive(&self) -> bool {
        let is_taken = self.try_barge(Mode::Exclusive);
        if is_taken {
            self.tag.taken();
        }
        is_taken
    }

    /// Takes the latch shared if no task holds it exclusively or waits for it; never waits.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock_shared(&self) -> bool {
        let is_taken = self.try_take_shared();
        if is_taken {
            self.tag.taken();
        }
        is_taken
    }

    fn try_take_shared(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        while state & (QUEUED | EXCLUSIVE) == 0 {
            match self.state.compare_exchange_weak(state, state + SHARED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Releases an exclusive hold.
    ///
    /// # Panics
    /// If no task holds the latch exclusively.
    pub fn unlock_exclusive(&self) {
        self.tag.released();
        if self.state.compare_exchange(EXCLUSIVE, 0, Release, Relaxed).is_err() {
            if self.is_locked_exclusive() {
                self.release_slow(EXCLUSIVE);
            } else {
                // A task that is torn down on its way back into the latch does not hold it.
                assert!(crate::sim::is_halted(), "an exclusive latch is released that nobody holds");
            }
        }
    }

    /// Releases one shared hold.
    ///
    /// # Panics
    /// If no task holds the latch shared.
    pub fn unlock_shared(&self) {
        self.tag.released();
        let mut state = self.state.load(Relaxed);
        loop {
            if state < SHARED {
                assert!(crate::sim::is_halted(), "a shared latch is released that nobody holds");
                return;
            }
            if state & QUEUED != 0 && state < 2 * SHARED {
                return self.release_slow(SHARED);
            }
            match self.state.compare_exchange_weak(state, state - SHARED, Release, Relaxed) {
                Ok(_) => return,
                Err(found) => state = found,
            }
        }
    }

    /// Turns an exclusive hold into a shared one, without letting another writer in between.
    ///
    /// # Panics
    /// If no task holds the latch exclusively.
    pub fn downgrade(&self) {
        assert!(self.is_locked_exclusive(), "a latch is downgraded that nobody holds exclusively");
        let before = self.state.fetch_add(SHARED.wrapping_sub(EXCLUSIVE), Release);
        if before & QUEUED != 0 {
            let mut queue = self.queue.lock();
            if queue.waiters.front().is_some_and(|front| front.mode == Mode::Shared) {
                self.grant_front(&mut queue);
            }
        }
    }

    /// Turns the caller's shared hold into an exclusive one if it is the only holder and no task waits; never
    /// waits.
    pub fn try_upgrade(&self) -> bool {
        self.state.compare_exchange(SHARED, EXCLUSIVE, Acquire, Relaxed).is_ok()
    }

    /// Whether a task holds the latch exclusively. For assertions.
    pub fn is_locked_exclusive(&self) -> bool {
        self.state.load(Relaxed) & EXCLUSIVE != 0
    }

    /// Whether any task holds the latch. For assertions.
    pub fn is_locked(&self) -> bool {
        self.state.load(Relaxed) & !(QUEUED | HANDOFF) != 0
    }

    /// Takes the latch past the queue, unless the front waiter is owed the next release.
    fn try_barge(&self, mode: Mode) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            let (open, taken) = match mode {
                Mode::Exclusive => (state & (EXCLUSIVE | HANDOFF) == 0 && state < SHARED, state | EXCLUSIVE),
                Mode::Shared => (state & (EXCLUSIVE | QUEUED) == 0, state + SHARED),
            };
            if !open {
                return false;
            }
            match self.state.compare_exchange_weak(state, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
    }

    #[cold]
    fn lock_slow(&self, mode: Mode) {
        let spins = if cfg!(feature = "shuttle") || task::is_simulated() { 1 } else { 40 };
        for _ in 0..spins {
            if self.try_barge(mode) {
                return;
            }
            std::hint::spin_loop();
        }
        let ticket = {
            let mut queue = self.queue.lock();
            // From here on the holder sees that a task waits, or the latch is free and ours.
            self.state.fetch_or(QUEUED, Relaxed);
            if queue.waiters.is_empty() && self.try_take_as_front(mode) {
                self.after_pop(&queue);
                return;
            }
            let ticket = queue.next_ticket;
            queue.next_ticket += 1;
            queue.waiters.push_back(Waiter { task: task::current(), ticket, mode });
            ticket
        };
        let waiting = Waiting { latch: self, ticket, mode };
        loop {
            task::park();
            let mut queue = self.queue.lock();
            match queue.waiters.front() {
                Some(front) if front.ticket == ticket => {
                    if self.try_take_as_front(mode) {
                        queue.waiters.pop_front();
                        self.state.fetch_and(!HANDOFF, Relaxed);
                        self.after_pop(&queue);
                        if mode == Mode::Shared {
                            self.grant_shared(&mut queue);
                        }
                        break;
                    }
                    self.state.fetch_or(HANDOFF, Relaxed);
                    // The holder may have released it before it could see the flag.
                    if self.state.load(Relaxed) & !(QUEUED | HANDOFF) == 0 {
                        self.grant_front(&mut queue);
                        break;
                    }
                }
                _ => {
                    if !queue.waiters.iter().any(|waiter| waiter.ticket == ticket) {
                        break;
                    }
                }
            }
        }
        std::mem::forget(waiting);
    }

    /// Takes the latch regardless of waiters; the caller is the front of the queue and holds the queue's
    /// lock.
    fn try_take_as_front(&self, mode: Mode) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            let (open, taken) = match mode {
                Mode::Exclusive => (state & EXCLUSIVE == 0 && state < SHARED, state | EXCLUSIVE),
                Mode::Shared => (state & EXCLUSIVE == 0, state + SHARED),
            };
            if !open {
                return false;
            }
            match self.state.compare_exchange_weak(state, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
    }

    #[cold]
    fn release_slow(&self, held: usize) {
        let mut queue = self.queue.lock();
        let before = self.state.fetch_sub(held, Release);
        let left = before - held;
        if left & EXCLUSIVE != 0 || left >= SHARED {
            return;
        }
        self.wake_front(&mut queue);
    }

    /// The latch has become free: hands it to the front waiter if he is owed it, else wakes him to try.
    fn wake_front(&self, queue: &mut Queue) {
        if self.state.load(Relaxed) & HANDOFF != 0 {
            self.grant_front(queue);
        } else if let Some(front) = queue.waiters.front() {
            front.task.unpark();
        } else {
            self.state.fetch_and(!QUEUED, Relaxed);
        }
    }

    /// Gives the latch to the front waiter, and with a reader to all readers after it, as far as it is free.
    fn grant_front(&self, queue: &mut Queue) {
        let Some(front) = queue.waiters.front() else {
            self.state.fetch_and(!(QUEUED | HANDOFF), Relaxed);
            return;
        };
        let mode = front.mode;
        if !self.try_take_as_front(mode) {
            return;
        }
        if let Some(waiter) = queue.waiters.pop_front() {
            waiter.task.unpark();
        }
        self.state.fetch_and(!HANDOFF, Relaxed);
        self.after_pop(queue);
        if mode == Mode::Shared {
            self.grant_shared(queue);
        }
    }

    /// Lets the readers at the front in; the caller's side holds the latch shared, so no writer can hold it.
    fn grant_shared(&self, queue: &mut Queue) {
        while queue.waiters.front().is_some_and(|front| front.mode == Mode::Shared) {
            self.state.fetch_add(SHARED, Acquire);
            if let Some(waiter) = queue.waiters.pop_front() {
                waiter.task.unpark();
            }
        }
        self.after_pop(queue);
    }

    fn after_pop(&self, queue: &Queue) {
        if queue.waiters.is_empty() {
            self.state.fetch_and(!(QUEUED | HANDOFF), Relaxed);
        }
    }
}

/// A place in the queue; dropped only by unwinding (rule 6).
struct Waiting<'a> {
    latch: &'a RwLatch,
    ticket: u64,
    mode: Mode,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut queue = self.latch.queue.lock();
        let Some(index) = queue.waiters.iter().position(|waiter| waiter.ticket == self.ticket) else {
            drop(queue);
            match self.mode {
                Mode::Shared => self.latch.unlock_shared(),
                Mode::Exclusive => self.latch.unlock_exclusive(),
            }
            return;
        };
        queue.waiters.remove(index);
        self.latch.after_pop(&queue);
        if index == 0 {
            self.latch.state.fetch_and(!HANDOFF, Relaxed);
            if !self.latch.is_locked() {
                self.latch.wake_front(&mut queue);
            }
        }
    }
}

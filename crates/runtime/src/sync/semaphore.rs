//! A count of permits.
//!
//! Invariant: permits are granted first in, first out; a large request at the front is not overtaken by small
//! ones. A waiter that another task has removed from the queue has its permits.

use super::held::{Tag, TagHold};
use super::prim::QueueLock;
use super::rank::{Rank, Wait};
use crate::task::{self, Task};
use std::collections::VecDeque;

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    permits: usize,
    task: Task,
}

#[derive(Debug)]
struct Permits {
    free: usize,
    next_ticket: u64,
    waiters: VecDeque<Waiter>,
}

impl Permits {
    fn grant(&mut self) {
        while let Some(front) = self.waiters.front()
            && front.permits <= self.free
        {
            self.free -= front.permits;
            front.task.unpark();
            self.waiters.pop_front();
        }
    }
}

/// A semaphore: at most so many at once.
#[derive(Debug)]
pub struct Semaphore {
    tag: Tag,
    state: QueueLock<Permits>,
}

impl Semaphore {
    /// A semaphore with `permits` free.
    pub const fn new(rank: Rank, permits: usize) -> Self {
        Self {
            tag: Tag::new(rank, Wait::Parks),
            state: QueueLock::new(Permits { free: permits, next_ticket: 0, waiters: VecDeque::new() }),
        }
    }

    /// Waits for `permits` and takes them until the result is dropped.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn acquire(&self, permits: usize) -> SemaphorePermit<'_> {
        self.tag.may_wait();
        task::may_preempt();
        let ticket = {
            let mut state = self.state.lock();
            if state.waiters.is_empty() && state.free >= permits {
                state.free -= permits;
                return self.permit(permits);
            }
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiters.push_back(Waiter { ticket, permits, task: task::current() });
            ticket
        };
        let waiting = Waiting { semaphore: self, ticket, permits };
        loop {
            task::park();
            if !self.state.lock().waiters.iter().any(|waiter| waiter.ticket == ticket) {
                std::mem::forget(waiting);
                return self.permit(permits);
            }
        }
    }

    /// Takes `permits` if they are free and no task waits; never waits.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_acquire(&self, permits: usize) -> Option<SemaphorePermit<'_>> {
        let mut state = self.state.lock();
        if !state.waiters.is_empty() || state.free < permits {
            return None;
        }
        state.free -= permits;
        Some(self.permit(permits))
    }

    #[cfg_attr(debug_assertions, track_caller)]
    fn permit(&self, permits: usize) -> SemaphorePermit<'_> {
        SemaphorePermit { semaphore: self, permits, _held: self.tag.hold() }
    }

    /// Adds permits. Never waits.
    pub fn release(&self, permits: usize) {
        let mut state = self.state.lock();
        state.free += permits;
        state.grant();
    }

    /// Free permits now.
    pub fn available(&self) -> usize {
        self.state.lock().free
    }
}

/// Permits that are returned when dropped.
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
    _held: TagHold<'a>,
}

impl SemaphorePermit<'_> {
    /// Keeps the permits for good; [`Semaphore::release`] brings them back.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.release(self.permits);
        }
    }
}

/// A place in the queue; dropped only by unwinding.
struct Waiting<'a> {
    semaphore: &'a Semaphore,
    ticket: u64,
    permits: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.semaphore.state.lock();
        match state.waiters.iter().position(|waiter| waiter.ticket == self.ticket) {
            Some(place) => {
                state.waiters.remove(place);
            }
            None => state.free += self.permits,
        }
        state.grant();
    }
}

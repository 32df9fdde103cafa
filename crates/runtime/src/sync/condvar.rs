//! Waiting for a condition on a mutex.
//!
//! Invariant: a waiter is in the queue from before the mutex is released until it is notified, times out or
//! is unwound; so a notification after the condition changed under the mutex cannot be lost.

use super::MutexGuard;
use super::prim::QueueLock;
use crate::task::{self, Task};
use crate::time::{Time, now};
use std::collections::VecDeque;

#[derive(Debug)]
struct Queue {
    waiters: VecDeque<(u64, Task)>,
    next_ticket: u64,
}

/// A condition variable. Wake-ups may be spurious: wait in a loop, or with [`Condvar::wait_while`].
#[derive(Debug)]
pub struct Condvar {
    queue: QueueLock<Queue>,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition without waiters.
    pub const fn new() -> Self {
        Self { queue: QueueLock::new(Queue { waiters: VecDeque::new(), next_ticket: 0 }) }
    }

    /// Releases the mutex, waits for a notification, and takes the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_inner(guard, None);
    }

    /// As [`Condvar::wait`], but at most until `deadline`. True if notified, false if the time was up.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Time) -> bool {
        self.wait_inner(guard, Some(deadline))
    }

    /// Waits until `condition` is false.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Wakes the one that has waited longest. True if there was one.
    pub fn notify_one(&self) -> bool {
        let first = self.queue.lock().waiters.pop_front();
        match first {
            Some((_, task)) => {
                task.unpark();
                true
            }
            None => false,
        }
    }

    /// Wakes all that wait now. Returns how many.
    pub fn notify_all(&self) -> usize {
        let mut queue = self.queue.lock();
        let count = queue.waiters.len();
        for (_, task) in queue.waiters.drain(..) {
            task.unpark();
        }
        count
    }

    fn wait_inner<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Time>) -> bool {
        let waiting = {
            let mut queue = self.queue.lock();
            let ticket = queue.next_ticket;
            queue.next_ticket += 1;
            queue.waiters.push_back((ticket, task::current()));
            Waiting { condvar: self, ticket }
        };
        super::MutexGuard::unlocked(guard, || {
            loop {
                match deadline {
                    None => task::park(),
                    Some(deadline) => task::park_timeout(deadline.since(now())),
                }
                if !waiting.is_queued() {
                    return true;
                }
                if deadline.is_some_and(|deadline| now() >= deadline) {
                    // Leaving the queue decides: a notification that came in between counts.
                    return !waiting.leave();
                }
            }
        })
    }
}

/// A place in the queue; left when dropped.
struct Waiting<'a> {
    condvar: &'a Condvar,
    ticket: u64,
}

impl Waiting<'_> {
    fn is_queued(&self) -> bool {
        self.condvar.queue.lock().waiters.iter().any(|(ticket, _)| *ticket == self.ticket)
    }

    /// True if it was still in the queue.
    fn leave(&self) -> bool {
        let mut queue = self.condvar.queue.lock();
        let place = queue.waiters.iter().position(|(ticket, _)| *ticket == self.ticket);
        if let Some(place) = place {
            queue.waiters.remove(place);
        }
        place.is_some()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

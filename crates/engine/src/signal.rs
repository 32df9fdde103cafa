//! A notification without a value: tasks wait for work or for progress.
//!
//! Use: read [`Signal::epoch`], look for work, and if there is none [`Signal::wait`] with that epoch.
//! Invariant: a notification after the epoch was read ends the wait. So no notification is lost.

use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Task, current, may_preempt, now, park, park_timeout};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[derive(Default)]
struct Queue {
    next_ticket: u64,
    waiting: VecDeque<(u64, Task)>,
}

/// A counter of notifications that can be waited on, first in, first out.
pub(crate) struct Signal {
    epoch: AtomicU64,
    waiting: AtomicUsize,
    queue: TinyMutex<Queue>,
}

impl Default for Signal {
    fn default() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            queue: TinyMutex::new(Rank::Signal, Queue::default()),
        }
    }
}

impl Signal {
    /// Notifications so far.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Wakes the task that has waited longest. A task that is about to wait looks again.
    pub(crate) fn notify_one(&self) {
        self.epoch.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let first = {
            let mut queue = self.queue.lock();
            let first = queue.waiting.pop_front();
            self.waiting.store(queue.waiting.len(), SeqCst);
            first
        };
        if let Some((_, task)) = first {
            task.unpark();
        }
    }

    /// Wakes all waiting tasks.
    pub(crate) fn notify_all(&self) {
        self.epoch.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let all = {
            let mut queue = self.queue.lock();
            self.waiting.store(0, SeqCst);
            std::mem::take(&mut queue.waiting)
        };
        for (_, task) in all {
            task.unpark();
        }
    }

    /// Waits for a notification after the epoch `seen`. May return early.
    pub(crate) fn wait(&self, seen: u64) {
        self.wait_while(seen, || {
            park();
            true
        });
    }

    /// As [`Signal::wait`], for `time` at most.
    pub(crate) fn wait_for(&self, seen: u64, time: Duration) {
        let until = now() + time;
        self.wait_while(seen, || {
            park_timeout(until.since(now()));
            now() < until
        });
    }

    /// `park` waits, and says whether the wait is to continue.
    fn wait_while(&self, seen: u64, park: impl Fn() -> bool) {
        may_preempt();
        let ticket = {
            let mut queue = self.queue.lock();
            let ticket = queue.next_ticket;
            queue.next_ticket += 1;
            queue.waiting.push_back((ticket, current()));
            self.waiting.store(queue.waiting.len(), SeqCst);
            ticket
        };
        loop {
            let continues = self.epoch.load(SeqCst) != seen || park();
            let mut queue = self.queue.lock();
            let place = queue.waiting.iter().position(|(waiter, _)| *waiter == ticket);
            match place {
                None => return,
                Some(_) if continues && self.epoch.load(SeqCst) == seen => {}
                Some(place) => {
                    queue.waiting.remove(place);
                    self.waiting.store(queue.waiting.len(), SeqCst);
                    return;
                }
            }
        }
    }
}

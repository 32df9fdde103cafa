//! The timers of a simulation.
//!
//! Invariant: timers fire in order of (deadline, order of setting). A timer whose wait ended otherwise stays
//! in the heap as *stale*. It is removed when it becomes the earliest, or when stale timers outnumber the
//! live.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub deadline: u64,
    sequence: u64,
    pub slot: u32,
    /// Number of the wait that this timer ends. If it is older than the slot's number, the timer is stale.
    pub wait: u32,
}

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    sequence: u64,
    stale: usize,
}

impl Timers {
    pub fn set(&mut self, deadline: u64, slot: u32, wait: u32) {
        self.sequence += 1;
        self.heap.push(Reverse(Timer { deadline, sequence: self.sequence, slot, wait }));
    }

    /// The earliest timer, stale or not.
    pub fn peek(&self) -> Option<Timer> {
        self.heap.peek().map(|Reverse(timer)| *timer)
    }

    pub fn pop(&mut self) -> Option<Timer> {
        self.heap.pop().map(|Reverse(timer)| timer)
    }

    /// Notes that a popped timer was stale.
    pub fn dropped_stale(&mut self) {
        self.stale -= 1;
    }

    /// Notes that the wait of a set timer ended otherwise. `is_live` selects the timers to keep in a
    /// clean-up.
    pub fn cancelled(&mut self, is_live: impl Fn(&Timer) -> bool) {
        self.stale += 1;
        if self.stale > 64 && self.stale * 2 > self.heap.len() {
            self.heap.retain(|Reverse(timer)| is_live(timer));
            self.stale = 0;
        }
    }
}

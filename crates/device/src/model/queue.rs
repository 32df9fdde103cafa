//! The device's command queue (NCQ: 32 commands on SATA) and its utilisation.
//!
//! Invariant: no more than `depth` requests are in the device at any virtual time. Further ones enter in
//! order of arrival, each at the earliest completion. Entry times never decrease.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All times in nanoseconds of virtual time.
#[derive(Debug)]
pub(super) struct CommandQueue {
    depth: usize,
    completions: BinaryHeap<Reverse<u64>>,
    busy: u64,
    /// End of the newest busy interval.
    busy_until: u64,
    entered_last: u64,
}

impl CommandQueue {
    pub fn new(depth: usize) -> Self {
        assert!(depth > 0, "a device takes at least one request at a time");
        Self {
            depth,
            completions: BinaryHeap::with_capacity(depth + 1),
            busy: 0,
            busy_until: 0,
            entered_last: 0,
        }
    }

    /// The time at which a request that arrives at `now` enters the device. To be followed by
    /// [`CommandQueue::complete`].
    pub fn enter(&mut self, now: u64) -> u64 {
        let mut start = now.max(self.entered_last);
        while let Some(&Reverse(earliest)) = self.completions.peek()
            && (earliest <= start || self.completions.len() >= self.depth)
        {
            start = start.max(earliest);
            self.completions.pop();
        }
        self.entered_last = start;
        start
    }

    /// The request that entered last and arrived at `now` will be done at `completion`.
    pub fn complete(&mut self, now: u64, completion: u64) {
        self.completions.push(Reverse(completion));
        self.occupy(now, completion);
    }

    /// Counts the interval as busy, as far as it is not counted yet. Intervals are given in order of their
    /// start.
    pub fn occupy(&mut self, from: u64, to: u64) {
        let from = from.max(self.busy_until);
        if to > from {
            self.busy += to - from;
            self.busy_until = to;
        }
    }

    /// Nanoseconds until `now` with at least one request outstanding.
    pub fn busy(&self, now: u64) -> u64 {
        self.busy - self.busy_until.saturating_sub(now).min(self.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::CommandQueue;

    #[test]
    fn the_third_of_two_waits_for_the_first_to_finish() {
        let mut queue = CommandQueue::new(2);
        assert_eq!(queue.enter(10), 10);
        queue.complete(10, 100);
        assert_eq!(queue.enter(10), 10);
        queue.complete(10, 50);
        assert_eq!(queue.enter(20), 50);
        queue.complete(20, 60);
        assert_eq!(queue.enter(20), 60);
        queue.complete(20, 300);
        assert_eq!(queue.enter(400), 400);
        queue.complete(400, 410);
        assert_eq!(queue.busy(1000), 300);
        assert_eq!(queue.busy(405), 295);
    }
}

//! Counters that any task may add to, without a lock.

use entresol_shm::atomic::{AtomicU64, Ordering::Relaxed};
use entresol_shm::shared_struct;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

/// Lanes of a [`WideTally`].
const LANES: usize = 64;

shared_struct! {
    #[derive(Default)]
    pub(crate) struct Tally {
        count: AtomicU64,
    }

    /// A lane of a counter, with two cache lines of its own: processors load them in pairs.
    #[derive(Default)]
    #[repr(align(128))]
    struct Lane {
        tally: Tally,
    }

    /// A counter that each process, and each thread of a process that is alone, adds to in a lane of its own:
    /// tasks that count at the same time do not write the same cache line. More of them than lanes share
    /// some.
    pub(crate) struct WideTally {
        lanes: [Lane; LANES],
    }
}

impl Default for WideTally {
    fn default() -> Self {
        Self { lanes: std::array::from_fn(|_| Lane::default()) }
    }
}

/// A lane for the tasks of this thread.
pub(crate) fn lane_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        /// 0: none yet.
        static LANE: Cell<usize> = const { Cell::new(0) };
    }
    if LANE.get() == 0 {
        LANE.set(NEXT.fetch_add(1, Relaxed));
    }
    LANE.get()
}

impl WideTally {
    pub(crate) fn add(&self, lane: usize, count: usize) {
        self.lanes[lane % LANES].tally.add(count);
    }
    pub(crate) fn get(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.tally.get()).sum()
    }
}

impl Tally {
    pub(crate) fn add(&self, count: usize) {
        self.count.fetch_add(count as u64, Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

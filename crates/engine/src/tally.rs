//! A counter that any task may add to, without a lock.

use entresol_shm::atomic::{AtomicU64, Ordering::Relaxed};
use entresol_shm::shared_struct;

shared_struct! {
    #[derive(Default)]
    pub(crate) struct Tally {
        count: AtomicU64,
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

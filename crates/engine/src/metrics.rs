//! Counters that are raised without a lock. All in pages unless said otherwise; meanings as in
//! [`TierMetrics`].

use crate::TierMetrics;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Default)]
pub(crate) struct Tallies {
    pub staging_hits: Tally,
    pub flash_hits: Tally,
    pub disk_reads: Tally,
    pub disk_writes: Tally,
    pub dirty_evictions: Tally,
    pub clean_evictions: Tally,
    pub populated: Tally,
    pub population_dropped: Tally,
    pub bypassed: Tally,
    pub moved_up: Tally,
    pub directory_writes: Tally,
    pub already_on_flash: Tally,
    pub flash_writes: Tally,
    pub dequeue_reads: Tally,
    pub second_chances: Tally,
    pub pulled: Tally,
    pub damaged_clean: Tally,
    pub redundant_destages: Tally,
}

impl Tallies {
    /// A page was handed down, `dirty` and `fdirty` as there.
    pub(crate) fn handed_down(&self, dirty: bool, fdirty: bool) {
        if dirty && fdirty { self.dirty_evictions.add(1) } else { self.clean_evictions.add(1) }
    }

    /// All of them; what the directory knows is left at zero.
    pub(crate) fn read(&self) -> TierMetrics {
        TierMetrics {
            staging_hits: self.staging_hits.get(),
            flash_hits: self.flash_hits.get(),
            disk_reads: self.disk_reads.get(),
            disk_writes: self.disk_writes.get(),
            dirty_evictions: self.dirty_evictions.get(),
            clean_evictions: self.clean_evictions.get(),
            already_on_flash: self.already_on_flash.get(),
            populated: self.populated.get(),
            population_dropped: self.population_dropped.get(),
            bypassed: self.bypassed.get(),
            moved_up: self.moved_up.get(),
            directory_writes: self.directory_writes.get(),
            flash_writes: self.flash_writes.get(),
            dequeue_reads: self.dequeue_reads.get(),
            second_chances: self.second_chances.get(),
            pulled: self.pulled.get(),
            damaged_clean: self.damaged_clean.get(),
            redundant_destages: self.redundant_destages.get(),
            ..TierMetrics::default()
        }
    }
}

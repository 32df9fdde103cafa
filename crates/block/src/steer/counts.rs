//! Decisions, counted by reason, and durations of reads and writes.

use super::Why;
use entresol_engine::{DurationTally, Durations, ReadCounts};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Where a request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Staging,
    Flash,
    Disk,
    CacheWrite,
    DiskWrite,
}

impl Place {
    pub const ALL: [Place; 5] =
        [Place::Staging, Place::Flash, Place::Disk, Place::CacheWrite, Place::DiskWrite];

    /// Its name in `status`, and the name of its metric.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Place::Staging => ("read from memory", "entresol_block_read_staging_seconds"),
            Place::Flash => ("read from flash", "entresol_block_read_flash_seconds"),
            Place::Disk => ("read from disk", "entresol_block_read_disk_seconds"),
            Place::CacheWrite => ("written to the cache", "entresol_block_write_cache_seconds"),
            Place::DiskWrite => ("written to disk alone", "entresol_block_write_disk_seconds"),
        }
    }
}

/// Pages, by [`Why`].
#[derive(Default)]
pub(crate) struct ByReason {
    /// Read past the flash.
    pub reads: [AtomicU64; Why::ALL.len()],
    /// Read from disk, and kept out of the cache.
    pub stayed_out: [AtomicU64; Why::ALL.len()],
    /// Written past the flash.
    pub writes: [AtomicU64; Why::ALL.len()],
}

/// See the module's header.
#[derive(Default)]
pub(crate) struct Counts {
    by_reason: ByReason,
    durations: [DurationTally; Place::ALL.len()],
}

/// What went around the cache, and why. In pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bypassed {
    /// "sequential", "slow-flash", "busy-flash", "budget", "dirty-limit" or "overrun".
    pub why: String,
    /// Read from disk without a look at flash.
    pub reads: u64,
    /// Read from disk, and kept out of the cache.
    pub stayed_out: u64,
    /// Written to disk alone.
    pub writes: u64,
}

/// How long pieces of requests took, of at most 64 pages each (past the flash: of any length), by where they
/// were served: at the slowest place that had a page of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Where.
    pub place: String,
    /// How many.
    pub count: u64,
    /// Their mean, in microseconds.
    pub mean_us: u64,
    /// Half of them, and 99 of 100, took less than so many microseconds, rounded up to a power of two.
    pub median_us: u64,
    /// See `median_us`.
    pub p99_us: u64,
}

impl Why {
    /// Its name in `status` and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Why::Sequential => "sequential",
            Why::SlowFlash => "slow-flash",
            Why::BusyFlash => "busy-flash",
            Why::Budget => "budget",
            Why::DirtyLimit => "dirty-limit",
            Why::Overrun => "overrun",
        }
    }
}

impl Counts {
    pub fn took(&self, place: Place, took: Duration) {
        self.durations[place as usize].add(took);
    }

    pub fn read(&self, served: &ReadCounts, took: Duration) {
        let place = match served {
            ReadCounts { disk: 1.., .. } => Place::Disk,
            ReadCounts { flash: 1.., .. } => Place::Flash,
            _ => Place::Staging,
        };
        self.took(place, took);
    }

    pub fn bypassed(&self, why: Why, of: impl FnOnce(&ByReason) -> &[AtomicU64; Why::ALL.len()], pages: u64) {
        of(&self.by_reason)[why as usize - 1].fetch_add(pages, Relaxed);
    }

    /// All reasons.
    pub fn by_reason(&self) -> Vec<Bypassed> {
        let one = |why: Why| {
            let get = |counts: &[AtomicU64; Why::ALL.len()]| counts[why as usize - 1].load(Relaxed);
            let ByReason { reads, stayed_out, writes } = &self.by_reason;
            let (reads, stayed_out, writes) = (get(reads), get(stayed_out), get(writes));
            Bypassed { why: why.name().to_owned(), reads, stayed_out, writes }
        };
        Why::ALL.into_iter().map(one).collect()
    }

    /// How long requests took that were served at `place`.
    pub fn durations(&self, place: Place) -> Durations {
        self.durations[place as usize].read()
    }

    /// All places at which something was served.
    pub fn latencies(&self) -> Vec<Latency> {
        let one = |place: Place| {
            let durations = self.durations(place);
            let count = durations.buckets.iter().sum();
            (count > 0).then(|| Latency {
                place: place.names().0.to_owned(),
                count,
                mean_us: durations.total_us / count,
                median_us: durations.quantile(0.5),
                p99_us: durations.quantile(0.99),
            })
        };
        Place::ALL.into_iter().filter_map(one).collect()
    }
}

//! Durations of work, counted in buckets. The tier times its background work, and nothing on the path of a
//! fetch or an eviction.

use crate::tally::Tally;
use entresol_runtime::{Time, now};
use entresol_shm::shared_struct;
use std::time::Duration;

/// Buckets: the last takes everything longer.
pub const DURATION_BUCKETS: usize = 24;

/// How often work took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Counts by duration: bucket `n` has those of less than 2ⁿ µs that no bucket before it has.
    pub buckets: [u64; DURATION_BUCKETS],
    /// The sum, microseconds.
    pub total_us: u64,
}

shared_struct! {
    /// [`Durations`] that any task may add to.
    #[derive(Default)]
    pub struct DurationTally {
        buckets: [Tally; DURATION_BUCKETS],
        total_us: Tally,
    }
}

impl DurationTally {
    /// Counts work that began at `begin` and ends now.
    pub fn ends(&self, begin: Time) {
        self.add(now().since(begin));
    }

    /// Counts work that took so long.
    pub fn add(&self, took: Duration) {
        let us = took.as_micros() as usize;
        self.buckets[bucket(us)].add(1);
        self.total_us.add(us);
    }

    /// What was counted so far.
    pub fn read(&self) -> Durations {
        Durations {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].get()),
            total_us: self.total_us.get(),
        }
    }
}

fn bucket(us: usize) -> usize {
    ((usize::BITS - us.leading_zeros()) as usize).min(DURATION_BUCKETS - 1)
}

impl Durations {
    /// How many.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// This part of them, 0.0 ..= 1.0, took less than so many microseconds, rounded up to a power of two.
    pub fn quantile(&self, part: f64) -> u64 {
        let all = self.count();
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below as f64 >= part * all as f64
        });
        1 << bucket.unwrap_or(DURATION_BUCKETS - 1)
    }

    /// The upper bounds of the buckets in seconds, and how many were shorter: in order, without the last
    /// bucket, which takes all.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut count = 0;
        self.buckets[..DURATION_BUCKETS - 1].iter().enumerate().map(move |(at, in_bucket)| {
            count += in_bucket;
            ((1_u64 << at) as f64 / 1e6, count)
        })
    }

    /// Those that were counted since `before` was read.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|at| self.buckets[at].saturating_sub(before.buckets[at])),
            total_us: self.total_us.saturating_sub(before.total_us),
        }
    }

    /// Hands the counts to the recorder of the crate `metrics`, which takes no histogram that was counted
    /// elsewhere: the counters `<name>_bucket` (cumulative, by upper bound `le` in seconds), `<name>_us_sum`
    /// (microseconds) and `<name>_count`.
    pub fn export(&self, name: &str, meaning: &'static str, cache: &str) {
        let count = self.count();
        for (le, below) in self.cumulative().chain([(f64::INFINITY, count)]) {
            let le = if le.is_finite() { le.to_string() } else { "+Inf".to_owned() };
            let labels = [("cache", cache.to_owned()), ("le", le)];
            metrics::describe_counter!(format!("{name}_bucket"), meaning);
            metrics::counter!(format!("{name}_bucket"), &labels).absolute(below);
        }
        metrics::counter!(format!("{name}_count"), "cache" => cache.to_owned()).absolute(count);
        metrics::counter!(format!("{name}_us_sum"), "cache" => cache.to_owned()).absolute(self.total_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_what_is_shorter_than_its_bound() {
        for (us, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1 << 22, 23), (usize::MAX, 23)] {
            assert_eq!(bucket(us), expected, "{us}");
        }
    }
}

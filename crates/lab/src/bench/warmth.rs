//! When a run is warm enough to be measured.
//!
//! A cache of slots takes in every page that passes, so it is warm when it has been filled several times
//! over. SCE's cache fills once and takes in little from then on; its hits creep up while warmer fragments
//! take the places of colder ones. It is warm when it is as full as it gets and its hit rate has stopped
//! rising.

use crate::bench::cache::CacheOptions;
use crate::config::Warmup;
use entresol_engine::TierMetrics;
use std::time::Duration;

/// Automatic warm-up lasts at least this long, for DRAM and the devices' queues ...
const WARMUP_MIN: Duration = Duration::from_secs(30);
/// ... and at most this long.
pub const WARMUP_MAX: Duration = Duration::from_secs(1200);
/// A cache of slots counts as warm when this many times its slots have entered it.
const WARMUP_TURNS: u64 = 3;
/// SCE's cache is compared with itself over this time.
const WINDOW: Duration = Duration::from_secs(30);
/// Growth of the share of valid pages, and rise of the hit rate from one window to the next, that are taken
/// for none.
const STILL: f64 = 0.01;

/// Watches a run until it is warm.
pub struct Warmth {
    warmup: Warmup,
    /// SCE's cache: what has been seen of it.
    windows: Option<Windows>,
}

/// What one window ended with.
#[derive(Clone, Copy)]
struct End {
    at: Duration,
    tier: TierMetrics,
}

struct Windows {
    last: End,
    /// Hit rate of the window before.
    hit_rate: Option<f64>,
    warm: bool,
}

impl Warmth {
    /// Nothing has been seen yet.
    pub fn new(warmup: Warmup, cache: Option<&CacheOptions>) -> Self {
        let begin = End { at: Duration::ZERO, tier: TierMetrics::default() };
        let windows = || Windows { last: begin, hit_rate: None, warm: false };
        Self { warmup, windows: matches!(cache, Some(CacheOptions::Fragments(_))).then(windows) }
    }

    /// Whether a run is warm that has been on for so long, and whose cache counts this.
    pub fn reached(&mut self, passed: Duration, tier: &TierMetrics) -> bool {
        match (self.warmup, &mut self.windows) {
            (Warmup::For(duration), _) => passed >= duration,
            (Warmup::Auto, _) if passed >= WARMUP_MAX => true,
            (Warmup::Auto, Some(windows)) => windows.still(passed, tier),
            (Warmup::Auto, None) => passed >= WARMUP_MIN && tier.flash_writes >= WARMUP_TURNS * tier.slots,
        }
    }
}

impl Windows {
    fn still(&mut self, passed: Duration, tier: &TierMetrics) -> bool {
        if passed >= self.last.at + WINDOW {
            let before = std::mem::replace(&mut self.last, End { at: passed, tier: *tier }).tier;
            let hits = (tier.flash_hits - before.flash_hits) as f64;
            let reads = hits + (tier.disk_reads - before.disk_reads) as f64;
            let hit_rate = hits / reads.max(1.0);
            let grown = tier.slots_valid as f64 - before.slots_valid as f64;
            let full = grown <= STILL * tier.slots as f64;
            self.warm = full && self.hit_rate.is_some_and(|before| hit_rate < before + STILL);
            self.hit_rate = Some(hit_rate);
        }
        self.warm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PolicyKind;
    use entresol_engine::{FragmentOptions, TierOptions};

    const SLOTS: u64 = 1000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// When a run is warm whose metrics after so many seconds are `at`.
    fn warm_at(cache: &CacheOptions, at: impl Fn(u64) -> TierMetrics) -> u64 {
        let mut warmth = Warmth::new(Warmup::Auto, Some(cache));
        let warm = (0..).find(|second| warmth.reached(seconds(*second), &at(*second)));
        warm.expect("there is a limit")
    }

    #[test]
    fn slots_are_turned_over_three_times() {
        let cache = CacheOptions::Slots(TierOptions::new(PolicyKind::Lc, SLOTS as u32));
        let metrics =
            |writes: u64| TierMetrics { slots: SLOTS, flash_writes: writes, ..TierMetrics::default() };
        assert_eq!(warm_at(&cache, |second| metrics(second * 50)), 60);
        assert_eq!(warm_at(&cache, |second| metrics(second * 5000)), WARMUP_MIN.as_secs());
        assert_eq!(warm_at(&cache, |_| metrics(0)), WARMUP_MAX.as_secs());
    }

    #[test]
    fn fragments_are_warm_when_full_and_no_longer_better() {
        let cache = CacheOptions::Fragments(FragmentOptions::new(SLOTS as u32));
        // Fills in so many seconds; of a hundred reads a second so many hit more and more often, up to half
        // of them.
        let run = |filled: u64, risen: u64| {
            move |second: u64| TierMetrics {
                slots: SLOTS,
                slots_valid: SLOTS * second.min(filled) / filled,
                flash_hits: (1..=second).map(|second| 50 * second.min(risen) / risen).sum(),
                disk_reads: (1..=second).map(|second| 100 - 50 * second.min(risen) / risen).sum(),
                ..TierMetrics::default()
            }
        };
        assert_eq!(warm_at(&cache, run(10, 1)), 60, "two windows are compared");
        assert_eq!(warm_at(&cache, run(100, 1)), 150, "the first window that it is full in");
        assert_eq!(warm_at(&cache, run(10, 200)), 270, "the first window as good as the one before");
        assert_eq!(warm_at(&cache, run(100_000, 1)), 60, "never full, and not filling");
        assert_eq!(warm_at(&cache, |_| TierMetrics::default()), 60, "nothing is read");
    }
}

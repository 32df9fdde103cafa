//! The naive form of what `reuse` knows of a class of pages: counts, and what is computed from them.

use super::reuse_evidence::CERTAIN;

pub const BUCKETS: usize = 20;
pub const NEW: usize = 20;
/// Lowest age of each bucket, and the end of the last.
const LOWEST: [u64; 21] = [0, 1, 2, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 91, 128, 182, 256, 363, 512, 1024];
/// 1 as a probability in calculations.
const ALWAYS: u64 = 1 << 24;

pub fn bucket(age: u64) -> usize {
    (0..BUCKETS).rev().find(|bucket| LOWEST[*bucket] <= age).expect("the first bucket begins at 0")
}

/// What is known of a class, clean or dirty.
#[derive(Clone, Copy)]
pub struct Class {
    pub uses: [u64; BUCKETS],
    pub lost: [u64; BUCKETS],
    pub watched: [u64; BUCKETS],
    pub chance: [u64; BUCKETS],
    pub value: [u64; BUCKETS],
}

impl Class {
    /// At the beginning; `one`: the count of one use.
    pub fn new(one: u64) -> Self {
        let none = [0; BUCKETS];
        let (uses, lost) = ([one / 8; BUCKETS], [one / 2; BUCKETS]);
        let mut class = Self { uses, lost, watched: none, chance: none, value: none };
        class.refresh(one, 32);
        class
    }

    /// The chance of a use in time. A page that is not new may stay for more turns: then its rate `r` counts
    /// for `r / (1 + r)`.
    pub fn promised(&self, is_new: bool, bucket: usize) -> u64 {
        let rate = if is_new { 0 } else { 32 * self.value[bucket] };
        self.chance[bucket].max(rate * CERTAIN / (rate + CERTAIN))
    }

    pub fn refresh(&mut self, one: u64, horizon: u64) {
        let hazard = |bucket: usize| {
            let at_risk: u64 = (bucket..BUCKETS).map(|b| self.uses[b] + self.lost[b] + self.watched[b]).sum();
            ((self.uses[bucket] + (one / 50).max(1)) * ALWAYS / (one + at_risk)).min(ALWAYS)
        };
        let width = |bucket: usize| LOWEST[bucket + 1] - LOWEST[bucket];
        let hazards: Vec<u64> =
            (0..BUCKETS).map(|bucket| if width(bucket) > 0 { hazard(bucket) } else { 0 }).collect();
        for (age, youngest) in LOWEST[..BUCKETS].iter().enumerate() {
            let mut unused = ALWAYS;
            for bucket in age..BUCKETS {
                let begin = LOWEST[bucket] - youngest;
                let part = horizon.saturating_sub(begin).min(width(bucket));
                if part > 0 {
                    unused = unused * (ALWAYS - hazards[bucket] * part / width(bucket)) / ALWAYS;
                }
            }
            self.chance[age] = (ALWAYS - unused) >> 8;
        }
        // From each bucket: how it is best to wait, as the buckets, the probability of no use, the time.
        let mut best: Vec<(usize, u64, u64)> = Vec::new();
        for bucket in (0..BUCKETS).rev() {
            let time = (2 * ALWAYS - hazards[bucket]) * width(bucket) / 2;
            let mut wait = (1, ALWAYS - hazards[bucket], time);
            let exceeds = |a: (usize, u64, u64), b: (usize, u64, u64)| {
                (ALWAYS - a.1) * b.2.max(1) > (ALWAYS - b.1) * a.2.max(1)
            };
            while let Some(next) = best.len().checked_sub(wait.0).map(|at| best[at])
                && exceeds(next, wait)
            {
                wait = (wait.0 + next.0, wait.1 * next.1 / ALWAYS, wait.2 + wait.1 * next.2 / ALWAYS);
            }
            self.value[bucket] = (ALWAYS - wait.1) * CERTAIN / wait.2.max(1);
            best.push(wait);
        }
    }
}

//! When pages are used again: counts of uses and of pages that were given up, by class and age, and what
//! follows from them (survival statistics: Kaplan, Meier, 1958).
//!
//! ```text
//! hazard h[b] = (uses[b] + 1/50) / (1 + sum over b' >= b of (uses + lost + watched))
//! chance[a]   = probability of a use within the horizon, if there was none up to age bucket a
//! value[a]    = greatest rate, over all times to wait, of expected uses in the time that is expected to be waited
//! ```
//!
//! A page that was given up (*lost*) is counted at the age up to which it was watched, not as one that is
//! never used again. Those that are still *watched* are counted as well, as they are met: else only pages
//! that were used are known at first, and of a loop longer than the cache every new page seems to be used
//! soon.
//!
//! Integers: counts are multiples of the region's `one`. Probabilities are kept in units of 2^-16. A value is
//! in uses in the time unit of ages, times 2^16.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Buckets of ages.
pub(super) const BUCKETS: usize = 20;
/// Lowest age of each bucket, two buckets an octave, and the end of the last one.
const LOWEST: [u32; BUCKETS + 1] =
    [0, 1, 2, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 91, 128, 182, 256, 363, 512, 1024];
/// Their widths.
const WIDTHS: [u64; BUCKETS] = {
    let mut widths = [0; BUCKETS];
    let mut bucket = 0;
    while bucket < BUCKETS {
        widths[bucket] = (LOWEST[bucket + 1] - LOWEST[bucket]) as u64;
        bucket += 1;
    }
    widths
};
/// 1 as a probability.
pub(super) const CERTAIN: u32 = 1 << 16;
/// The same in calculations, in a finer unit, as small ones are multiplied. Products with counts, and with
/// times, have less than 64 bits.
const ALWAYS: u64 = 1 << 24;
/// Of those units, one of what is kept.
const PER_CERTAIN: u64 = ALWAYS / CERTAIN as u64;
/// Counts lose one part in this many at each refresh.
const DECAY: u32 = 50;
/// Counts of watched pages do so.
const WATCHED_DECAY: u32 = 8;
/// Uses that each bucket has beforehand, as a part of one.
const PRIOR_PART: u32 = 50;

/// The bucket of each age: a search would mispredict a branch or two, which costs more than the note's cache
/// line.
static BUCKET_OF: [u8; LOWEST[BUCKETS] as usize] = buckets();

const fn buckets() -> [u8; LOWEST[BUCKETS] as usize] {
    let mut of = [0; LOWEST[BUCKETS] as usize];
    let (mut age, mut bucket) = (0, 0);
    while age < of.len() {
        while bucket + 1 < BUCKETS && LOWEST[bucket + 1] as usize <= age {
            bucket += 1;
        }
        of[age] = bucket as u8;
        age += 1;
    }
    of
}

/// The bucket of an age.
pub(super) fn bucket(age: u32) -> usize {
    BUCKET_OF[(age as usize).min(BUCKET_OF.len() - 1)].into()
}

/// What is known of a class of pages.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Hazard {
    /// By age: uses.
    uses: [u32; BUCKETS],
    /// By age: pages that were given up.
    lost: [u32; BUCKETS],
    /// By age: pages that are watched, as they were met of late.
    watched: [u32; BUCKETS],
    /// By age: the probability of a use within the horizon.
    chance: [u32; BUCKETS],
    /// By age: the greatest rate of uses.
    value: [u32; BUCKETS],
}

impl Hazard {
    /// Begins with an eighth of a use and half a loss at every age; `one`: the count of one use. While
    /// nothing is known, exchanging pages would cost writes, and gain nothing.
    pub(super) fn begin(&mut self, one: u32) {
        self.uses.fill(one / 8);
        self.lost.fill(one / 2);
    }

    pub(super) fn used(&mut self, age: u32, one: u32) {
        let uses = &mut self.uses[bucket(age)];
        *uses = uses.saturating_add(one);
    }

    pub(super) fn lost(&mut self, age: u32, one: u32) {
        let lost = &mut self.lost[bucket(age)];
        *lost = lost.saturating_add(one);
    }

    pub(super) fn watched(&mut self, age: u32, one: u32) {
        let watched = &mut self.watched[bucket(age)];
        *watched = watched.saturating_add(one);
    }

    /// See the module's header.
    pub(super) fn chance(&self, age: u32) -> u32 {
        self.chance[bucket(age)]
    }

    /// See the module's header.
    pub(super) fn value(&self, age: u32) -> u32 {
        self.value[bucket(age)]
    }

    /// The uses that a page promises until the ring has turned: the chance of one. Of a page that was used
    /// before its rate counts, too, since it may stay for more turns: in a loop longer than the ring no use
    /// comes in time, but many come later. A constant rate `r` has a chance of `1 - e^-r`, more than
    /// `r / (1 + r)`. As a rate counts for the latter, it matters only for pages whose uses come late.
    /// `turn`: the time of a turn.
    pub(super) fn promised(&self, is_new: bool, age: u32, turn: u32) -> u32 {
        let chance = self.chance(age);
        if is_new {
            return chance;
        }
        let rate = u64::from(self.value(age)) * u64::from(turn);
        let by_rate = rate * u64::from(CERTAIN) / (rate + u64::from(CERTAIN));
        chance.max(by_rate as u32)
    }

    /// Lets the counts fade.
    pub(super) fn fade(&mut self) {
        self.uses.iter_mut().chain(&mut self.lost).for_each(|count| *count -= *count / DECAY);
        self.watched.iter_mut().for_each(|count| *count -= *count / WATCHED_DECAY);
    }

    /// Computes chances and values anew.
    pub(super) fn refresh(&mut self, one: u32, horizon: u32) {
        let hazards = self.hazards(one);
        for age in 0..BUCKETS {
            self.chance[age] = chance(&hazards, age, horizon.into());
        }
        self.value = values(&hazards);
    }

    /// The hazard of each bucket, at most certain; of those of no width, none.
    fn hazards(&self, one: u32) -> [u64; BUCKETS] {
        let prior = u64::from((one / PRIOR_PART).max(1));
        let mut hazards = [0; BUCKETS];
        let mut at_risk = 0;
        for bucket in (0..BUCKETS).rev() {
            let [uses, lost, watched] =
                [&self.uses, &self.lost, &self.watched].map(|counts| u64::from(counts[bucket]));
            at_risk += uses + lost + watched;
            if WIDTHS[bucket] > 0 {
                let hazard = (uses + prior) * ALWAYS / (u64::from(one) + at_risk);
                hazards[bucket] = hazard.min(ALWAYS);
            }
        }
        hazards
    }
}

/// The probability of a use within the horizon, from the bucket `from` on.
fn chance(hazards: &[u64; BUCKETS], from: usize, horizon: u64) -> u32 {
    let (mut unused, mut left) = (ALWAYS, horizon);
    for (hazard, width) in hazards[from..].iter().zip(&WIDTHS[from..]) {
        if *width >= left {
            unused = unused * (ALWAYS - hazard * left / width) / ALWAYS;
            break;
        }
        unused = unused * (ALWAYS - hazard) / ALWAYS;
        left -= width;
    }
    ((ALWAYS - unused) / PER_CERTAIN) as u32
}

/// Waiting for a use through some buckets in a row.
#[derive(Clone, Copy, Default)]
struct Wait {
    /// The bucket after the last one.
    end: usize,
    /// The probability that there is no use.
    unused: u64,
    /// The time that is expected to be waited.
    time: u64,
}

impl Wait {
    /// In one bucket. A use is in the middle of it.
    fn through(bucket: usize, hazard: u64) -> Self {
        let time = (2 * ALWAYS - hazard) * WIDTHS[bucket] / 2;
        Self { end: bucket + 1, unused: ALWAYS - hazard, time }
    }

    /// Uses in that time, as a fraction.
    fn rate(&self) -> (u64, u64) {
        (ALWAYS - self.unused, self.time.max(1))
    }

    /// And then through those of `next`.
    fn and_then(&self, next: &Self) -> Self {
        let time = self.time + self.unused * next.time / ALWAYS;
        Self { end: next.end, unused: self.unused * next.unused / ALWAYS, time }
    }
}

/// By age: the greatest rate. It is that of waiting through a bucket, and then through those after it for
/// their greatest rate, as long as that is greater (Gittins, J. Royal Statistical Society B, 1979).
fn values(hazards: &[u64; BUCKETS]) -> [u32; BUCKETS] {
    let (mut best, mut values) = ([Wait::default(); BUCKETS], [0; BUCKETS]);
    for bucket in (0..BUCKETS).rev() {
        let mut wait = Wait::through(bucket, hazards[bucket]);
        while let Some(next) = best.get(wait.end) {
            let (rate, rate_of_next) = (wait.rate(), next.rate());
            if rate_of_next.0 * rate.1 <= rate.0 * rate_of_next.1 {
                break;
            }
            wait = wait.and_then(next);
        }
        let (uses, time) = wait.rate();
        (best[bucket], values[bucket]) = (wait, (uses * u64::from(CERTAIN) / time) as u32);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const ONE: u32 = 256;

    #[test]
    fn each_age_has_the_bucket_that_begins_at_or_before_it() {
        for age in 0..1100 {
            let at = bucket(age);
            assert!(LOWEST[at] <= age && (age < LOWEST[at + 1] || at == BUCKETS - 1), "age {age}: {at}");
        }
    }

    /// Of 1,000 pages, `used` are used at `age`, the others are given up at `lost_at`.
    fn of(used: u32, age: u32, lost_at: u32) -> Hazard {
        let mut hazard = Hazard::new_zeroed();
        hazard.begin(ONE);
        (0..used).for_each(|_| hazard.used(age, ONE));
        (used..1000).for_each(|_| hazard.lost(lost_at, ONE));
        hazard.refresh(ONE, 32);
        hazard
    }

    #[test]
    fn a_chance_is_the_share_of_pages_that_were_used() {
        for used in [0, 100, 500, 900] {
            let share = of(used, 5, 600).chance(0) * 1000 / CERTAIN;
            assert!(share.abs_diff(used) < 25, "{used} of 1,000 used: {share}");
        }
        assert!(of(900, 5, 600).chance(100) < CERTAIN / 10, "those that are older are not used any more");
        assert!(of(900, 200, 600).chance(0) < CERTAIN / 10, "a use after the horizon does not count");
    }

    #[test]
    fn pages_that_were_watched_for_a_short_time_only_say_nothing_of_later_ages() {
        // 800 pages are given up at once; all of the 200 that were watched longer are used.
        let chance = of(200, 5, 0).chance(0);
        assert!(chance > CERTAIN * 8 / 10, "{chance} of {CERTAIN}");
    }

    #[test]
    fn pages_that_are_still_watched_were_not_used_up_to_now() {
        let mut hazard = Hazard::new_zeroed();
        hazard.begin(ONE);
        (0..100).for_each(|_| hazard.used(5, ONE));
        hazard.refresh(ONE, 32);
        let as_far_as_it_ended = hazard.chance(0);
        (0..900).for_each(|_| hazard.watched(40, ONE));
        hazard.refresh(ONE, 32);
        let of_all = hazard.chance(0) * 1000 / CERTAIN;
        assert!(as_far_as_it_ended > CERTAIN * 8 / 10 && of_all.abs_diff(100) < 25, "{of_all} of 1,000");
    }

    #[test]
    fn a_use_that_comes_sooner_is_worth_more() {
        let (soon, late) = (of(900, 4, 600).value(0), of(900, 100, 600).value(0));
        assert!(soon > 10 * late, "{soon} and {late}");
        let waits = of(900, 100, 600);
        assert!(waits.value(60) > waits.value(0), "a use comes nearer");
    }

    #[test]
    fn a_value_is_the_greatest_rate_over_all_times_to_wait() {
        let mut noise = 1u64;
        for _ in 0..1000 {
            let hazards: [u64; BUCKETS] = std::array::from_fn(|bucket| {
                noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                if WIDTHS[bucket] > 0 { ((noise >> 40) % ALWAYS) >> ((noise >> 34) % 20) } else { 0 }
            });
            for (age, value) in values(&hazards).into_iter().enumerate() {
                let (mut unused, mut waited, mut greatest) = (1.0, 0.0, 0.0f64);
                for bucket in age..BUCKETS {
                    let hazard = hazards[bucket] as f64 / ALWAYS as f64;
                    waited += unused * (1.0 - hazard / 2.0) * WIDTHS[bucket] as f64;
                    unused *= 1.0 - hazard;
                    greatest = greatest.max(f64::from(CERTAIN) * (1.0 - unused) / waited);
                }
                let difference = (f64::from(value) - greatest).abs();
                assert!(difference < 1.1 + greatest / 10_000.0, "age {age}: {value}, not {greatest}");
            }
        }
    }

    #[test]
    fn counts_fade() {
        let mut hazard = of(1000, 5, 600);
        (0..500).for_each(|_| hazard.fade());
        (0..1000).for_each(|_| hazard.lost(600, ONE));
        hazard.refresh(ONE, 32);
        assert!(hazard.chance(0) < CERTAIN / 10, "{}", hazard.chance(0));
    }
}

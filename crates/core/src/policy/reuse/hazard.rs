//! When pages are used again: counts of uses and of pages that were given up, by class and age, and what
//! follows from them (survival statistics: Kaplan, Meier, 1958).
//!
//! ```text
//! hazard h[b] = (uses[b] + 1/50) / (1 + sum over b' >= b of (uses + lost))
//! chance[a]   = probability of a use within the horizon, if there was none up to age bucket a
//! value[a]    = greatest rate, over all times to wait, of expected uses in the time that is expected to be waited
//! ```
//!
//! A page that was given up (*lost*) is counted at the age up to which it was watched, not as one that is
//! never used again.
//!
//! Integers: counts are multiples of the region's `one`. Probabilities are in units of 2^-16. A value is in
//! uses in the time unit of ages, times 2^16.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Buckets of ages.
pub(super) const BUCKETS: usize = 20;
/// Lowest age of each bucket, two buckets an octave, and the end of the last one.
const LOWEST: [u32; BUCKETS + 1] =
    [0, 1, 2, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 91, 128, 182, 256, 363, 512, 1024];
/// 1 as a probability.
pub(super) const CERTAIN: u32 = 1 << 16;
/// Counts lose one part in this many at each refresh.
const DECAY: u32 = 50;
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

    /// See the module's header.
    pub(super) fn chance(&self, age: u32) -> u32 {
        self.chance[bucket(age)]
    }

    /// See the module's header.
    pub(super) fn value(&self, age: u32) -> u32 {
        self.value[bucket(age)]
    }

    /// Lets the counts fade.
    pub(super) fn fade(&mut self) {
        self.uses.iter_mut().chain(&mut self.lost).for_each(|count| *count -= *count / DECAY);
    }

    /// Computes chances and values anew.
    pub(super) fn refresh(&mut self, one: u32, horizon: u32) {
        let mut hazards = [0; BUCKETS];
        let mut watched = 0;
        for bucket in (0..BUCKETS).rev() {
            let uses = u64::from(self.uses[bucket]);
            watched += uses + u64::from(self.lost[bucket]);
            let prior = u64::from((one / PRIOR_PART).max(1));
            hazards[bucket] = (uses + prior) * u64::from(CERTAIN) / (u64::from(one) + watched);
        }
        for age in 0..BUCKETS {
            self.chance[age] = chance_from(&hazards, age, horizon.into());
            self.value[age] = value_from(&hazards, age);
        }
    }
}

/// Buckets from the `from`th on, with their widths and hazards. Those of no width are left out.
fn onwards(hazards: &[u64; BUCKETS], from: usize) -> impl Iterator<Item = (u64, u64)> + '_ {
    let widths = LOWEST.windows(2).map(|ends| u64::from(ends[1] - ends[0]));
    let both = widths.zip(hazards).skip(from).map(|(width, hazard)| (width, (*hazard).min(CERTAIN.into())));
    both.filter(|(width, _)| *width > 0)
}

fn chance_from(hazards: &[u64; BUCKETS], from: usize, horizon: u64) -> u32 {
    let certain = u64::from(CERTAIN);
    let (mut unused, mut left) = (certain, horizon);
    for (width, hazard) in onwards(hazards, from) {
        let part = width.min(left);
        unused = unused * (certain - hazard * part / width) / certain;
        left -= part;
        if left == 0 {
            break;
        }
    }
    (certain - unused) as u32
}

fn value_from(hazards: &[u64; BUCKETS], from: usize) -> u32 {
    let certain = u64::from(CERTAIN);
    let (mut unused, mut waited) = (certain, 0);
    // The greatest rate is kept as a fraction, and divided once. Its parts have 33 and 27 bits at most, so
    // products fit.
    let mut best = (0, 1);
    for (width, hazard) in onwards(hazards, from) {
        // A use comes in the middle of its bucket.
        waited += unused * (2 * certain - hazard) * width / (2 * certain);
        unused = unused * (certain - hazard) / certain;
        let rate = ((certain - unused) * certain, waited.max(1));
        if rate.0 * best.1 > best.0 * rate.1 {
            best = rate;
        }
    }
    (best.0 / best.1) as u32
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
    fn a_use_that_comes_sooner_is_worth_more() {
        let (soon, late) = (of(900, 4, 600).value(0), of(900, 100, 600).value(0));
        assert!(soon > 10 * late, "{soon} and {late}");
        let waits = of(900, 100, 600);
        assert!(waits.value(60) > waits.value(0), "a use comes nearer");
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

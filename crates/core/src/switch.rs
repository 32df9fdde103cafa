//! Whether a cache would do better under another policy: what its [shadows](crate::Shadows) counted, compared
//! look by look.
//!
//! What is compared is the time that the busier device takes, flash or disk: hits alone would favour a policy
//! that writes more to flash than the device can take. Where times are equal, hits are compared. While costs
//! are unknown, flash is not what limits, and each access to disk counts alike.
//!
//! A look is one turn of the cache. A policy has the *lead* from the look on in which it takes less time than
//! the present one, for as long as it has saved time since then (as in Page's cumulative sums, Biometrika
//! 1954: many loads have parts in which no policy is better, such as scans). It is named when, over its lead
//! of [`LOOKS`] looks or more, it has saved a fiftieth of the time, and twice the sampling error.
//!
//! After a change the cache's shadows begin anew, and so does this: they tell nothing for four turns
//! ([`Forecast::is_settled`]).
//!
//! What the counts do not say: which accesses are neighbours on the disk, and are cheaper for that.
//!
//! Invariants: looks are cut by counts of fetches, never by time, and all is integers: the same counts give
//! the same decisions. A policy that does not find the cache's pages is never named.

use crate::costs::Costs;
use crate::policy::PolicyKind;
use crate::shadow::{Counts, Forecast, SHADOWS_MAX};
use arrayvec::ArrayVec;
use std::fmt;

/// Fewest looks of a lead.
pub const LOOKS: u32 = 3;
/// What a lead counts fades by half after so many looks: a long one must not outweigh the present.
const LOOKS_MAX: u32 = 16;
/// A better policy's time is by this part shorter.
const SHORTER_BY: u64 = 50;
/// Where the times are equal, by so many thousandths more of the fetches hit.
const MORE_HITS_PERMILLE: u64 = 10;
/// Where costs are unknown.
const DISK_ALONE: Costs = Costs::of_times_ns([0, 0, 0, 0, 1000, 1000]);

/// A policy that has led for long enough, and what the shadows counted in these looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The present policy.
    pub from: PolicyKind,
    /// The better one.
    pub to: PolicyKind,
    /// Counted by the shadow of the present policy.
    pub present: Counts,
    /// By that of the better one.
    pub better: Counts,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permille = |counts: &Counts| counts.hits * 1000 / counts.fetches.max(1);
        let (better, present) = (permille(&self.better), permille(&self.present));
        let writes = |counts: &Counts| (counts.flash_writes, counts.disk_writes);
        let ((flash, disk), (flash_now, disk_now)) = (writes(&self.better), writes(&self.present));
        write!(
            f,
            "of the last {} fetches of the sample {} hit {}.{} %, {} {}.{} %; pages written to flash {flash} and \
             {flash_now}, to disk {disk} and {disk_now}",
            self.present.fetches,
            self.to.name(),
            better / 10,
            better % 10,
            self.from.name(),
            present / 10,
            present % 10,
        )
    }
}

/// What was counted since a candidate has the lead.
#[derive(Clone, Copy, Debug, Default)]
struct Lead {
    looks: u32,
    present: Counts,
    candidate: Counts,
}

/// See the module's header.
#[derive(Clone, Debug, Default)]
pub struct Switcher {
    /// What each shadow had counted at the last look; none: there was no look.
    before: ArrayVec<Counts, SHADOWS_MAX>,
    leads: [Lead; SHADOWS_MAX],
}

impl Switcher {
    /// Looks at what the shadows tell, the cache's own first, if a turn has passed since the last look. Names
    /// the best of the policies that are better than the present one, and that `may` be changed to.
    pub fn look(
        &mut self,
        told: &[Forecast],
        costs: &Costs,
        may: impl Fn(PolicyKind) -> bool,
    ) -> Option<Advice> {
        let present = told.first()?;
        if !present.is_settled {
            // The shadows began anew.
            *self = Self::default();
            return None;
        }
        let now = || told.iter().map(|forecast| forecast.all).collect();
        let Some(before) = self.before.first().filter(|before| before.fetches <= present.all.fetches) else {
            *self = Self { before: now(), ..Self::default() };
            return None;
        };
        let passed = present.all.since(before);
        if passed.fetches < u64::from(present.slots) {
            return None;
        }
        let from = present.candidate.policy;
        let costs = if costs.are_known() { costs } else { &DISK_ALONE };
        let mut best = None;
        for ((lead, forecast), before) in self.leads.iter_mut().zip(told).zip(&self.before) {
            let to = forecast.candidate.policy;
            let is_possible =
                to != from && forecast.candidate.percent == 100 && to.finds_pages_of(from) && may(to);
            if !is_possible || !forecast.is_settled {
                continue;
            }
            let ratio = lead.look(&passed, &forecast.all.since(before), (from, to), costs);
            let advice = Advice { from, to, present: lead.present, better: lead.candidate };
            let found = ratio.map(|ratio| (ratio, advice));
            best = best.into_iter().chain(found).min_by_key(|(ratio, _)| *ratio);
        }
        self.before = now();
        best.map(|(_, advice)| advice)
    }
}

impl Lead {
    /// Adds what the two policies counted in a look. If the second one is better, what its time is in
    /// millionths of the first one's.
    fn look(
        &mut self,
        present: &Counts,
        candidate: &Counts,
        (from, to): (PolicyKind, PolicyKind),
        costs: &Costs,
    ) -> Option<u128> {
        self.looks += 1;
        self.present.add(present);
        self.candidate.add(candidate);
        let (time, now) = (busy_ns(to, &self.candidate, costs), busy_ns(from, &self.present, costs));
        let more_hits = self.candidate.hits.saturating_sub(self.present.hits);
        if time > now || time == now && more_hits == 0 {
            *self = Self::default();
            return None;
        }
        let is_better = is_shorter(now - time, now, self.candidate.fetches - self.candidate.hits)
            || more_hits * 1000 >= MORE_HITS_PERMILLE * self.present.fetches
                && more_hits * more_hits >= 4 * (self.candidate.hits + self.present.hits);
        let named = self.looks >= LOOKS && is_better;
        if self.looks >= LOOKS_MAX && !named {
            self.looks /= 2;
            self.present.halve();
            self.candidate.halve();
        }
        named.then(|| u128::from(time) * 1_000_000 / u128::from(now.max(1)))
    }
}

/// Whether `saved` of a time is a fiftieth, and twice the error that two independent samples with so many
/// misses would have. (These are of the same pages, so that theirs is smaller.)
fn is_shorter(saved: u64, time: u64, misses: u64) -> bool {
    let square = |number: u64| u128::from(number) * u128::from(number);
    saved >= time / SHORTER_BY && square(saved) * u128::from(misses) >= 8 * square(time)
}

/// Nanoseconds that the busier device takes for what was counted.
fn busy_ns(policy: PolicyKind, counts: &Counts, costs: &Costs) -> u64 {
    let (write, read_back) = match policy.by_group() {
        true => (costs.flash_write_in_row_ns, costs.flash_read_in_row_ns),
        false => (costs.flash_write_ns, costs.flash_read_ns),
    };
    let times = |pages: u64, each: u32| pages * u64::from(each);
    let flash = times(counts.hits, costs.flash_read_ns)
        + times(counts.flash_writes, write)
        + times(counts.dequeue_reads, read_back);
    // A cache that begins has written nothing yet of what it owes the disk.
    let writes = counts.disk_writes.saturating_add_signed(counts.owed);
    let disk = times(counts.fetches - counts.hits, costs.disk_read_ns) + times(writes, costs.disk_write_ns);
    flash.max(disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::Candidate;
    use PolicyKind::{FaceGsc, Lc, Reuse};

    /// Disk slow, flash fast; and a flash that is slow to write.
    const FAST: Costs = Costs::of_times_ns([10, 2, 10, 5, 300, 300]);
    const SLOW: Costs = Costs::of_times_ns([10, 2, 200, 200, 100, 100]);
    const TURN: u64 = 2000;

    /// Shadows that count so much each turn: hits, pages written to flash.
    struct Shadows {
        told: Vec<Forecast>,
        each: Vec<(u64, u64)>,
    }

    impl Shadows {
        fn new(each: &[(PolicyKind, u64, u64)]) -> Self {
            let forecast = |policy: PolicyKind, percent: u32| Forecast {
                candidate: Candidate { policy, percent },
                slots: TURN as u32,
                all: Counts::default(),
                recent: Counts::default(),
                is_settled: true,
            };
            // Twice the flash is better than all others, and no policy.
            let mut told: Vec<_> = each.iter().map(|(policy, ..)| forecast(*policy, 100)).collect();
            told.push(forecast(each[0].0, 200));
            let mut each: Vec<_> = each.iter().map(|(_, hits, writes)| (*hits, *writes)).collect();
            each.push((TURN, 0));
            Self { told, each }
        }

        fn turn(&mut self) -> &[Forecast] {
            for (forecast, (hits, writes)) in self.told.iter_mut().zip(&self.each) {
                forecast.all.fetches += TURN;
                forecast.all.hits += hits;
                forecast.all.flash_writes += writes;
            }
            &self.told
        }
    }

    /// In which of ten turns, after the first look, a policy is named, and which.
    fn named(shadows: &mut Shadows, costs: &Costs) -> Option<(u32, PolicyKind)> {
        let mut switcher = Switcher::default();
        assert_eq!(switcher.look(shadows.turn(), costs, |_| true), None);
        (1..=10).find_map(|turn| {
            let advice = switcher.look(shadows.turn(), costs, |_| true)?;
            assert_eq!(advice.present.fetches, u64::from(turn) * TURN, "all looks of its lead");
            Some((turn, advice.to))
        })
    }

    #[test]
    fn a_policy_is_named_when_it_has_led_for_long_enough() {
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1200, 1500)]);
        assert_eq!(named(&mut shadows, &FAST), Some((LOOKS, Reuse)));
        assert_eq!(named(&mut shadows, &Costs::default()), Some((LOOKS, Reuse)), "costs are unknown");
        // Its flash would take longer than the other's disk.
        assert_eq!(named(&mut shadows, &SLOW), None);
        let mut shadows = Shadows::new(&[(Reuse, 1200, 1500), (FaceGsc, 1000, 900)]);
        assert_eq!(named(&mut shadows, &SLOW), Some((LOOKS, FaceGsc)));
        assert_eq!(named(&mut shadows, &FAST), None);
    }

    #[test]
    fn a_small_lead_and_another_placement_are_not_enough() {
        assert_eq!(named(&mut Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1015, 900)]), &FAST), None);
        assert_eq!(named(&mut Shadows::new(&[(FaceGsc, 1000, 900), (Lc, 1500, 900)]), &FAST), None);
        // Twice the error of so few misses: a smaller lead takes longer.
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1040, 900)]);
        assert_eq!(named(&mut shadows, &FAST), Some((6, Reuse)));
        // Flash takes nearly as long with both, and more hit.
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1100, 895)]);
        assert_eq!(named(&mut shadows, &SLOW), Some((LOOKS, Reuse)));
        assert_eq!(named(&mut Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1019, 899)]), &SLOW), None);
    }

    #[test]
    fn a_lead_that_is_lost_begins_anew() {
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1200, 900)]);
        let mut switcher = Switcher::default();
        for turn in 0..40 {
            // Of three turns the present policy is better in one, and saves as much in it.
            shadows.each[1].0 = if turn % 3 == 0 { 590 } else { 1200 };
            assert_eq!(switcher.look(shadows.turn(), &FAST, |_| true), None, "turn {turn}");
        }
    }

    #[test]
    fn turns_without_a_difference_end_no_lead() {
        let mut shadows = Shadows::new(&[(FaceGsc, 500, 1500), (Reuse, 500, 1500)]);
        let mut switcher = Switcher::default();
        let named = (0..40).find_map(|turn| {
            shadows.each[1].0 = if turn % 4 == 1 { 800 } else { 500 };
            switcher.look(shadows.turn(), &FAST, |_| true).map(|advice| (turn, advice.to))
        });
        assert_eq!(named, Some((3, Reuse)));
    }

    #[test]
    fn a_long_lead_does_not_outweigh_the_present() {
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1010, 900)]);
        let mut switcher = Switcher::default();
        for _ in 0..200 {
            assert_eq!(switcher.look(shadows.turn(), &FAST, |_| true), None);
        }
        shadows.each[1].0 = 1200;
        let turns = (1..).find(|_| switcher.look(shadows.turn(), &FAST, |_| true).is_some());
        assert!(turns.expect("it is named") <= 4, "{turns:?}");
    }

    #[test]
    fn looks_are_cut_by_fetches_however_often_it_is_asked() {
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1200, 900)]);
        let mut switcher = Switcher::default();
        for turn in 0..=u64::from(LOOKS) {
            let told = shadows.turn().to_vec();
            for _ in 0..5 {
                let named = switcher.look(&told, &FAST, |_| true);
                assert_eq!(named.is_some(), turn == u64::from(LOOKS), "turn {turn}");
                if let Some(advice) = named {
                    let told = "of the last 6000 fetches of the sample reuse hit 60.0 %, face-gsc 50.0 %; pages written to \
                                flash 2700 and 2700, to disk 0 and 0";
                    assert_eq!(advice.to_string(), told);
                    return;
                }
            }
        }
    }

    #[test]
    fn shadows_that_begin_anew_are_not_compared_with_those_before() {
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1200, 900)]);
        let mut switcher = Switcher::default();
        for _ in 0..LOOKS {
            assert_eq!(switcher.look(shadows.turn(), &FAST, |_| true), None);
        }
        // They count from nothing, in one case without a look before they are settled.
        shadows.told.iter_mut().for_each(|forecast| forecast.all = Counts::default());
        for _ in 0..LOOKS {
            assert_eq!(switcher.look(shadows.turn(), &FAST, |_| true), None);
        }
        shadows.told[0].is_settled = false;
        assert_eq!(switcher.look(shadows.turn(), &FAST, |_| true), None);
        shadows.told[0].is_settled = true;
        for _ in 0..LOOKS {
            assert_eq!(switcher.look(shadows.turn(), &FAST, |_| true), None);
        }
        assert!(switcher.look(shadows.turn(), &FAST, |_| true).is_some());
    }

    #[test]
    fn what_is_not_allowed_or_not_settled_is_not_named() {
        let mut shadows = Shadows::new(&[(FaceGsc, 1000, 900), (Reuse, 1200, 900)]);
        let mut switcher = Switcher::default();
        for _ in 0..10 {
            assert_eq!(switcher.look(shadows.turn(), &FAST, |policy| policy != Reuse), None);
        }
        shadows.told[1].is_settled = false;
        assert_eq!(named(&mut shadows, &FAST), None);
        shadows.told[1].is_settled = true;
        shadows.told[0].is_settled = false;
        assert_eq!(named(&mut shadows, &FAST), None);
    }
}

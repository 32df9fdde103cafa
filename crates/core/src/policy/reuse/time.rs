//! Time, counted in misses of DRAM. Its unit, an *epoch*, is a 32nd of as many misses as there are slots.
//!
//! What is due from time to time has one countdown, so a miss at which nothing is due costs one subtraction.

use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Epochs in as many misses as there are slots.
pub(super) const EPOCHS: u32 = 32;
/// Refreshes of each class in that time.
const REFRESHES: u32 = 8;
/// The hands that limit ages move on once in so many misses.
pub(super) const HAND_MISSES: u32 = 64;

/// See the module's header. Counts are of misses.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Time {
    /// Epochs so far.
    pub epoch: u32,
    /// From one to the next: epochs, refreshes of a class, moves of the hands.
    every: [u32; 3],
    /// What was left until the next of each when `left` was set.
    until: [u32; 3],
    /// Until the first of these.
    left: u32,
}

/// What is due.
pub(super) struct Due {
    /// The next class is to be refreshed.
    pub refresh: bool,
    /// The hands are to move on.
    pub hands: bool,
}

impl Time {
    /// The beginning, with so many slots and classes.
    pub fn of_slots(slots: u32, classes: u32) -> Self {
        let every = [slots / EPOCHS, slots / REFRESHES / classes, HAND_MISSES].map(|misses| misses.max(1));
        Self { epoch: 0, every, until: every, left: first(every) }
    }

    /// A miss. True: something is due.
    #[inline(always)]
    pub fn pass(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0
    }

    /// What is due now.
    pub fn due(&mut self) -> Due {
        let passed = first(self.until);
        let [epoch, refresh, hands] = self.until.map(|until| until == passed);
        for (until, every) in self.until.iter_mut().zip(self.every) {
            *until = if *until == passed { every } else { *until - passed };
        }
        self.left = first(self.until);
        self.epoch = self.epoch.wrapping_add(epoch.into());
        Due { refresh, hands }
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self) -> Result<(), Violation> {
        let counts = self.until.iter().zip(&self.every);
        let possible = counts.into_iter().all(|(until, every)| (1..=*every).contains(until));
        same(|| "what is due comes in time", true, possible)?;
        same(|| "the first of these comes in time", true, (1..=first(self.until)).contains(&self.left))
    }
}

fn first(counts: [u32; 3]) -> u32 {
    counts.into_iter().fold(u32::MAX, u32::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_due_as_often_as_it_should_be() {
        for slots in [1, 100, 2016, 100_000] {
            let mut time = Time::of_slots(slots, 42);
            for miss in 1..3 * slots {
                let due = if time.pass() { time.due() } else { Due { refresh: false, hands: false } };
                let is_multiple = |of: u32| miss.is_multiple_of(of.max(1));
                assert_eq!(due.refresh, is_multiple(slots / 8 / 42), "{slots} slots, miss {miss}");
                assert_eq!(due.hands, is_multiple(64), "{slots} slots, miss {miss}");
                assert_eq!(time.epoch, miss / (slots / 32).max(1), "{slots} slots, miss {miss}");
                time.check().unwrap();
            }
        }
    }
}

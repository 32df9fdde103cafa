//! What a page must be worth to be written to flash.
//!
//! - By the devices' times: while flash takes longer than disk, each write takes time from the reads of the
//!   same device, so the threshold grows; while flash has time to spare, it shrinks.
//! - By the owner, which may want fewer writes than there is time for: flash wears out.
//!
//! Both are expected uses within the horizon, in the unit of chances.

use super::hazard::CERTAIN;
use crate::costs::Costs;
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// By times: least, and most.
const MIN: u32 = CERTAIN / 10;
const MAX: u32 = CERTAIN * 6 / 10;
/// It grows by its part of so many while flash takes longer than disk, and shrinks by its part of so many
/// while it takes less than so many tenths of the disk's time.
const GROWS: u32 = 10;
const SHRINKS: u32 = 20;
const TIME_TO_SPARE: u64 = 8;

/// See the module's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Threshold {
    /// As times have it.
    pub by_times: u32,
    /// As the owner has it. 0: no wish.
    pub of_owner: u32,
}

impl Threshold {
    pub const FIRST: Self = Self { by_times: MIN, of_owner: 0 };

    /// The owner wants a write to promise so many uses, in thousandths.
    pub fn set_owners(&mut self, permille: u32) {
        let worth = u64::from(permille.min(Costs::WRITE_WORTH_MAX)) * u64::from(CERTAIN) / 1000;
        self.of_owner = worth as u32;
    }

    /// Flash and disk have taken so long of late.
    pub fn adapt(&mut self, flash: u64, disk: u64) {
        if flash > disk {
            self.by_times = (self.by_times + self.by_times / GROWS).min(MAX);
        } else if flash * 10 < disk * TIME_TO_SPARE {
            self.by_times = (self.by_times - self.by_times / SHRINKS).max(MIN);
        }
    }

    /// The greater of both.
    pub fn least(&self) -> u32 {
        self.by_times.max(self.of_owner)
    }

    /// Whether the owner asks for as many uses as can be: the budget is used up, and no write is worth it.
    pub fn is_out_of_reach(&self) -> bool {
        self.of_owner >= Costs::WRITE_WORTH_MAX * CERTAIN / 1000
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self) -> Result<(), Violation> {
        same(|| "a possible threshold by times", true, (MIN..=MAX).contains(&self.by_times))?;
        same(|| "a possible threshold of the owner", true, self.of_owner <= 2 * CERTAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_times_within_bounds_and_the_owner_at_once() {
        let mut threshold = Threshold::FIRST;
        (0..50).for_each(|_| threshold.adapt(2, 1));
        assert_eq!(threshold.least(), MAX);
        threshold.adapt(9, 10);
        assert_eq!(threshold.least(), MAX, "nearly alike");
        (0..50).for_each(|_| threshold.adapt(7, 10));
        assert_eq!(threshold.least(), MIN);
        threshold.set_owners(1000);
        assert_eq!((threshold.least(), threshold.is_out_of_reach()), (CERTAIN, false));
        threshold.set_owners(u32::MAX);
        assert!(threshold.is_out_of_reach());
        threshold.check().unwrap();
    }
}

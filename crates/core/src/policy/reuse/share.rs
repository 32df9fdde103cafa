//! The share of each group that stays in the ring. Keeping the share s costs 1 / (1 - s) writes for each page
//! that enters, so it shrinks while flash is busy: most writes of a busy flash are of pages that stay.
//!
//! It changes once a turn of the ring, which is when an effect shows.

use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Parts of a group: the share is least, and most, so many of them.
const PARTS: u32 = 64;
const MIN: u32 = 8;
const MAX: u32 = 56;
/// What it is while costs are unknown, and where it begins when they are known.
const UNKNOWN: u32 = 52;
const FIRST: u32 = 44;
/// Flash should take between 6 and 7 sixteenths of the disk's time. Where it takes more than the one or less
/// than the other, the share moves by the parts beside it.
const BUSY: [(u64, u32); 2] = [(9, 4), (7, 1)];
const IDLE: [(u64, u32); 2] = [(3, 4), (6, 1)];
const OF: u64 = 16;

/// See the module's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Share {
    parts: u32,
    /// Pages of the groups dequeued in this turn of the ring.
    turned: u32,
}

impl Share {
    pub const OF_UNKNOWN_COSTS: Self = Self { parts: UNKNOWN, turned: 0 };

    /// Costs are known from now on.
    pub fn begin(&mut self) {
        self.parts = FIRST;
    }

    /// So many pages more of a ring of `slots` are about to be dequeued. `flash`, `disk`: times of late.
    pub fn turn(&mut self, pages: u32, slots: u32, flash: u64, disk: u64) {
        self.turned += pages;
        if self.turned < slots {
            return;
        }
        self.turned = 0;
        if let Some((_, by)) = BUSY.iter().find(|(bound, _)| flash * OF > disk * bound) {
            self.parts = (self.parts - by.min(&self.parts)).max(MIN);
        } else if let Some((_, by)) = IDLE.iter().find(|(bound, _)| flash * OF < disk * bound) {
            self.parts = (self.parts + by).min(MAX);
        }
    }

    /// Whether so many pages of a group are more than the share.
    pub fn is_exceeded(&self, staying: u32, group_pages: u32) -> bool {
        staying * PARTS > group_pages * self.parts
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self, slots: u32) -> Result<(), Violation> {
        same(|| "a possible share of staying", true, (MIN..=MAX).contains(&self.parts))?;
        same(|| "a turn of the ring has not ended", true, self.turned < slots)
    }
}

//! Looks at groups of the ring while no group is dequeued.
//!
//! Which pages enter and stay is learned from groups that are dequeued. While every page is kept out no group
//! is dequeued, so what was learned would hold for ever, though the pages in the ring are no longer used. So
//! one group is looked at for each group of pages that was kept out: its pages are weighed as if it were at
//! the front. Looks meet the groups in turn, and a dequeue spares one.

use crate::violation::{Violation, same};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// See the module's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Look {
    /// Pages of a group. 0: no group was dequeued yet.
    group_pages: u32,
    /// Pages kept out since the last dequeue or look.
    kept_out: u32,
    /// The first slot of the group that is met next.
    next: u32,
}

impl Look {
    pub const NONE: Self = Self { group_pages: 0, kept_out: 0, next: 0 };

    /// A group of so many pages is dequeued.
    pub fn dequeued(&mut self, group_pages: u32) {
        (self.group_pages, self.kept_out) = (group_pages, 0);
    }

    /// Whether a group was ever dequeued.
    pub fn has_dequeued(&self) -> bool {
        self.group_pages > 0
    }

    /// A page is kept out of a ring of so many slots. The slots of the group that is to be looked at now.
    pub fn kept_out(&mut self, slots: u32) -> Option<Range<u32>> {
        if !self.has_dequeued() {
            return None;
        }
        self.kept_out += 1;
        if self.kept_out < self.group_pages {
            return None;
        }
        let group = self.next..(self.next + self.group_pages).min(slots);
        (self.kept_out, self.next) = (0, if group.end == slots { 0 } else { group.end });
        Some(group)
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self, slots: u32) -> Result<(), Violation> {
        same(|| "the group that is looked at next exists", true, self.next < slots)?;
        same(|| "a group is of the ring", true, self.group_pages <= slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_of_pages_kept_out_shows_one_group_of_the_ring() {
        let mut look = Look::NONE;
        (0..100).for_each(|_| assert_eq!(look.kept_out(12), None, "nothing was dequeued"));
        look.dequeued(4);
        let mut seen = Vec::new();
        for kept_out in 1..=16 {
            seen.extend(look.kept_out(12).map(|group| (kept_out, group)));
            look.check(12).unwrap();
        }
        assert_eq!(seen, [(4, 0..4), (8, 4..8), (12, 8..12), (16, 0..4)]);
    }

    #[test]
    fn a_ring_that_dequeues_often_is_not_looked_at() {
        let mut look = Look::NONE;
        for _ in 0..10 {
            look.dequeued(4);
            (0..3).for_each(|_| assert_eq!(look.kept_out(12), None));
        }
        assert_eq!(look.kept_out(12), Some(0..4));
    }
}

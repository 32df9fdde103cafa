//! What `reuse` learns from the groups of the ring, and which stay.

use super::super::hazard::CERTAIN;
use super::{Evidence, with_one_more};
use crate::pages::Pages;
use crate::sizes::GROUP_PAGES_MAX;
use crate::slot::VALID;
use arrayvec::ArrayVec;
use std::cmp::Reverse;
use std::ops::Range;

/// `stays_from` changes by its part of so many, and is never less than this.
const STEPS: u32 = 32;

impl Evidence<'_, true> {
    /// The group in `slots` of the ring is about to be dequeued; at most so many of its pages stay.
    pub(in super::super) fn dequeue(&mut self, pages: &Pages<'_>, slots: Range<u32>, most: u32) {
        let group_pages = slots.len() as u32;
        let counted = self.head.recent.times(&self.head.times);
        self.head.share.turn(group_pages, self.head.slots, counted);
        self.head.look.dequeued(group_pages);
        self.review(pages, slots, most);
    }

    /// A page was kept out of the ring; at most so many pages of a group of the given length stay.
    pub(in super::super) fn look(&mut self, pages: &Pages<'_>, most: impl FnOnce(u32) -> u32) {
        if let Some(group) = self.head.look.kept_out(self.head.slots) {
            let most = most(group.len() as u32);
            self.review(pages, group, most);
        }
    }

    /// Learns from a group that is, or might be, dequeued what pages that enter displace, and which stay.
    fn review(&mut self, pages: &Pages<'_>, slots: Range<u32>, most: u32) {
        let group_pages = slots.len() as u32;
        let valid = slots.filter(|slot| pages.directory.entry(*slot).has(VALID));
        self.watch_some(pages, valid.clone());
        let weights = valid.map(|slot| self.weight(pages, slot));
        let mut weights: ArrayVec<u32, GROUP_PAGES_MAX> = weights.collect();
        let head = &mut *self.head;
        let likely = weights.iter().filter(|weight| **weight >= head.stays_from).count();
        let staying = likely.min(most as usize);
        if staying < weights.len() {
            let (_, best, _) = weights.select_nth_unstable_by_key(staying, |weight| Reverse(*weight));
            head.margin = with_one_more(head.margin, *best);
        }
        let least = head.threshold.least();
        let step = head.stays_from / STEPS;
        let changed = match head.share.is_exceeded(staying as u32, group_pages) {
            true => head.stays_from + step,
            false => head.stays_from - step,
        };
        head.stays_from = changed.clamp(least, CERTAIN.max(least));
    }

    /// The least weight of pages that stay in the ring.
    pub(in super::super) fn stays_from(&self) -> u32 {
        self.head.stays_from
    }

    /// The least weight of pages that enter the ring.
    pub(in super::super) fn enters_from(&self) -> u32 {
        self.head.stays_from.max(self.head.margin)
    }
}

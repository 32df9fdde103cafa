//! Invariants of slot placement: free slots, and the policies' lists.

use super::{Violation, same};
use crate::policy::{Policy, with_policy};
use crate::region::Partition;
use crate::slot::{BUSY, NIL, Slot, VALID};

impl Partition<'_> {
    pub(super) fn check_lists(&self) -> Result<(), Violation> {
        let config = self.config();
        let in_sets = self.policy.in_sets();
        let of_pages = if in_sets { config.sets() } else { config.lists() };
        let mut listed = 0;
        for list in 0..of_pages {
            listed += self.check_list(list, |slot| slot.has(VALID))?;
        }
        same(|| "pages in the policy's lists", self.head.valid, listed)?;
        if in_sets {
            self.check_sets(config.sets())?;
        } else {
            self.check_free_slots()?;
        }
        let new = self.slots_proper().iter().filter(|s| s.has(BUSY) && !s.has(VALID)).count() as u64;
        let all = u64::from(self.head.free) + new + u64::from(self.head.valid);
        same(|| "free, new and valid slots", u64::from(self.head.slots), all)?;
        let cursor = self.head.clean_cursor;
        let stands = cursor == NIL || self.slots_proper().get(cursor as usize).is_some_and(|s| s.has(VALID));
        same(|| "the cleaner stands at a valid slot", true, stands)?;
        with_policy!(self.policy, P => P::check(self))
    }

    /// A slot in the batch of fetches holds a page.
    pub(crate) fn check_hits(&self) -> Result<(), Violation> {
        let hits = self.head.hits.slots().iter();
        let emptied = hits.copied().find(|hit| !self.slots[*hit as usize].has(VALID));
        same(|| "a fetched slot in the batch that holds no page", None, emptied)
    }

    /// Pages and free slots stand in the lists of their sets.
    fn check_sets(&self, sets: u32) -> Result<(), Violation> {
        let mut free = 0;
        for set in 0..sets {
            free += self.check_list(self.free_list(set), |slot| !slot.has(VALID | BUSY))?;
        }
        same(|| "free slots", self.head.free, free)?;
        for list in 0..2 * sets {
            let node = self.list_node(list);
            let mut at = self.next_of(node);
            while at != node {
                same(|| format!("set of slot {at}"), list % sets, self.set_of_slot(at))?;
                at = self.next_of(at);
            }
        }
        for (at, slot) in self.slots_proper().iter().enumerate().filter(|(_, slot)| slot.has(VALID)) {
            let page = slot.page();
            same(|| format!("set of page {page}"), self.set_of_slot(at as u32), self.set_of_page(page))?;
        }
        Ok(())
    }

    /// The chain of free slots.
    fn check_free_slots(&self) -> Result<(), Violation> {
        let (mut free, mut at) = (0, self.head.free_first);
        while at != NIL {
            let Some(slot) = self.slots_proper().get(at as usize) else {
                return same(|| "a free slot", "below the last", "beyond");
            };
            free += 1;
            same(|| "the list of free slots ends", true, free <= self.head.slots)?;
            same(|| format!("free slot {at} is in use"), false, slot.has(VALID | BUSY))?;
            at = slot.next();
        }
        same(|| "free slots", self.head.free, free)
    }

    /// The list is a circle of slots that are `right`. Returns how many.
    fn check_list(&self, list: u32, right: impl Fn(&Slot) -> bool) -> Result<u32, Violation> {
        let node = self.list_node(list);
        let (mut entries, mut before, mut at) = (0, node, self.next_of(node));
        while at != node {
            let Some(slot) = self.slots_proper().get(at as usize) else {
                return same(|| format!("an entry of list {list}"), "a slot", "none").map(|()| 0);
            };
            entries += 1;
            same(|| format!("list {list} ends"), true, entries <= self.head.slots)?;
            same(|| format!("slot {at} of list {list} is as it should be"), true, right(slot))?;
            same(|| format!("what stands before slot {at} of list {list}"), before, self.prev_of(at))?;
            (before, at) = (at, self.next_of(at));
        }
        same(|| format!("last of list {list}"), before, self.prev_of(node))?;
        Ok(entries)
    }
}

//! Invariants of slot placement: free slots, LRU-2's lists, and its history.

use super::{Violation, same};
use crate::policy::lc::lists::LISTS;
use crate::region::Partition;
use crate::slot::{BUSY, NIL, VALID};

impl Partition<'_> {
    pub(super) fn check_lists(&self) -> Result<(), Violation> {
        self.check_free_slots()?;
        let mut listed = 0;
        for list in 0..LISTS as u32 {
            listed += self.check_list(list)?;
        }
        same(|| "pages in the LRU-2 lists", self.head.valid, listed)?;
        let cursor = self.head.clean_cursor;
        let stands = cursor == NIL || self.slots_proper().get(cursor as usize).is_some_and(|s| s.has(VALID));
        same(|| "the cleaner stands at a valid slot", true, stands)?;
        self.check_history()
    }

    /// Slots are free, valid, or being written for the first time.
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
        same(|| "free slots", self.head.free, free)?;
        let new = self.slots_proper().iter().filter(|s| s.has(BUSY) && !s.has(VALID)).count() as u32;
        same(|| "free, new and valid slots", self.head.slots, free + new + self.head.valid)
    }

    /// The list is a circle of valid slots. Returns how many.
    fn check_list(&self, list: u32) -> Result<u32, Violation> {
        let node = self.list_node(list);
        let (mut entries, mut before, mut at) = (0, node, self.next_of(node));
        while at != node {
            let Some(slot) = self.slots_proper().get(at as usize) else {
                return same(|| format!("an entry of list {list}"), "a slot", "none").map(|()| 0);
            };
            entries += 1;
            same(|| format!("list {list} ends"), true, entries <= self.head.slots)?;
            same(|| format!("slot {at} of list {list} is valid"), true, slot.has(VALID))?;
            same(|| format!("what stands before slot {at} of list {list}"), before, self.prev_of(at))?;
            (before, at) = (at, self.next_of(at));
        }
        same(|| format!("last of list {list}"), before, self.prev_of(node))?;
        Ok(entries)
    }

    fn check_history(&self) -> Result<(), Violation> {
        let next = self.head.history_next as usize;
        same(|| "next history entry", true, next < self.history.len().max(1))?;
        let mut chained = 0;
        for (bucket, first) in self.history_buckets.iter().enumerate() {
            let mut at = *first;
            while at != NIL {
                let Some(entry) = self.history.get(at as usize) else {
                    return same(|| "an entry of the history", "below the last", "beyond");
                };
                chained += 1;
                same(|| "chains of the history end", true, chained <= self.history.len())?;
                same(|| format!("history entry {at} is in use"), true, entry.last != 0)?;
                same(|| format!("bucket of history entry {at}"), self.history_bucket(entry.page()), bucket)?;
                at = entry.next;
            }
        }
        let used = self.history.iter().filter(|entry| entry.last != 0).count();
        same(|| "history entries in the index", used, chained)
    }
}

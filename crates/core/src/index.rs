//! Page id → directory entry: a chained hash table whose links lie in the entries.
//!
//! Invariant: the entries of one page stand in their chain newest first. So the first match is the version to serve. All
//! but one are in staging; the one on flash is the last of them, unless groups were written out of order.

use crate::PageId;
use crate::region::Partition;
use crate::slot::NIL;

/// Spreads `key` over `buckets` (Fibonacci hashing, then a multiply instead of a division).
pub(crate) fn bucket_of(key: u64, buckets: usize) -> usize {
    let hash = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

impl Partition<'_> {
    fn bucket(&self, page: PageId) -> usize {
        bucket_of(page.0, self.buckets.len())
    }

    /// The newest entry of `page`, staged or on flash.
    pub(crate) fn find(&self, page: PageId) -> Option<u32> {
        let mut at = self.buckets[self.bucket(page)];
        while at != NIL {
            let slot = &self.slots[at as usize];
            if slot.page() == page {
                return Some(at);
            }
            at = slot.next();
        }
        None
    }

    /// The next older entry of the page of entry `at`.
    pub(crate) fn find_older(&self, at: u32) -> Option<u32> {
        let page = self.slots[at as usize].page();
        let mut next = self.slots[at as usize].next();
        while next != NIL {
            let slot = &self.slots[next as usize];
            if slot.page() == page {
                return Some(next);
            }
            next = slot.next();
        }
        None
    }

    /// The slot that holds the valid version of `page`, whatever is in staging.
    pub(crate) fn find_on_flash(&self, page: PageId) -> Option<u32> {
        let mut at = self.find(page);
        while let Some(entry) = at.filter(|entry| *entry >= self.head.slots) {
            at = self.find_older(entry);
        }
        at
    }

    /// Enters `at` as the newest entry of its page.
    pub(crate) fn link(&mut self, at: u32) {
        let bucket = self.bucket(self.slots[at as usize].page());
        self.slots[at as usize].set_next(self.buckets[bucket]);
        self.buckets[bucket] = at;
    }

    fn set_successor(&mut self, page: PageId, at: u32, successor: u32) {
        let bucket = self.bucket(page);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = successor;
            return;
        }
        let mut previous = self.buckets[bucket];
        loop {
            assert!(previous != NIL, "entry {at} of page {page} is in the index");
            let next = self.slots[previous as usize].next();
            if next == at {
                self.slots[previous as usize].set_next(successor);
                return;
            }
            previous = next;
        }
    }

    /// Takes `at` out.
    pub(crate) fn unlink(&mut self, at: u32) {
        let slot = self.slots[at as usize];
        self.set_successor(slot.page(), at, slot.next());
        self.slots[at as usize].set_next(NIL);
    }

    /// Puts entry `new`, of the same page, in the place of `old`.
    pub(crate) fn replace(&mut self, old: u32, new: u32) {
        let slot = self.slots[old as usize];
        self.slots[new as usize].set_next(slot.next());
        self.set_successor(slot.page(), old, new);
        self.slots[old as usize].set_next(NIL);
    }
}

//! Retained information (O'Neil et al.: The LRU-K page replacement algorithm, SIGMOD 1993, §2.1.2): the last references
//! of the `history` pages that left flash most recently. A ring with a hash index; the oldest entry is overwritten.
//!
//! Invariant: an entry is in use if its time is not 0; entries in use are in the chain of their bucket, others in none.

use crate::PageId;
use crate::check::{Violation, same};
use crate::index::bucket_of;
use crate::region::Partition;
use crate::slot::NIL;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A departed page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Remembered {
    page_low: u32,
    page_high: u32,
    /// Time of the last reference; 0: unused.
    pub last: u32,
    /// Next in the chain of its bucket.
    pub next: u32,
}

const _: () = assert!(size_of::<Remembered>() == 16);

impl Remembered {
    const UNUSED: Self = Self { page_low: 0, page_high: 0, last: 0, next: NIL };

    fn page(&self) -> PageId {
        PageId((self.page_high as u64) << 32 | self.page_low as u64)
    }
}

impl Partition<'_> {
    fn history_bucket(&self, page: PageId) -> usize {
        bucket_of(page.0, self.table.len())
    }

    /// `page` leaves; it was last referenced at `last`, which is not 0.
    pub(super) fn remember(&mut self, page: PageId, last: u32) {
        if self.history.is_empty() {
            return;
        }
        let at = self.head.history_next;
        self.head.history_next = if at + 1 == self.history.len() as u32 { 0 } else { at + 1 };
        if self.history[at as usize].last != 0 {
            self.forget_departed(at);
        }
        let bucket = self.history_bucket(page);
        let next = std::mem::replace(&mut self.table[bucket], at);
        let (page_low, page_high) = (page.0 as u32, (page.0 >> 32) as u32);
        self.history[at as usize] = Remembered { page_low, page_high, last, next };
    }

    /// Takes entry `at`, which is in use, out of its chain.
    fn forget_departed(&mut self, at: u32) {
        let Remembered { next, .. } = self.history[at as usize];
        let bucket = self.history_bucket(self.history[at as usize].page());
        let mut before = self.table[bucket];
        if before == at {
            self.table[bucket] = next;
        } else {
            while self.history[before as usize].next != at {
                before = self.history[before as usize].next;
            }
            self.history[before as usize].next = next;
        }
        self.history[at as usize] = Remembered::UNUSED;
    }

    /// Last reference of a page that left, if it is remembered; forgets it.
    pub(super) fn recall(&mut self, page: PageId) -> Option<u32> {
        if self.history.is_empty() {
            return None;
        }
        let mut at = self.table[self.history_bucket(page)];
        while at != NIL {
            let entry = self.history[at as usize];
            if entry.page() == page {
                self.forget_departed(at);
                return Some(entry.last);
            }
            at = entry.next;
        }
        None
    }

    /// Every remembered page is in the chain of its bucket, and nothing else is.
    pub(super) fn check_history(&self) -> Result<(), Violation> {
        let next = self.head.history_next as usize;
        same(|| "next history entry", true, next < self.history.len().max(1))?;
        let mut chained = 0;
        for (bucket, first) in self.table.iter().enumerate() {
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

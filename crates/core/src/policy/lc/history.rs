//! Retained information (O'Neil et al.: The LRU-K page replacement algorithm, SIGMOD 1993, §2.1.2): the last
//! references of the `history` pages evicted most recently. A ring with a hash index; the oldest entry is
//! overwritten.
//!
//! Invariant: an entry is in use if its time is not 0. Entries in use are in the chain of their bucket,
//! others in none.

use crate::PageId;
use crate::hash::bucket_of;
use crate::policy::Memory;
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::slot::NIL;
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An evicted page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Remembered {
    page_low: u32,
    page_high: u32,
    /// Time of the last reference; 0: unused.
    last: u32,
    /// Next in the chain of its bucket.
    next: u32,
}

const _: () = assert!(size_of::<Remembered>() == 16);

impl Remembered {
    const UNUSED: Self = Self { page_low: 0, page_high: 0, last: 0, next: NIL };

    fn page(&self) -> PageId {
        PageId((self.page_high as u64) << 32 | self.page_low as u64)
    }
}

/// The next entry of the ring to overwrite.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Next(u32);

pub(super) const NEXT: SectionPlan = SectionPlan::one::<Next>("history ring");
pub(super) const DEPARTED: SectionPlan = SectionPlan::many::<Remembered>("history", |sizes| sizes.history);
pub(super) const BUCKETS: SectionPlan = SectionPlan::many::<u32>("history buckets", |sizes| sizes.history);

/// The remembered pages. It may have no entries, and then remembers nothing.
pub(super) struct History<'r> {
    next: &'r mut Next,
    departed: &'r mut [Remembered],
    /// First entry of each chain; as many as entries.
    buckets: &'r mut [u32],
}

impl<'r> Memory<'r> for History<'r> {
    const SECTIONS: &'static [SectionPlan] = &[NEXT, DEPARTED, BUCKETS];

    #[inline(always)]
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self> {
        let next = carver.take_one()?;
        Some(Self { next, departed: carver.take(&DEPARTED)?, buckets: carver.take(&BUCKETS)? })
    }

    fn format(&mut self, _sizes: &Sizes) {
        self.buckets.fill(NIL);
    }
}

impl History<'_> {
    fn bucket(&self, page: PageId) -> usize {
        bucket_of(page.0, self.buckets.len())
    }

    /// `page` is evicted. Its last reference was at `last`, which is not 0.
    pub(super) fn remember(&mut self, page: PageId, last: u32) {
        if self.departed.is_empty() {
            return;
        }
        let at = self.next.0;
        self.next.0 = if at + 1 == self.departed.len() as u32 { 0 } else { at + 1 };
        if self.departed[at as usize].last != 0 {
            self.forget(at);
        }
        let bucket = self.bucket(page);
        let next = std::mem::replace(&mut self.buckets[bucket], at);
        let (page_low, page_high) = (page.0 as u32, (page.0 >> 32) as u32);
        self.departed[at as usize] = Remembered { page_low, page_high, last, next };
    }

    /// Removes entry `at`, which is in use, from its chain.
    fn forget(&mut self, at: u32) {
        let Remembered { next, .. } = self.departed[at as usize];
        let bucket = self.bucket(self.departed[at as usize].page());
        let mut before = self.buckets[bucket];
        if before == at {
            self.buckets[bucket] = next;
        } else {
            while self.departed[before as usize].next != at {
                before = self.departed[before as usize].next;
            }
            self.departed[before as usize].next = next;
        }
        self.departed[at as usize] = Remembered::UNUSED;
    }

    /// Last reference of an evicted page, if it is remembered. Forgets it.
    pub(super) fn recall(&mut self, page: PageId) -> Option<u32> {
        if self.departed.is_empty() {
            return None;
        }
        let mut at = self.buckets[self.bucket(page)];
        while at != NIL {
            let entry = self.departed[at as usize];
            if entry.page() == page {
                self.forget(at);
                return Some(entry.last);
            }
            at = entry.next;
        }
        None
    }

    /// Every remembered page is in the chain of its bucket, and the chains have no other entries.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let next = self.next.0 as usize;
        same(|| "next history entry", true, next < self.departed.len().max(1))?;
        let mut chained = 0;
        for (bucket, first) in self.buckets.iter().enumerate() {
            let mut at = *first;
            while at != NIL {
                let Some(entry) = self.departed.get(at as usize) else {
                    return same(|| "an entry of the history", "below the last", "beyond");
                };
                chained += 1;
                same(|| "chains of the history end", true, chained <= self.departed.len())?;
                same(|| format!("history entry {at} is in use"), true, entry.last != 0)?;
                same(|| format!("bucket of history entry {at}"), self.bucket(entry.page()), bucket)?;
                at = entry.next;
            }
        }
        let used = self.departed.iter().filter(|entry| entry.last != 0).count();
        same(|| "history entries in the index", used, chained)
    }
}

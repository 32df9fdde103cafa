//! Lazy Cleaning (Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011; as FaCE §2.3 and §5.3 describe and
//! measure it): on exit, clean and dirty, write-back, LRU-2, and a background cleaner.
//!
//! ```text
//! victim:  among the pages referenced once, the least recently used; else the page whose last reference but one is oldest
//! cleaner: while more than dirty_permille_max of the slots are dirty: copy the coldest dirty page to disk
//! ```
//!
//! LRU-2 in constant time: time is counted in references and cut into intervals; pages stand in one list for each
//! interval of their last-but-one reference, in order of arrival, and one list holds those referenced once. Two pages
//! whose last-but-one references fall into one interval are not told apart. Intervals reach back four times the cache's
//! size in references; what is older shares one list.
//!
//! A reference is a DRAM miss: the fetch of a page from flash, or the arrival of a page new to flash. Writing out a newer
//! version is not one, since it belongs to the fetch before (O'Neil's correlated references). The last reference of a
//! page that left flash is remembered for `history` pages (retained information): without it LRU-2 falls below FIFO.

use super::{Offer, Policy};
use crate::PageId;
use crate::index::bucket_of;
use crate::job::Fate;
use crate::region::Partition;
use crate::slot::{BUSY, DIRTY, NIL};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Intervals of the last-but-one reference.
const INTERVALS: usize = 1024;
/// List of the pages referenced once.
const ONCE: u32 = 0;
/// List of the pages whose last-but-one reference is older than all intervals.
const ANCIENT: u32 = 1;
/// Lists of one partition.
pub(crate) const LISTS: usize = INTERVALS + 2;

/// Per slot: two 28-bit list links with the low byte of the generation in their upper bits, and the last reference.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Note {
    prev: u32,
    next: u32,
    last: u32,
}

const _: () = assert!(size_of::<Note>() == 12);

/// A departed page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Remembered {
    page_low: u32,
    page_high: u32,
    last: u32,
    /// Next in the chain of its bucket; NIL when the entry is unused, too.
    next: u32,
}

impl Remembered {
    fn page(&self) -> PageId {
        PageId((self.page_high as u64) << 32 | self.page_low as u64)
    }
}

impl Note {
    fn set_prev(&mut self, to: u32) {
        self.prev = self.prev & !NIL | to;
    }
    fn set_next(&mut self, to: u32) {
        self.next = self.next & !NIL | to;
    }
}

/// The lists, the clock and the history; all by index.
impl Partition<'_> {
    fn list_node(&self, list: u32) -> u32 {
        self.head.slots + list
    }

    pub(crate) fn init_lists(&mut self) {
        for list in 0..LISTS as u32 {
            let node = self.list_node(list);
            self.notes[node as usize] = Note { prev: node, next: node, last: 0 };
        }
    }

    fn next_of(&self, node: u32) -> u32 {
        self.notes[node as usize].next & NIL
    }

    fn prev_of(&self, node: u32) -> u32 {
        self.notes[node as usize].prev & NIL
    }

    fn push_back(&mut self, list: u32, slot: u32) {
        let node = self.list_node(list);
        let last = self.prev_of(node);
        self.notes[slot as usize].set_prev(last);
        self.notes[slot as usize].set_next(node);
        self.notes[last as usize].set_next(slot);
        self.notes[node as usize].set_prev(slot);
    }

    fn take_out(&mut self, slot: u32) {
        let (prev, next) = (self.prev_of(slot), self.next_of(slot));
        if self.head.clean_cursor == slot {
            self.head.clean_cursor = if next < self.head.slots { next } else { NIL };
        }
        self.notes[prev as usize].set_next(next);
        self.notes[next as usize].set_prev(prev);
    }

    /// Appends all of list `from` to list `to`.
    fn splice(&mut self, from: u32, to: u32) {
        let (from, to) = (self.list_node(from), self.list_node(to));
        let (first, last) = (self.next_of(from), self.prev_of(from));
        if first == from {
            return;
        }
        let tail = self.prev_of(to);
        self.notes[tail as usize].set_next(first);
        self.notes[first as usize].set_prev(tail);
        self.notes[last as usize].set_next(to);
        self.notes[to as usize].set_prev(last);
        self.notes[from as usize].set_next(from);
        self.notes[from as usize].set_prev(from);
    }

    /// References in one interval.
    fn interval(&self) -> u32 {
        (self.head.slots / (INTERVALS as u32 / 4)).max(1)
    }

    fn tick(&mut self) -> u32 {
        self.head.clock = self.head.clock.wrapping_add(1).max(1);
        let newest = self.head.clock / self.interval();
        while newest.wrapping_sub(self.head.bucket_oldest) as usize >= INTERVALS
            && newest >= self.head.bucket_oldest
        {
            let list = 2 + self.head.bucket_oldest % INTERVALS as u32;
            self.splice(list, ANCIENT);
            self.head.bucket_oldest += 1;
        }
        if newest < self.head.bucket_oldest {
            // The clock has wrapped: everything known is ancient.
            for list in 2..LISTS as u32 {
                self.splice(list, ANCIENT);
            }
            self.head.bucket_oldest = newest;
        }
        self.head.clock
    }

    fn list_for(&self, penultimate: u32) -> u32 {
        let interval = penultimate / self.interval();
        let newest = self.head.clock / self.interval();
        if interval < self.head.bucket_oldest || interval > newest {
            ANCIENT
        } else {
            2 + interval % INTERVALS as u32
        }
    }

    /// The lists from coldest to hottest.
    fn lists_cold_to_hot(&self) -> impl Iterator<Item = u32> + use<> {
        let oldest = self.head.bucket_oldest;
        [ONCE, ANCIENT]
            .into_iter()
            .chain((0..INTERVALS as u32).map(move |i| 2 + oldest.wrapping_add(i) % INTERVALS as u32))
    }

    /// The coldest slot for which `wanted` holds, at or after `from` if that is a slot.
    fn coldest(&self, from: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = from;
        let mut skip_to = None;
        if from != NIL {
            while at < self.head.slots {
                if wanted(at) {
                    return Some(at);
                }
                at = self.next_of(at);
            }
            skip_to = Some(at - self.head.slots);
        }
        let mut lists = self.lists_cold_to_hot();
        if let Some(list) = skip_to {
            lists.find(|l| *l == list);
        }
        for list in lists {
            let node = self.list_node(list);
            let mut at = self.next_of(node);
            while at != node {
                if wanted(at) {
                    return Some(at);
                }
                at = self.next_of(at);
            }
        }
        None
    }

    /// Entries of all lists; more than there are slots if a list does not end.
    pub(crate) fn count_lists(&self) -> u32 {
        let mut entries = 0;
        for list in 0..LISTS as u32 {
            let node = self.list_node(list);
            let mut at = self.next_of(node);
            while at != node && entries <= self.head.slots {
                entries += 1;
                at = self.next_of(at);
            }
        }
        entries
    }

    /// Low byte of the position whose page lies in `slot`.
    pub(crate) fn generation_byte(&self, slot: u32) -> u8 {
        let note = &self.notes[slot as usize];
        ((note.prev >> 28) << 4 | note.next >> 28) as u8
    }

    pub(crate) fn set_generation_byte(&mut self, slot: u32, byte: u8) {
        let note = &mut self.notes[slot as usize];
        note.prev = note.prev & NIL | (byte as u32 >> 4) << 28;
        note.next = note.next & NIL | (byte as u32 & 15) << 28;
    }

    fn remember(&mut self, page: PageId, last: u32) {
        if self.history.is_empty() {
            return;
        }
        let at = self.head.history_next as usize;
        self.head.history_next = (at as u32 + 1) % self.history.len() as u32;
        if self.history[at].last != 0 || self.history[at].page() != PageId(0) {
            self.drop_memory(at);
        }
        let bucket = bucket_of(page.0, self.history_buckets.len());
        let next = self.history_buckets[bucket];
        self.history[at] =
            Remembered { page_low: page.0 as u32, page_high: (page.0 >> 32) as u32, last, next };
        self.history_buckets[bucket] = at as u32;
    }

    /// Unchains history entry `at`, if it is chained.
    fn drop_memory(&mut self, at: usize) {
        let bucket = bucket_of(self.history[at].page().0, self.history_buckets.len());
        let next = self.history[at].next;
        if self.history_buckets[bucket] == at as u32 {
            self.history_buckets[bucket] = next;
        } else {
            let mut previous = self.history_buckets[bucket];
            while previous != NIL && self.history[previous as usize].next != at as u32 {
                previous = self.history[previous as usize].next;
            }
            if previous != NIL {
                self.history[previous as usize].next = next;
            }
        }
        self.history[at] = Remembered { page_low: 0, page_high: 0, last: 0, next: NIL };
    }

    /// Last reference of a page that left, if it is remembered; forgets it.
    fn recall(&mut self, page: PageId) -> Option<u32> {
        if self.history.is_empty() {
            return None;
        }
        let mut at = self.history_buckets[bucket_of(page.0, self.history_buckets.len())];
        while at != NIL {
            let entry = self.history[at as usize];
            if entry.page() == page {
                self.drop_memory(at as usize);
                return Some(entry.last);
            }
            at = entry.next;
        }
        None
    }
}

/// LRU-2 with a lazy cleaner.
pub(crate) struct Lc;

impl Policy for Lc {
    fn admit(partition: &Partition<'_>, offer: &Offer) -> bool {
        offer.fdirty || partition.find(offer.page).is_none()
    }

    fn on_hit(partition: &mut Partition<'_>, entry: u32) {
        if entry >= partition.head.slots {
            return; // still in staging: it has no place in the lists yet
        }
        let now = partition.tick();
        let penultimate = partition.notes[entry as usize].last;
        partition.take_out(entry);
        partition.notes[entry as usize].last = now;
        let list = partition.list_for(penultimate);
        partition.push_back(list, entry);
    }

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        let now = partition.tick();
        let page = partition.slots[slot as usize].page();
        let list = match partition.recall(page) {
            Some(penultimate) => partition.list_for(penultimate),
            None => ONCE,
        };
        partition.notes[slot as usize].last = now;
        partition.push_back(list, slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.take_out(slot);
        let (page, last) = (partition.slots[slot as usize].page(), partition.notes[slot as usize].last);
        partition.remember(page, last);
    }

    fn victim(partition: &mut Partition<'_>) -> Option<u32> {
        partition.coldest(NIL, |slot| !partition.slots[slot as usize].has(BUSY))
    }

    fn fate(partition: &Partition<'_>, slot: u32) -> Fate {
        if partition.slots[slot as usize].has(DIRTY) { Fate::Destage } else { Fate::Drop }
    }

    fn clean(partition: &mut Partition<'_>) -> Option<u32> {
        let most = partition.head.slots as u64 * partition.head.dirty_permille_max as u64 / 1000;
        if partition.head.dirty as u64 <= most {
            return None;
        }
        let dirty = |slot: u32| {
            let entry = &partition.slots[slot as usize];
            entry.has(DIRTY) && !entry.has(BUSY)
        };
        let cursor = partition.head.clean_cursor;
        let found = partition.coldest(cursor, dirty).or_else(|| {
            let again = cursor != NIL;
            if again { partition.coldest(NIL, dirty) } else { None }
        });
        partition.head.clean_cursor = found.unwrap_or(NIL);
        found
    }
}

//! Page number → frame: a hash table in shards, each open-addressed with linear probing.
//!
//! Invariant: a shard has at least as many empty entries as full ones, so probing ends. There is no empty
//! entry between a page's home index and its entry (removal shifts entries back).

use super::frame::FrameId;
use crate::PageNumber;
use entresol_runtime::sync::{Rank, TinyMutex};

const SHARD_BITS: u32 = 4;
const EMPTY: u64 = u64::MAX;

pub(super) struct PageTable {
    shards: Box<[TinyMutex<Shard>]>,
}

struct Shard {
    /// Page number << 32 | frame.
    entries: Box<[u64]>,
    used: usize,
    accesses: u64,
    hits: u64,
}

fn hash(page: PageNumber) -> u64 {
    u64::from(page.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl PageTable {
    /// Capacity for `frames` pages, in whatever distribution over the shards.
    pub(super) fn new(frames: usize) -> PageTable {
        let shards = 1usize << SHARD_BITS;
        // Twice the average share, doubled when a shard gets more.
        let size = (frames / shards * 4).next_power_of_two().max(16);
        let shard = || {
            TinyMutex::new(
                Rank::PageTable,
                Shard { entries: vec![EMPTY; size].into_boxed_slice(), used: 0, accesses: 0, hits: 0 },
            )
        };
        PageTable { shards: (0..shards).map(|_| shard()).collect() }
    }

    fn shard(&self, page: PageNumber) -> &TinyMutex<Shard> {
        &self.shards[(hash(page) >> (64 - SHARD_BITS)) as usize]
    }

    /// The page's frame, if `accept` accepts it (called under the shard's lock). Counts an access, and a hit.
    pub(super) fn find_and(&self, page: PageNumber, accept: impl FnOnce(FrameId) -> bool) -> Option<FrameId> {
        let mut shard = self.shard(page).lock();
        let place = shard.find(page)?;
        let frame = FrameId(shard.entries[place] as u32);
        if !accept(frame) {
            return None;
        }
        shard.accesses += 1;
        shard.hits += 1;
        Some(frame)
    }

    /// As [`PageTable::find_and`], without counting.
    pub(super) fn peek_and<T>(&self, page: PageNumber, visit: impl FnOnce(FrameId) -> T) -> Option<T> {
        let shard = self.shard(page).lock();
        let place = shard.find(page)?;
        Some(visit(FrameId(shard.entries[place] as u32)))
    }

    /// Inserts the page. If it is already in the table, calls `pin` for its frame and returns that. Counts an
    /// access.
    pub(super) fn insert_or(
        &self,
        page: PageNumber,
        frame: FrameId,
        pin: impl FnOnce(FrameId),
    ) -> Result<(), FrameId> {
        let mut shard = self.shard(page).lock();
        shard.accesses += 1;
        if let Some(place) = shard.find(page) {
            let other = FrameId(shard.entries[place] as u32);
            pin(other);
            return Err(other);
        }
        shard.insert(u64::from(page.0) << 32 | u64::from(frame.0));
        Ok(())
    }

    /// Removes the page.
    pub(super) fn remove(&self, page: PageNumber) {
        self.remove_if(page, || true);
    }

    /// Removes the page if `condition` holds (called under the shard's lock). Returns whether it did.
    pub(super) fn remove_if(&self, page: PageNumber, condition: impl FnOnce() -> bool) -> bool {
        let mut shard = self.shard(page).lock();
        match shard.find(page) {
            Some(place) if condition() => {
                shard.remove(place);
                true
            }
            _ => false,
        }
    }

    /// Accesses and hits.
    pub(super) fn access_counts(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(accesses, hits), shard| {
            let shard = shard.lock();
            (accesses + shard.accesses, hits + shard.hits)
        })
    }
}

impl Shard {
    fn home(&self, page: PageNumber) -> usize {
        (hash(page) >> 20) as usize & (self.entries.len() - 1)
    }

    fn find(&self, page: PageNumber) -> Option<usize> {
        let mask = self.entries.len() - 1;
        let mut place = self.home(page);
        loop {
            let entry = self.entries[place];
            if entry == EMPTY {
                return None;
            }
            if (entry >> 32) as u32 == page.0 {
                return Some(place);
            }
            place = (place + 1) & mask;
        }
    }

    fn insert(&mut self, entry: u64) {
        if (self.used + 1) * 2 > self.entries.len() {
            let larger = vec![EMPTY; self.entries.len() * 2].into_boxed_slice();
            for old in std::mem::replace(&mut self.entries, larger) {
                if old != EMPTY {
                    self.put(old);
                }
            }
        }
        self.put(entry);
        self.used += 1;
    }

    fn put(&mut self, entry: u64) {
        let mask = self.entries.len() - 1;
        let mut place = self.home(PageNumber((entry >> 32) as u32));
        while self.entries[place] != EMPTY {
            place = (place + 1) & mask;
        }
        self.entries[place] = entry;
    }

    fn remove(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        self.used -= 1;
        let mut place = hole;
        loop {
            self.entries[hole] = EMPTY;
            loop {
                place = (place + 1) & mask;
                let entry = self.entries[place];
                if entry == EMPTY {
                    return;
                }
                let home = self.home(PageNumber((entry >> 32) as u32));
                // The entry may move back to the hole unless its home index is after the hole.
                if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                    self.entries[hole] = entry;
                    hole = place;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_as_a_map() {
        let table = PageTable::new(64);
        let mut model = BTreeMap::new();
        let mut rng = entresol_runtime::rng::Rng::new(1);
        for step in 0..50_000u32 {
            let random = rng.next_u64();
            let page = PageNumber((random >> 33) as u32 % 300);
            if random >> 20 & 1 == 0 && model.len() < 200 {
                let expected = model.get(&page).copied();
                match table.insert_or(page, FrameId(step), |_| ()) {
                    Ok(()) => assert_eq!(model.insert(page, step), None),
                    Err(found) => assert_eq!(Some(found.0), expected),
                }
            } else {
                table.remove(page);
                model.remove(&page);
            }
            let probe = PageNumber((random >> 40) as u32 % 300);
            assert_eq!(table.peek_and(probe, |frame| frame.0), model.get(&probe).copied());
        }
        assert!(model.len() > 50);
    }
}

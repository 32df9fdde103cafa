//! The part of the mapping table that an SSD keeps in its own memory (DFTL: Gupta, Kim, Urgaonkar, ASPLOS
//! 2009).
//!
//! The table from logical to physical pages is on flash, in *translation pages*; the controller keeps the
//! recently used ones. Accesses that spread over more pages miss: an extra flash read, and an extra program
//! when the replaced translation page is dirty. So the cost grows with the region of the accesses (FaCE §5.3:
//! "the randomness becomes higher as the data region of writes is extended").
//!
//! Invariant: at most `capacity` translation pages are resident. Replacement is CLOCK.

const ABSENT: u8 = 0;
const RESIDENT: u8 = 1;
const REFERENCED: u8 = 2;
const DIRTY: u8 = 4;

/// The outcome of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    Hit,
    /// The translation page had to be read; `evicted` is a dirty one that had to be written back for it.
    Miss {
        evicted: Option<u32>,
    },
}

pub(super) struct MapCache {
    flags: Vec<u8>,
    ring: Vec<u32>,
    hand: usize,
    capacity: usize,
}

impl MapCache {
    /// An empty cache of up to `capacity` of the `pages` translation pages.
    pub fn new(pages: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { flags: vec![ABSENT; pages], ring: Vec::with_capacity(capacity.min(pages)), hand: 0, capacity }
    }

    pub fn access(&mut self, page: u32, is_write: bool) -> Lookup {
        let mark = REFERENCED | if is_write { DIRTY } else { 0 };
        let flags = &mut self.flags[page as usize];
        if *flags & RESIDENT != 0 {
            *flags |= mark;
            return Lookup::Hit;
        }
        *flags = RESIDENT | mark;
        if self.ring.len() < self.capacity {
            self.ring.push(page);
            return Lookup::Miss { evicted: None };
        }
        loop {
            let victim = self.ring[self.hand];
            let flags = &mut self.flags[victim as usize];
            if *flags & REFERENCED == 0 {
                let evicted = (*flags & DIRTY != 0).then_some(victim);
                *flags = ABSENT;
                self.ring[self.hand] = page;
                self.hand = (self.hand + 1) % self.ring.len();
                return Lookup::Miss { evicted };
            }
            *flags &= !REFERENCED;
            self.hand = (self.hand + 1) % self.ring.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_its_capacity_and_writes_back_only_what_is_dirty() {
        let mut cache = MapCache::new(10, 2);
        assert_eq!(cache.access(0, true), Lookup::Miss { evicted: None });
        assert_eq!(cache.access(1, false), Lookup::Miss { evicted: None });
        assert_eq!(cache.access(0, false), Lookup::Hit);
        assert_eq!(cache.access(2, false), Lookup::Miss { evicted: Some(0) });
        assert_eq!(cache.access(3, false), Lookup::Miss { evicted: None });
        assert_eq!(cache.access(2, false), Lookup::Hit);
        assert_eq!(cache.access(1, false), Lookup::Miss { evicted: None });
    }
}

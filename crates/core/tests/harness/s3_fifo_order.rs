//! The naive forms of S3-FIFO, and of the ghosts.

use super::orders::place;
use super::slots_model::{Decision, Facts, Order};
use entresol_core::{Config, PageId};
use std::collections::{BTreeMap, VecDeque};

/// Remembered pages: sets of eight, of which the oldest is forgotten first.
pub struct Ghosts<T> {
    sets: u64,
    /// By set: fingerprint and note, from the newest to the oldest.
    entries: BTreeMap<u64, VecDeque<(u16, T)>>,
}

impl<T: Copy> Ghosts<T> {
    pub fn new(pages: u32) -> Self {
        Self { sets: u64::from(pages).div_ceil(8).max(1), entries: BTreeMap::new() }
    }

    fn fingerprint(page: PageId) -> u16 {
        let hash = (page.0 ^ page.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((hash >> 48) as u16).max(1)
    }

    fn set(&mut self, page: PageId) -> &mut VecDeque<(u16, T)> {
        self.entries.entry(place(page.0, self.sets)).or_default()
    }

    pub fn note(&mut self, page: PageId) -> Option<&mut T> {
        let wanted = Self::fingerprint(page);
        self.set(page).iter_mut().find(|(fingerprint, _)| *fingerprint == wanted).map(|(_, note)| note)
    }

    pub fn take(&mut self, page: PageId) -> Option<T> {
        let note = self.note(page).copied();
        self.set(page).retain(|(fingerprint, _)| *fingerprint != Self::fingerprint(page));
        note
    }

    /// The note in a word of the table, whose sets have eight words each.
    pub fn in_word(&self, word: u64) -> Option<&T> {
        let set = self.entries.get(&(word / 8))?;
        set.get(word as usize % 8).map(|(_, note)| note)
    }

    /// Gives the note that is forgotten for this one.
    pub fn remember(&mut self, page: PageId, note: T) -> Option<T> {
        let before = self.take(page);
        let set = self.set(page);
        set.push_front((Self::fingerprint(page), note));
        if set.len() > 8 { set.pop_back().map(|(_, note)| note) } else { before }
    }
}

/// Two queues, fetches of their pages counted, and the ghosts of those that left the small one.
pub struct S3FifoOrder {
    slots: u64,
    small: VecDeque<PageId>,
    main: VecDeque<PageId>,
    freq: BTreeMap<PageId, u32>,
    ghosts: Ghosts<()>,
}

impl S3FifoOrder {
    pub fn new(config: &Config) -> Self {
        Self {
            slots: config.slots.into(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            freq: BTreeMap::new(),
            ghosts: Ghosts::new(config.slots),
        }
    }

    fn victim_in_small(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        loop {
            let at = self.small.iter().position(|page| !busy(*page))?;
            let page = self.small[at];
            if self.freq[&page] <= 1 {
                return Some(page);
            }
            self.small.remove(at);
            self.main.push_back(page);
            self.freq.insert(page, 0);
        }
    }

    fn victim_in_main(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        loop {
            let at = self.main.iter().position(|page| !busy(*page))?;
            let page = self.main[at];
            let freq = self.freq.get_mut(&page).expect("it is in the queue");
            if *freq == 0 {
                return Some(page);
            }
            *freq -= 1;
            self.main.remove(at);
            self.main.push_back(page);
        }
    }
}

impl Order for S3FifoOrder {
    fn arrives(&mut self, _page: PageId, _free: i64, _busy: &dyn Fn(PageId) -> bool) -> bool {
        false
    }

    fn admits(&mut self, _page: PageId, facts: &Facts) -> Decision {
        if facts.fdirty || !facts.there { Decision::Enter } else { Decision::There }
    }

    fn hit(&mut self, page: PageId, resident: bool) {
        if resident {
            let freq = self.freq.get_mut(&page).expect("it is in a queue");
            *freq = (*freq + 1).min(3);
        }
    }

    fn entered(&mut self, page: PageId) {
        let queue = if self.ghosts.take(page).is_some() { &mut self.main } else { &mut self.small };
        queue.push_back(page);
        self.freq.insert(page, 0);
    }

    fn overwritten(&mut self, _page: PageId) {}

    fn left(&mut self, page: PageId) {
        if self.small.contains(&page) {
            self.ghosts.remember(page, ());
        }
        self.small.retain(|p| *p != page);
        self.main.retain(|p| *p != page);
        self.freq.remove(&page);
    }

    fn victim(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        let small_is_full = self.small.len() as u64 >= self.slots / 10;
        let first = if small_is_full { self.victim_in_small(busy) } else { None };
        first.or_else(|| self.victim_in_main(busy)).or_else(|| self.victim_in_small(busy))
    }
}

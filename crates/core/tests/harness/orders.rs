//! The naive forms of the policies with slot placement: which page is evicted first, and which may enter.
//! Lists are vectors, searches are linear, nothing is lazy.

use super::slots_model::Order;
use entresol_core::{Config, PageId, PolicyKind};
use std::collections::BTreeMap;

/// The known facts of a page that is evicted.
pub struct Facts {
    /// A version of it is staged or on flash.
    pub there: bool,
    /// The position of its newest version in staging.
    pub staged: Option<u64>,
    /// The newest version of it in the cache was dirty, and the page is taken.
    pub was_dirty: bool,
    pub dirty: bool,
    pub fdirty: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    Enter,
    There,
    Bypass,
}

/// The naive form of the policy of `config`.
pub fn order_of(config: &Config) -> Box<dyn Order> {
    match config.policy {
        PolicyKind::Lc => Box::new(super::lc_order::LcOrder::new(config)),
        PolicyKind::Tac => Box::new(Tac::new(config)),
        PolicyKind::Flashcache => Box::new(Sets::new(config)),
        PolicyKind::Exadata => Box::new(Queue::new(Admits::Clean, Use::Moves)),
        PolicyKind::Loc => Box::new(Queue::new(Admits::Overwrites, Use::Moves)),
        PolicyKind::Glb => Box::new(Queue::new(Admits::OnExit, Use::Moves)),
        PolicyKind::Lru => Box::new(Queue::new(Admits::Changed, Use::Moves)),
        PolicyKind::Fifo => Box::new(Queue::new(Admits::Changed, Use::Nothing)),
        PolicyKind::Clock => Box::new(Queue::new(Admits::Changed, Use::Marks)),
        PolicyKind::Sieve => Box::new(Sieve::default()),
        PolicyKind::S3Fifo => Box::new(super::s3_fifo_order::S3FifoOrder::new(config)),
        PolicyKind::ReuseSlots => Box::new(super::reuse_order::ReuseOrder::new(config)),
        PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc | PolicyKind::Reuse => {
            unreachable!("these have a log")
        }
    }
}

/// The pages that a policy admits.
#[derive(Clone, Copy, PartialEq)]
enum Admits {
    /// From DRAM: all that are absent.
    OnExit,
    /// From disk; and changed ones.
    Changed,
    /// From disk; and changed ones, but only to overwrite their older version.
    Overwrites,
    /// As `Overwrites`, if they were written to disk.
    Clean,
}

impl Admits {
    fn decision(self, facts: &Facts) -> Decision {
        let Facts { there, dirty, fdirty, .. } = *facts;
        let enters = match self {
            Admits::OnExit => fdirty || !there,
            Admits::Changed => fdirty,
            Admits::Overwrites => fdirty && there,
            Admits::Clean => fdirty && there && !dirty,
        };
        match (enters, there && !fdirty) {
            (true, _) => Decision::Enter,
            (false, true) => Decision::There,
            (false, false) => Decision::Bypass,
        }
    }
}

/// The effect of a use on a page's place.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Nothing,
    Moves,
    Marks,
}

/// One queue: LRU, FIFO, CLOCK, and those that differ in what they admit.
struct Queue {
    admits: Admits,
    uses: Use,
    queue: Vec<(PageId, bool)>,
}

impl Queue {
    fn new(admits: Admits, uses: Use) -> Self {
        Self { admits, uses, queue: Vec::new() }
    }

    fn used(&mut self, page: PageId) {
        let at = self.queue.iter().position(|(p, _)| *p == page).expect("it is in the queue");
        match self.uses {
            Use::Nothing => {}
            Use::Marks => self.queue[at].1 = true,
            Use::Moves => {
                let entry = self.queue.remove(at);
                self.queue.push(entry);
            }
        }
    }
}

impl Order for Queue {
    fn arrives(&mut self, _page: PageId, _free: i64, _busy: &dyn Fn(PageId) -> bool) -> bool {
        self.admits != Admits::OnExit
    }
    fn admits(&mut self, page: PageId, facts: &Facts) -> Decision {
        let decision = self.admits.decision(facts);
        if self.admits == Admits::OnExit
            && decision == Decision::There
            && self.queue.iter().any(|(p, _)| *p == page)
        {
            self.used(page);
        }
        decision
    }
    fn hit(&mut self, page: PageId, resident: bool) {
        if resident {
            self.used(page);
        }
    }
    fn entered(&mut self, page: PageId) {
        self.queue.push((page, false));
    }
    fn overwritten(&mut self, page: PageId) {
        self.used(page);
    }
    fn left(&mut self, page: PageId) {
        self.queue.retain(|(p, _)| *p != page);
    }
    fn victim(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        // At most two rounds: a page that is passed the first time is the victim the second time.
        for _ in 0..2 * self.queue.len() {
            let at = self.queue.iter().position(|(page, _)| !busy(*page))?;
            if !self.queue[at].1 {
                return Some(self.queue[at].0);
            }
            let (page, _) = self.queue.remove(at);
            self.queue.push((page, false));
        }
        None
    }
}

/// SIEVE: a queue whose pages stay where they are, and a hand.
#[derive(Default)]
struct Sieve {
    /// Oldest first; with whether the page was visited.
    queue: Vec<(PageId, bool)>,
    /// `None`: before the oldest.
    hand: Option<PageId>,
}

impl Sieve {
    fn visited(&mut self, page: PageId) {
        self.queue.iter_mut().filter(|(p, _)| *p == page).for_each(|(_, visited)| *visited = true);
    }
}

impl Order for Sieve {
    fn arrives(&mut self, _page: PageId, _free: i64, _busy: &dyn Fn(PageId) -> bool) -> bool {
        true
    }
    fn admits(&mut self, _page: PageId, facts: &Facts) -> Decision {
        Admits::Changed.decision(facts)
    }
    fn hit(&mut self, page: PageId, resident: bool) {
        if resident {
            self.visited(page);
        }
    }
    fn entered(&mut self, page: PageId) {
        self.queue.push((page, false));
    }
    fn overwritten(&mut self, page: PageId) {
        self.visited(page);
    }
    fn left(&mut self, page: PageId) {
        let at = self.queue.iter().position(|(p, _)| *p == page).expect("it is in the queue");
        self.queue.remove(at);
        if self.hand == Some(page) {
            self.hand = self.queue.get(at).map(|(next, _)| *next);
        }
    }
    fn victim(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        if self.queue.iter().all(|(page, _)| busy(*page)) {
            return None;
        }
        let mut at = self.queue.iter().position(|(p, _)| Some(*p) == self.hand).unwrap_or(0);
        loop {
            let (page, visited) = &mut self.queue[at];
            if !busy(*page) && !std::mem::take(visited) {
                self.hand = Some(*page);
                return self.hand;
            }
            at = (at + 1) % self.queue.len();
        }
    }
}

/// The place of a key in the core's tables.
pub fn place(key: u64, places: u64) -> u64 {
    let hash = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32).wrapping_mul(places) >> 32
}

/// flashcache: a FIFO for each set.
struct Sets {
    slots: u64,
    set_slots: u64,
    sets: Vec<Vec<PageId>>,
    cursor: Option<PageId>,
}

impl Sets {
    fn new(config: &Config) -> Self {
        let (slots, set_slots) = (config.slots as u64, config.set_slots as u64);
        Self { slots, set_slots, sets: vec![Vec::new(); (slots / set_slots).max(1) as usize], cursor: None }
    }
    fn set(&self, page: PageId) -> usize {
        place(page.0 / self.set_slots, self.sets.len() as u64) as usize
    }
    /// The slots of the set: the last one has the remaining slots too.
    fn size(&self, set: usize) -> u64 {
        let last = set + 1 == self.sets.len();
        if last { self.slots - set as u64 * self.set_slots } else { self.set_slots }
    }
}

impl Order for Sets {
    fn arrives(&mut self, _page: PageId, _free: i64, _busy: &dyn Fn(PageId) -> bool) -> bool {
        true
    }
    fn admits(&mut self, _page: PageId, facts: &Facts) -> Decision {
        Admits::Changed.decision(facts)
    }
    fn hit(&mut self, _page: PageId, _resident: bool) {}
    fn entered(&mut self, page: PageId) {
        let set = self.set(page);
        self.sets[set].push(page);
    }
    fn overwritten(&mut self, _page: PageId) {}
    fn left(&mut self, page: PageId) {
        let set = self.set(page);
        let at = self.sets[set].iter().position(|p| *p == page).expect("it is in its set");
        self.sets[set].remove(at);
        if self.cursor == Some(page) {
            self.cursor = self.sets[set].get(at).copied();
        }
    }
    fn victim_for(&mut self, page: PageId, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        self.sets[self.set(page)].iter().copied().find(|p| !busy(*p))
    }
    fn ahead(&self, _staged: u64) -> u64 {
        0
    }
    fn group(&self, page: PageId) -> Option<(usize, u64)> {
        let set = self.set(page);
        Some((set, self.size(set)))
    }
    fn clean(&mut self, dirty_idle: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        let first = self.cursor.map_or(0, |page| self.set(page));
        let sets = (first..self.sets.len()).chain(0..first);
        let found = sets.flat_map(|set| &self.sets[set]).copied().find(|page| dirty_idle(*page));
        self.cursor = found;
        found
    }
}

/// TAC: exact temperatures by region, and the order in which pages reached their present temperature.
struct Tac {
    slots: u64,
    temperatures: BTreeMap<u64, u64>,
    references: u64,
    /// In the order of their lists: temperature when last filed, and page.
    lists: Vec<Vec<PageId>>,
}

const CLASSES: usize = 1024;

impl Tac {
    fn new(config: &Config) -> Self {
        let slots = config.slots as u64;
        Self { slots, temperatures: BTreeMap::new(), references: 0, lists: vec![Vec::new(); CLASSES] }
    }
    fn class(&self, page: PageId) -> usize {
        let region = place(page.0 / 32, self.slots);
        (self.temperatures.get(&region).copied().unwrap_or(0) as usize).min(CLASSES - 1)
    }
    fn warm(&mut self, page: PageId) {
        *self.temperatures.entry(place(page.0 / 32, self.slots)).or_default() += 1;
        self.references += 1;
        if self.references == 16 * self.slots {
            self.references = 0;
            self.temperatures.values_mut().for_each(|temperature| *temperature /= 2);
            for class in 1..CLASSES {
                let pages = std::mem::take(&mut self.lists[class]);
                self.lists[class / 2].extend(pages);
            }
        }
    }
    /// Files pages that have become warmer, coldest list first, until an idle one is where it belongs.
    fn coldest(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<(usize, PageId)> {
        for class in 0..CLASSES {
            for page in self.lists[class].clone() {
                let real = self.class(page);
                if real > class {
                    self.lists[class].retain(|p| *p != page);
                    self.lists[real].push(page);
                } else if !busy(page) {
                    // No idle page is colder.
                    let coldest =
                        self.lists.iter().flatten().filter(|p| !busy(**p)).map(|p| self.class(*p)).min();
                    assert_eq!(coldest, Some(class));
                    return Some((class, page));
                }
            }
        }
        None
    }
}

impl Order for Tac {
    fn arrives(&mut self, page: PageId, free: i64, busy: &dyn Fn(PageId) -> bool) -> bool {
        self.warm(page);
        if free > 0 {
            return true;
        }
        let class = self.class(page);
        self.coldest(busy).is_none_or(|(coldest, _)| class > coldest)
    }
    fn admits(&mut self, _page: PageId, facts: &Facts) -> Decision {
        Admits::Clean.decision(facts)
    }
    fn hit(&mut self, page: PageId, _resident: bool) {
        self.warm(page);
    }
    fn entered(&mut self, page: PageId) {
        let class = self.class(page);
        self.lists[class].push(page);
    }
    fn overwritten(&mut self, _page: PageId) {}
    fn left(&mut self, page: PageId) {
        self.lists.iter_mut().for_each(|list| list.retain(|p| *p != page));
    }
    fn victim_for(&mut self, _page: PageId, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        self.coldest(busy).map(|(_, page)| page)
    }
    fn ahead(&self, _staged: u64) -> u64 {
        0
    }
}

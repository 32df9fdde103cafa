//! The naive form of LRU-2 with retained history, and of the lazy cleaner.

use super::slots_model::{Decision, Facts, Order};
use entresol_core::{Config, PageId};
use std::collections::BTreeMap;

/// Number of intervals.
const INTERVALS: u64 = 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Once,
    Ancient,
    Interval(u64),
}

pub struct LcOrder {
    slots: u64,
    lists: BTreeMap<Class, Vec<PageId>>,
    last: BTreeMap<PageId, u64>,
    clock: u64,
    cursor: Option<PageId>,
    history: Vec<Option<(PageId, u64)>>,
    history_next: usize,
}

impl LcOrder {
    pub fn new(config: &Config) -> Self {
        Self {
            slots: config.slots as u64,
            lists: BTreeMap::new(),
            last: BTreeMap::new(),
            clock: 0,
            cursor: None,
            history: vec![None; config.history as usize],
            history_next: 0,
        }
    }

    fn interval(&self) -> u64 {
        (self.slots / 256).max(1)
    }

    fn oldest(&self) -> u64 {
        (self.clock / self.interval()).saturating_sub(INTERVALS - 1)
    }

    /// A reference: the clock advances, and the lists of forgotten intervals become ancient.
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        let oldest = self.oldest();
        let old = |c: &Class| matches!(c, Class::Interval(i) if *i < oldest);
        for class in self.lists.keys().copied().filter(old).collect::<Vec<_>>() {
            let pages = self.lists.remove(&class).expect("just listed");
            self.lists.entry(Class::Ancient).or_default().extend(pages);
        }
        self.clock
    }

    fn class_of(&self, penultimate: u64) -> Class {
        let interval = penultimate / self.interval();
        if interval < self.oldest() { Class::Ancient } else { Class::Interval(interval) }
    }

    fn take_out(&mut self, page: PageId) {
        for list in self.lists.values_mut() {
            if let Some(at) = list.iter().position(|p| *p == page) {
                list.remove(at);
                if self.cursor == Some(page) {
                    self.cursor = list.get(at).copied();
                }
                return;
            }
        }
        panic!("page {page} is in no list");
    }

    fn cold_to_hot(&self) -> Vec<PageId> {
        self.lists.values().flatten().copied().collect()
    }
}

impl Order for LcOrder {
    fn arrives(&mut self, _page: PageId, _free: i64, _busy: &dyn Fn(PageId) -> bool) -> bool {
        false
    }

    fn admits(&mut self, _page: PageId, facts: &Facts) -> Decision {
        if facts.fdirty || !facts.there { Decision::Enter } else { Decision::There }
    }

    fn hit(&mut self, page: PageId, resident: bool) {
        if !resident {
            return;
        }
        let now = self.tick();
        self.take_out(page);
        let class = self.class_of(self.last[&page]);
        self.lists.entry(class).or_default().push(page);
        self.last.insert(page, now);
    }

    fn entered(&mut self, page: PageId) {
        let now = self.tick();
        let remembered = self.history.iter_mut().find(|h| matches!(h, Some((p, _)) if *p == page));
        let class = match remembered.and_then(|h| h.take()) {
            Some((_, last)) => self.class_of(last),
            None => Class::Once,
        };
        self.lists.entry(class).or_default().push(page);
        self.last.insert(page, now);
    }

    fn overwritten(&mut self, _page: PageId) {}

    fn left(&mut self, page: PageId) {
        self.take_out(page);
        let last = self.last.remove(&page).expect("resident");
        if !self.history.is_empty() {
            let at = self.history_next;
            self.history[at] = Some((page, last));
            self.history_next = (at + 1) % self.history.len();
        }
    }

    fn victim(&mut self, busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        self.cold_to_hot().into_iter().find(|page| !busy(*page))
    }

    fn clean(&mut self, dirty_idle: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        let order = self.cold_to_hot();
        let from = self
            .cursor
            .map_or(0, |page| order.iter().position(|p| *p == page).expect("the cursor is resident"));
        let wanted = |page: &&PageId| dirty_idle(**page);
        let found = order[from..].iter().find(wanted).or_else(|| order.iter().find(wanted)).copied();
        self.cursor = found;
        found
    }
}

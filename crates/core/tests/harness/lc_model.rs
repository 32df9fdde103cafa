//! The naive model of Lazy Cleaning: lists are vectors, searches are linear.

use super::Model;
use entresol_core::{
    Admission, Config, Fate, Generation, Job, JobPage, Lookup, Occupancy, PageId, Position, SlotId,
};
use std::collections::BTreeMap;

/// Intervals that are told apart.
const INTERVALS: u64 = 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Once,
    Ancient,
    Interval(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Filling,
    Ready,
    Writing,
}

struct Staged {
    page: PageId,
    dirty: bool,
    state: State,
}

#[derive(Clone, Copy)]
struct Resident {
    slot: u32,
    dirty: bool,
    busy: bool,
    last: u64,
    generation: u8,
}

pub struct LcModel {
    config: Config,
    staged: BTreeMap<u64, Staged>,
    staged_front: u64,
    rear: u64,
    /// Before this position even overtaken versions are written.
    close_at: u64,
    resident: BTreeMap<PageId, Resident>,
    lists: BTreeMap<Class, Vec<PageId>>,
    clock: u64,
    cursor: Option<PageId>,
    history: Vec<Option<(PageId, u64)>>,
    history_next: usize,
    free: u32,
    dequeuing: u32,
    pub recalled: usize,
}

impl LcModel {
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            staged: BTreeMap::new(),
            staged_front: 0,
            rear: 0,
            close_at: 0,
            resident: BTreeMap::new(),
            lists: BTreeMap::new(),
            clock: 0,
            cursor: None,
            history: vec![None; config.history as usize],
            history_next: 0,
            free: config.slots,
            dequeuing: 0,
            recalled: 0,
        }
    }

    fn interval(&self) -> u64 {
        (self.config.slots as u64 / 256).max(1)
    }

    fn oldest(&self) -> u64 {
        (self.clock / self.interval()).saturating_sub(INTERVALS - 1)
    }

    /// A reference: time goes on, the lists of forgotten intervals become ancient.
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

    fn newest_staged(&self, page: PageId) -> Option<u64> {
        self.staged.iter().rev().find(|(_, s)| s.page == page).map(|(position, _)| *position)
    }

    fn retire(&mut self) {
        while self.staged_front < self.rear && !self.staged.contains_key(&self.staged_front) {
            self.staged_front += 1;
        }
    }

    fn drop_page(&mut self, page: PageId) {
        let last = self.resident[&page].last;
        self.take_out(page);
        self.resident.remove(&page);
        self.free += 1;
        if !self.history.is_empty() {
            let at = self.history_next;
            self.history[at] = Some((page, last));
            self.history_next = (at + 1) % self.history.len();
        }
    }

    fn enters(&mut self, page: PageId, resident: Resident) {
        let now = self.tick();
        let remembered = self.history.iter_mut().find(|h| matches!(h, Some((p, _)) if *p == page));
        let class = match remembered.and_then(|h| h.take()) {
            Some((_, last)) => {
                self.recalled += 1;
                self.class_of(last)
            }
            None => Class::Once,
        };
        self.lists.entry(class).or_default().push(page);
        self.resident.insert(page, Resident { last: now, ..resident });
    }

    /// Which page the next write job must write; forgets overtaken ones on the way.
    fn next_write(&mut self) -> Option<u64> {
        let mut dead = Vec::new();
        let mut found = None;
        for (position, staged) in &self.staged {
            if staged.state != State::Ready {
                continue;
            }
            if self.newest_staged(staged.page) != Some(*position) && *position >= self.close_at {
                dead.push(*position);
                continue;
            }
            let writing = self
                .staged
                .range(..position)
                .any(|(_, s)| s.page == staged.page && s.state == State::Writing);
            let resident = self.resident.get(&staged.page);
            if writing || resident.map_or(self.free == 0, |r| r.busy) {
                continue;
            }
            found = Some(*position);
            break;
        }
        for position in dead {
            self.staged.remove(&position);
        }
        self.retire();
        found
    }

    /// Empties clean victims; the dirty one that must be dequeued next.
    fn next_victim(&mut self) -> Option<PageId> {
        while self.free + self.dequeuing < 32.min(self.config.slots / 8) {
            let page = self.cold_to_hot().into_iter().find(|p| !self.resident[p].busy)?;
            if self.resident[&page].dirty {
                return Some(page);
            }
            self.drop_page(page);
        }
        None
    }

    fn next_to_clean(&mut self) -> Option<PageId> {
        let dirty = self.resident.values().filter(|r| r.dirty).count() as u64;
        if dirty <= self.config.slots as u64 * self.config.dirty_permille_max as u64 / 1000 {
            return None;
        }
        let order = self.cold_to_hot();
        let from = self
            .cursor
            .map_or(0, |page| order.iter().position(|p| *p == page).expect("the cursor is resident"));
        let wanted = |p: &&PageId| self.resident[p].dirty && !self.resident[p].busy;
        let found = order[from..].iter().find(wanted).or_else(|| order.iter().find(wanted)).copied();
        self.cursor = found;
        found
    }

    fn start_copy(&mut self, page: PageId, pages: &[JobPage], fate: Fate) {
        let resident = self.resident.get_mut(&page).expect("resident");
        assert_eq!(pages.len(), 1);
        assert_eq!((pages[0].page, pages[0].slot.0), (Some(page), resident.slot));
        assert_eq!((pages[0].dirty, pages[0].fate), (resident.dirty, fate));
        assert_eq!(pages[0].generation, Generation::LowByte(resident.generation));
        assert!(!resident.busy);
        resident.busy = true;
    }
}

impl Model for LcModel {
    fn close_group(&mut self) {
        self.close_at = self.rear;
    }

    fn fetch(&mut self, page: PageId, found: &Lookup) {
        if let Some(position) = self.newest_staged(page) {
            let Lookup::Staged { position: p, dirty, .. } = found else { panic!("page {page} is staged") };
            assert_eq!((p.0, *dirty), (position, self.staged[&position].dirty));
            return;
        }
        let Some(resident) = self.resident.get(&page).copied() else {
            assert_eq!(*found, Lookup::Absent);
            return;
        };
        let generation = Generation::LowByte(resident.generation);
        assert_eq!(*found, Lookup::Flash { slot: SlotId(resident.slot), generation, dirty: resident.dirty });
        let now = self.tick();
        self.take_out(page);
        let class = self.class_of(resident.last);
        self.lists.entry(class).or_default().push(page);
        self.resident.get_mut(&page).expect("resident").last = now;
    }

    fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool, got: Admission) {
        let enters = fdirty || (self.newest_staged(page).is_none() && !self.resident.contains_key(&page));
        match got {
            Admission::AlreadyThere => assert!(!enters),
            Admission::Full => {
                assert!(enters);
                assert_eq!(
                    self.rear - self.staged_front,
                    self.config.staging_pages() as u64,
                    "staging is full"
                );
            }
            Admission::Stage { frame, position } => {
                assert!(enters);
                assert_eq!(
                    (position.0, frame.0 as u64),
                    (self.rear, self.rear % self.config.staging_pages() as u64)
                );
                self.staged.insert(self.rear, Staged { page, dirty, state: State::Filling });
                self.rear += 1;
            }
        }
    }

    fn job(&mut self, job: Option<&Job>, writes_only: bool) {
        if let Some(position) = self.next_write() {
            let Some(Job::Write { pages, one_io: false, .. }) = job else {
                panic!("position {position} is to be written")
            };
            let page = self.staged[&position].page;
            assert_eq!((pages.len(), pages[0].position.0, pages[0].page), (1, position, Some(page)));
            match self.resident.get_mut(&page) {
                Some(resident) => {
                    assert_eq!(pages[0].slot.0, resident.slot, "written to its slot");
                    resident.busy = true;
                }
                None => self.free -= 1,
            }
            self.staged.get_mut(&position).expect("staged").state = State::Writing;
            return;
        }
        if writes_only {
            assert!(job.is_none());
            return;
        }
        if let Some(page) = self.next_victim() {
            let Some(Job::Dequeue { pages, one_io: false, .. }) = job else {
                panic!("page {page} is the victim")
            };
            self.start_copy(page, pages, Fate::Destage);
            self.dequeuing += 1;
            return;
        }
        if let Some(page) = self.next_to_clean() {
            let Some(Job::Clean { pages }) = job else { panic!("page {page} is to be cleaned") };
            self.start_copy(page, pages, Fate::Destage);
            return;
        }
        assert!(job.is_none(), "nothing is to be done, but: {job:?}");
    }

    fn staged(&mut self, frame: u32) {
        let frames = self.config.staging_pages() as u64;
        let found = self.staged.iter_mut().find(|(position, _)| **position % frames == frame as u64);
        let (_, staged) = found.expect("a frame that was given out");
        assert_eq!(staged.state, State::Filling);
        staged.state = State::Ready;
    }

    fn written(&mut self, pages: &[JobPage]) {
        let page = &pages[0];
        let staged = self.staged.remove(&page.position.0).expect("staged");
        assert_eq!(staged.state, State::Writing);
        let generation = page.position.0 as u8;
        let (slot, dirty) = (page.slot.0, staged.dirty);
        match self.resident.get_mut(&staged.page) {
            Some(resident) => *resident = Resident { dirty, busy: false, generation, ..*resident },
            None => self.enters(staged.page, Resident { slot, dirty, busy: false, last: 0, generation }),
        }
        self.retire();
    }

    fn restage(&mut self, _page: &JobPage, _got: Admission) {
        unreachable!("LC has no second chances")
    }

    fn dequeued(&mut self, pages: &[JobPage]) {
        self.dequeuing -= 1;
        self.drop_page(pages[0].page.expect("a page"));
    }

    fn cleaned(&mut self, pages: &[JobPage]) {
        let resident = self.resident.get_mut(&pages[0].page.expect("a page")).expect("resident");
        (resident.dirty, resident.busy) = (false, false);
    }

    fn swept(&mut self, from: SlotId, got: &Option<Result<Job, SlotId>>) {
        let candidates = self.resident.iter().filter(|(_, r)| r.dirty && r.slot >= from.0);
        let first = candidates.min_by_key(|(_, r)| r.slot).map(|(page, r)| (*page, *r));
        match (first, got) {
            (None, None) => {}
            (Some((_, r)), Some(Err(slot))) => assert_eq!((r.busy, r.slot), (true, slot.0)),
            (Some((page, _)), Some(Ok(Job::Clean { pages }))) => self.start_copy(page, pages, Fate::Destage),
            (first, got) => panic!("swept {got:?}, expected {:?}", first.map(|f| f.0)),
        }
    }

    fn restored(&mut self, _entries: &[(Position, PageId, bool)], _front: Position, _rear: Position) {
        *self = Self::new(&self.config);
    }

    fn verify(&mut self, occupancy: &Occupancy, _window: (Position, Position), published: Position) {
        assert_eq!(occupancy.valid as usize, self.resident.len());
        assert_eq!(occupancy.dirty as usize, self.resident.values().filter(|r| r.dirty).count());
        assert_eq!((occupancy.superseded, occupancy.entered, published.0), (0, self.rear, self.staged_front));
        assert!(self.history.iter().flatten().count() <= self.config.history as usize);
    }
}

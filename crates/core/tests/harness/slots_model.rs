//! The naive model of slot placement: maps and vectors. An [`Order`] decides evictions and admissions.

use super::Model;
use super::orders::order_of;
pub use super::orders::{Decision, Facts};
use entresol_core::{
    Admission, CleanPage, Cleaning, Config, Costs, DequeuePage, Flush, Forget, Forgotten, Generation, Job,
    Lookup, Occupancy, PageId, PolicyKind, Position, SlotId, Taken, WritePage,
};
use std::collections::BTreeMap;

/// A policy, naively.
pub trait Order {
    /// What the devices cost from now on.
    fn cost(&mut self, _costs: &Costs) {}
    /// Whether a page from disk may enter; `free` slots are left after all staged pages have taken one.
    fn arrives(&mut self, page: PageId, free: i64, busy: &dyn Fn(PageId) -> bool) -> bool;
    fn admits(&mut self, page: PageId, facts: &Facts) -> Decision;
    fn hit(&mut self, page: PageId, resident: bool);
    fn entered(&mut self, page: PageId);
    fn overwritten(&mut self, page: PageId);
    fn left(&mut self, page: PageId);
    /// The pages on flash, before each question.
    fn show(&mut self, _residents: &BTreeMap<PageId, Resident>) {}
    /// A page was fetched: the version staged at a position, or that on flash.
    fn fetched(&mut self, _page: PageId, _staged: Option<u64>, _dirty: bool) {}
    /// A page was fetched that is not in the cache.
    fn missed(&mut self, _page: PageId) {}
    /// A page was staged at a position; `older`: that of its newest version in staging.
    fn staged(&mut self, _page: PageId, _position: u64, _older: Option<u64>) {}
    /// The version staged at a position is on flash.
    fn written(&mut self, _page: PageId, _position: u64) {}
    /// A page does not enter.
    fn kept_out(&mut self, _page: PageId, _dirty: bool) {}
    /// A page leaves the flash; `is_newest`: no newer version is staged.
    fn leaving(&mut self, _page: PageId, _dirty: bool, _is_newest: bool) {}
    fn victim(&mut self, _busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        None
    }
    fn victim_for(&mut self, _page: PageId, _busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        None
    }
    /// Slots to keep free ahead of demand in a cache of `slots`.
    fn ahead(&self, slots: u64) -> u64 {
        32.min(slots / 8)
    }
    /// The set that the page must lie in, and its slots.
    fn group(&self, _page: PageId) -> Option<(usize, u64)> {
        None
    }
    /// The page to be copied to disk because others beside it were; `fits`: it is dirty and idle on flash,
    /// and no version of it is staged.
    fn beside(&mut self, _fits: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        None
    }
    /// The page that the cleaner takes, when too many are dirty.
    fn clean(&mut self, _dirty_idle: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameState {
    Filling,
    Ready,
    Writing,
}

struct Staged {
    page: PageId,
    dirty: bool,
    state: FrameState,
    /// The page that is destaged to make room for this one.
    waits_for: Option<PageId>,
}

#[derive(Clone, Copy)]
pub struct Resident {
    pub slot: u32,
    pub dirty: bool,
    pub busy: bool,
    generation: u8,
}

pub struct SlotsModel {
    config: Config,
    order: Box<dyn Order>,
    staged: BTreeMap<u64, Staged>,
    staged_front: u64,
    rear: u64,
    /// Overtaken versions before this position are written too.
    close_at: u64,
    resident: BTreeMap<PageId, Resident>,
    /// Writes to each slot, modulo 256.
    writes: Vec<u8>,
    /// Pages being written for the first time: each has a slot.
    new: Vec<PageId>,
    dequeuing: u64,
}

impl SlotsModel {
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            order: order_of(config),
            staged: BTreeMap::new(),
            staged_front: 0,
            rear: 0,
            close_at: 0,
            resident: BTreeMap::new(),
            writes: vec![0; config.slots as usize],
            new: Vec::new(),
            dequeuing: 0,
        }
    }

    fn free(&self) -> u64 {
        self.config.slots as u64 - self.resident.len() as u64 - self.new.len() as u64
    }

    /// Slots free for `page`.
    fn free_for(&self, page: PageId) -> u64 {
        let Some((set, size)) = self.order.group(page) else { return self.free() };
        let same = |p: &&PageId| self.order.group(**p).is_some_and(|(s, _)| s == set);
        size - self.resident.keys().filter(same).count() as u64 - self.new.iter().filter(same).count() as u64
    }

    fn newest_staged(&self, page: PageId) -> Option<u64> {
        self.staged.iter().rev().find(|(_, s)| s.page == page).map(|(position, _)| *position)
    }

    fn is_there(&self, page: PageId) -> bool {
        self.newest_staged(page).is_some() || self.resident.contains_key(&page)
    }

    fn retire(&mut self) {
        while self.staged_front < self.rear && !self.staged.contains_key(&self.staged_front) {
            self.staged_front += 1;
        }
    }

    fn drop_page(&mut self, page: PageId) {
        let (dirty, is_newest) = (self.resident[&page].dirty, self.newest_staged(page).is_none());
        self.order.leaving(page, dirty, is_newest);
        self.order.left(page);
        self.resident.remove(&page);
    }

    /// The dirty page to be emptied for `page`. A clean one is emptied at once.
    fn make_room_for(&mut self, page: PageId) -> Option<PageId> {
        let resident = &self.resident;
        let victim = self.order.victim_for(page, &|p| resident[&p].busy)?;
        if self.resident[&victim].dirty {
            return Some(victim);
        }
        self.drop_page(victim);
        None
    }

    /// The page that the next write job must write. Forgets overtaken ones before it.
    fn next_write(&mut self) -> Option<u64> {
        let mut found = None;
        for position in self.staged.keys().copied().collect::<Vec<_>>() {
            let staged = &self.staged[&position];
            if staged.state != FrameState::Ready {
                continue;
            }
            let page = staged.page;
            if self.newest_staged(page) != Some(position) && position >= self.close_at {
                self.staged.remove(&position);
                continue;
            }
            let writing =
                self.staged.range(..position).any(|(_, s)| s.page == page && s.state == FrameState::Writing);
            if writing || self.resident.get(&page).is_some_and(|r| r.busy) {
                continue;
            }
            if !self.resident.contains_key(&page) && self.free_for(page) == 0 {
                self.make_room_for(page);
                if self.free_for(page) == 0 {
                    continue;
                }
            }
            found = Some(position);
            break;
        }
        self.retire();
        found
    }

    /// Empties clean victims. Returns the dirty one that must be dequeued next.
    fn next_victim(&mut self) -> Option<PageId> {
        while self.free() + self.dequeuing < self.order.ahead(self.config.slots as u64) {
            let resident = &self.resident;
            self.order.show(resident);
            let page = self.order.victim(&|p| resident[&p].busy)?;
            if self.resident[&page].dirty {
                return Some(page);
            }
            self.drop_page(page);
        }
        None
    }

    /// A dirty page that blocks a staged one.
    fn next_in_the_way(&mut self) -> Option<PageId> {
        for position in self.staged.keys().copied().collect::<Vec<_>>() {
            let Staged { page, state, waits_for, .. } = self.staged[&position];
            let newest = self.newest_staged(page) == Some(position);
            let writing =
                self.staged.range(..position).any(|(_, s)| s.page == page && s.state == FrameState::Writing);
            if state != FrameState::Ready || waits_for.is_some() || !newest || writing {
                continue;
            }
            self.order.group(page)?;
            if self.resident.contains_key(&page) || self.free_for(page) > 0 {
                continue;
            }
            let resident = &self.resident;
            let victim = self.order.victim_for(page, &|p| resident[&p].busy);
            if let Some(victim) = victim.filter(|p| self.resident[p].dirty) {
                self.staged.get_mut(&position).expect("staged").waits_for = Some(victim);
                return Some(victim);
            }
        }
        None
    }

    fn next_to_clean(&mut self) -> Option<PageId> {
        let is_staged = |page| self.staged.values().any(|s| s.page == page);
        let fits = |page| self.resident.get(&page).is_some_and(|r| r.dirty && !r.busy) && !is_staged(page);
        if let Some(page) = self.order.beside(&fits) {
            return Some(page);
        }
        let dirty = self.resident.values().filter(|r| r.dirty).count() as u64;
        if dirty <= self.config.slots as u64 * self.config.dirty_permille_max as u64 / 1000 {
            return None;
        }
        let resident = &self.resident;
        self.order.clean(&|page| resident[&page].dirty && !resident[&page].busy)
    }

    /// The page must have been given the next frame, if there is a free one.
    fn enters(&mut self, page: PageId, dirty: bool, got: Admission) {
        let frames = self.config.staging_pages() as u64;
        if self.rear - self.staged_front == frames {
            assert_eq!(got, Admission::Full, "staging is full");
            return;
        }
        let Admission::Stage { frame, position } = got else { panic!("page {page} enters, but {got:?}") };
        self.order.staged(page, position.0, self.newest_staged(page));
        assert_eq!((position.0, frame.0 as u64), (self.rear, self.rear % frames));
        self.staged.insert(self.rear, Staged { page, dirty, state: FrameState::Filling, waits_for: None });
        self.rear += 1;
    }

    /// Whether an operation on a copy of the page is under way.
    fn is_busy(&self, page: PageId) -> bool {
        let staged = self.staged.values().any(|s| s.page == page && s.state != FrameState::Ready);
        staged || self.resident.get(&page).is_some_and(|r| r.busy)
    }

    /// Whether the newest copy of the page is dirty.
    fn is_dirty(&self, page: PageId) -> bool {
        match self.newest_staged(page) {
            Some(position) => self.staged[&position].dirty,
            None => self.resident.get(&page).is_some_and(|r| r.dirty),
        }
    }

    /// Forgets the page; `None` while an operation on a copy of it is under way.
    fn forget(&mut self, page: PageId) -> Option<bool> {
        let there = self.is_there(page);
        if self.is_busy(page) {
            return None;
        }
        self.staged.retain(|_, s| s.page != page);
        if self.resident.contains_key(&page) {
            self.drop_page(page);
        }
        self.retire();
        Some(there)
    }

    fn start_copy(&mut self, page: PageId, copy: &CleanPage) {
        let resident = self.resident.get_mut(&page).expect("resident");
        assert_eq!((copy.page, copy.slot.0), (page, resident.slot));
        assert_eq!(copy.generation, Generation::LowByte(resident.generation));
        assert!(resident.dirty && !resident.busy);
        resident.busy = true;
    }
}

impl Model for SlotsModel {
    fn close_group(&mut self) {
        self.close_at = self.rear;
    }

    fn fetch(&mut self, page: PageId, found: &Lookup) {
        self.order.show(&self.resident);
        if let Some(position) = self.newest_staged(page) {
            let Lookup::Staged { position: p, dirty, .. } = found else { panic!("page {page} is staged") };
            assert_eq!((p.0, *dirty), (position, self.is_dirty(page)));
            self.order.fetched(page, Some(position), *dirty);
            self.order.hit(page, false);
            return;
        }
        let Some(Resident { slot, dirty, generation, .. }) = self.resident.get(&page).copied() else {
            assert_eq!(*found, Lookup::Absent);
            self.order.missed(page);
            return;
        };
        let generation = Generation::LowByte(generation);
        assert_eq!(*found, Lookup::Flash { slot: SlotId(slot), generation, dirty });
        self.order.fetched(page, None, dirty);
        self.order.hit(page, true);
    }

    fn arrived(&mut self, page: PageId, got: Admission) {
        if self.is_there(page) {
            assert_eq!(got, Admission::AlreadyThere);
            return;
        }
        let free = self.free() as i64 - (self.rear - self.staged_front) as i64;
        let resident = &self.resident;
        if self.order.arrives(page, free, &|p| resident[&p].busy) {
            self.enters(page, false, got);
        } else {
            assert_eq!(got, Admission::Bypass { stale: false });
        }
    }

    fn bypassed(&mut self, page: PageId, got: Admission) {
        match self.forget(page) {
            None => assert_eq!(got, Admission::Full),
            Some(stale) => assert_eq!(got, Admission::Bypass { stale }),
        }
    }

    fn taken(&mut self, page: PageId, got: Taken) {
        if self.config.policy != PolicyKind::Glb {
            assert_eq!(got, Taken::Copied);
            return;
        }
        let (dirty, moved) = (self.is_dirty(page), self.forget(page) == Some(true));
        assert_eq!(got, if moved { Taken::Moved { dirty } } else { Taken::Copied });
    }

    fn cost(&mut self, costs: &Costs) {
        self.order.cost(costs);
    }

    fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool, got: Admission) {
        let (there, was_dirty) = (self.is_there(page), self.is_dirty(page) && got != Admission::Full);
        let facts = Facts { there, staged: self.newest_staged(page), was_dirty, dirty, fdirty };
        self.order.show(&self.resident);
        match self.order.admits(page, &facts) {
            Decision::There => assert_eq!(got, Admission::AlreadyThere),
            Decision::Bypass => {
                self.bypassed(page, got);
                if got != Admission::Full {
                    self.order.kept_out(page, dirty);
                }
            }
            Decision::Enter => self.enters(page, dirty, got),
        }
    }

    fn job(&mut self, job: Option<&Job>, _flush: Option<&Flush>, writes_only: bool) {
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
                None => self.new.push(page),
            }
            self.staged.get_mut(&position).expect("staged").state = FrameState::Writing;
            return;
        }
        if writes_only {
            assert!(job.is_none());
            return;
        }
        if let Some(page) = self.next_victim().or_else(|| self.next_in_the_way()) {
            let Some(Job::Dequeue { pages, one_io: false, .. }) = job else {
                panic!("page {page} is the victim, not {job:?}")
            };
            assert_eq!((pages.len(), pages[0].dirty), (1, true));
            self.start_copy(page, &pages[0].to_clean().expect("a dirty page is destaged"));
            self.dequeuing += 1;
            return;
        }
        if let Some(page) = self.next_to_clean() {
            let Some(Job::Clean(copy)) = job else { panic!("page {page} is to be cleaned") };
            self.start_copy(page, copy);
            return;
        }
        assert!(job.is_none(), "nothing is to be done, but: {job:?}");
    }

    fn staged(&mut self, frame: u32) {
        let frames = self.config.staging_pages() as u64;
        let found = self.staged.iter_mut().find(|(position, _)| **position % frames == frame as u64);
        let (_, staged) = found.expect("a frame that was given out");
        assert_eq!(staged.state, FrameState::Filling);
        staged.state = FrameState::Ready;
    }

    fn written(&mut self, pages: &[WritePage], _flush: Option<&Flush>) {
        let page = &pages[0];
        let staged = self.staged.remove(&page.position.0).expect("staged");
        assert_eq!(staged.state, FrameState::Writing);
        let (slot, dirty) = (page.slot.0, staged.dirty);
        self.order.written(staged.page, page.position.0);
        let generation = self.writes[slot as usize].wrapping_add(1);
        self.writes[slot as usize] = generation;
        let now = Resident { slot, dirty, busy: false, generation };
        if self.resident.insert(staged.page, now).is_some() {
            self.order.overwritten(staged.page);
        } else {
            self.new.retain(|p| *p != staged.page);
            self.order.entered(staged.page);
        }
        self.retire();
    }

    fn restage(&mut self, _page: &DequeuePage, _got: Admission) {
        unreachable!("slot placement has no second chances")
    }

    fn dequeued(&mut self, pages: &[DequeuePage]) {
        self.dequeuing -= 1;
        let page = pages[0].page.expect("a page");
        self.drop_page(page);
        let waits = self.staged.values_mut().find(|staged| staged.waits_for == Some(page));
        waits.into_iter().for_each(|staged| staged.waits_for = None);
    }

    fn clean(&mut self, page: PageId, got: &Cleaning) {
        match (self.resident.get(&page).filter(|r| r.dirty).map(|r| r.busy), got) {
            (None, Cleaning::Clean) | (Some(true), Cleaning::Busy) => {}
            (Some(false), Cleaning::Copy(copy)) => self.start_copy(page, copy),
            (dirty, got) => panic!("{page}: {got:?}, dirty and busy {dirty:?}"),
        }
    }

    fn cleaned(&mut self, page: &CleanPage) {
        let resident = self.resident.get_mut(&page.page).expect("resident");
        (resident.dirty, resident.busy) = (false, false);
    }

    fn swept(&mut self, from: SlotId, got: &Option<Result<CleanPage, SlotId>>) {
        let candidates = self.resident.iter().filter(|(_, r)| r.dirty && r.slot >= from.0);
        let first = candidates.min_by_key(|(_, r)| r.slot).map(|(page, r)| (*page, *r));
        match (first, got) {
            (None, None) => {}
            (Some((_, r)), Some(Err(slot))) => assert_eq!((r.busy, r.slot), (true, slot.0)),
            (Some((page, _)), Some(Ok(copy))) => self.start_copy(page, copy),
            (first, got) => panic!("swept {got:?}, expected {:?}", first.map(|f| f.0)),
        }
    }

    fn flush(&mut self, got: Option<Position>) {
        self.close_group();
        assert_eq!(got, Some(Position(self.rear)));
    }

    fn forget(&mut self, (first, last): (PageId, PageId), _after: u64, got: &Forget) {
        let pages = || (first.0..=last.0).map(PageId);
        if pages().any(|page| self.is_busy(page)) {
            assert_eq!(*got, Forget::Full);
            return;
        }
        let dirty = pages().filter(|page| self.is_dirty(*page)).count() as u32;
        let found = pages().filter(|page| self.forget(*page) == Some(true)).count() as u32;
        assert_eq!(*got, Forget::Done { found, dirty, in_dequeue: false });
    }

    fn restored(
        &mut self,
        _entries: &[(Position, PageId, bool)],
        _records: &[Forgotten],
        _front: Position,
        _rear: Position,
    ) {
        *self = Self::new(&self.config);
    }

    fn verify(&mut self, occupancy: &Occupancy, _window: (Position, Position), published: Position) {
        assert_eq!(occupancy.valid as usize, self.resident.len());
        assert_eq!(occupancy.dirty as usize, self.resident.values().filter(|r| r.dirty).count());
        assert_eq!((occupancy.superseded, occupancy.entered, published.0), (0, self.rear, self.staged_front));
    }
}

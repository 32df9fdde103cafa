//! The naive model of FaCE's three forms: a map of the versions in the ring.

use super::Model;
use entresol_core::{
    Admission, CleanPage, Config, DequeuePage, Fate, Generation, Job, Lookup, Occupancy, PageId, PolicyKind,
    Position, SlotId, WritePage,
};
use std::collections::BTreeMap;

struct Version {
    page: PageId,
    dirty: bool,
    referenced: bool,
    published: bool,
}

pub struct LogModel {
    config: Config,
    /// By position; a version leaves when its slot is released.
    versions: BTreeMap<u64, Version>,
    rear: u64,
    scan: u64,
    released: u64,
    staged_front: u64,
    second_chances: usize,
}

impl LogModel {
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            versions: BTreeMap::new(),
            rear: 0,
            scan: 0,
            released: 0,
            staged_front: 0,
            second_chances: 0,
        }
    }

    fn group(&self) -> u64 {
        self.config.group_pages as u64
    }

    fn newest(&self, page: PageId) -> Option<u64> {
        self.versions.iter().rev().find(|(_, v)| v.page == page).map(|(position, _)| *position)
    }

    fn newest_published(&self, page: PageId) -> Option<u64> {
        self.versions.iter().rev().find(|(_, v)| v.page == page && v.published).map(|(position, _)| *position)
    }

    fn enter(&mut self, page: PageId, dirty: bool, frame: u32, position: u64) {
        assert_eq!(position, self.rear, "positions are given out in order");
        assert_eq!(
            frame as u64,
            position % self.config.staging_pages() as u64,
            "frame of position {position}"
        );
        assert!(
            position < self.released + self.config.slots as u64,
            "position {position} has a released slot"
        );
        self.versions.insert(position, Version { page, dirty, referenced: false, published: false });
        self.rear += 1;
    }

    /// FaCE algorithm 1, dequeue.
    fn fates(&self, first: u64) -> Vec<Fate> {
        let gsc = self.config.policy == PolicyKind::FaceGsc;
        let room = self.released + self.config.slots as u64 - self.rear;
        let fate = |position: u64| {
            let Some(version) = self.versions.get(&position) else { return Fate::Drop };
            let valid = self.newest_published(version.page) == Some(position);
            let overtaken = self.newest(version.page) != Some(position);
            match (valid && !overtaken, gsc && version.referenced, version.dirty) {
                (false, ..) => Fate::Drop,
                (true, true, _) => Fate::SecondChance,
                (true, false, true) => Fate::Destage,
                (true, false, false) => Fate::Drop,
            }
        };
        let mut fates: Vec<Fate> = (first..first + self.group()).map(fate).collect();
        let all = fates.iter().all(|f| *f == Fate::SecondChance);
        for (at, fate) in fates.iter_mut().enumerate() {
            let goes = room < self.group() || (all && at == 0);
            if *fate == Fate::SecondChance && goes {
                let dirty = self.versions[&(first + at as u64)].dirty;
                *fate = if dirty { Fate::Destage } else { Fate::Drop };
            }
        }
        fates
    }
}

impl Model for LogModel {
    fn fetch(&mut self, page: PageId, found: &Lookup) {
        let newest = self.newest(page);
        match found {
            Lookup::Absent => assert_eq!(newest, None, "page {page} is in the model"),
            Lookup::Staged { position, dirty, .. } => {
                let version = &self.versions[&position.0];
                assert_eq!((Some(position.0), version.published), (newest, false));
                assert_eq!(version.dirty, *dirty);
            }
            Lookup::Flash { slot, generation, dirty } => {
                let position = newest.expect("the model has the page");
                assert!(generation.matches(Position(position)));
                assert_eq!(slot.0 as u64, position % self.config.slots as u64);
                assert_eq!(
                    (self.versions[&position].published, self.versions[&position].dirty),
                    (true, *dirty)
                );
            }
        }
        if let Some(position) = newest {
            self.versions.get_mut(&position).expect("just found").referenced = true;
        }
    }

    fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool, got: Admission) {
        let enqueue = fdirty || self.newest(page).is_none();
        match got {
            Admission::Bypass { .. } => panic!("a log takes what it does not have"),
            Admission::AlreadyThere => assert!(!enqueue, "page {page} must be enqueued"),
            Admission::Stage { frame, position } => {
                assert!(enqueue, "page {page} is there already");
                self.enter(page, dirty, frame.0, position.0);
            }
            Admission::Full => {
                assert!(enqueue, "page {page} is there already");
                let room = self.released + self.config.slots as u64 - self.rear;
                let staging_full = self.rear - self.staged_front == self.config.staging_pages() as u64;
                let units = (self.scan - self.released) / self.group();
                assert!(staging_full || room < self.group() * (units + 2), "full with room for {room} pages");
            }
        }
    }

    fn job(&mut self, job: Option<&Job>, writes_only: bool) {
        match job {
            None => {}
            Some(Job::Write { pages, one_io, completes_group, .. }) => {
                let first = pages[0].position.0;
                for (at, page) in pages.iter().enumerate() {
                    let position = first + at as u64;
                    let version = self.versions.get(&position);
                    assert_eq!(page.position.0, position, "a write job is sequential");
                    assert_eq!(page.slot.0 as u64, position % self.config.slots as u64);
                    assert_eq!(page.page, version.map(|v| v.page), "page of position {position}");
                    assert_eq!(page.dirty, version.is_some_and(|v| v.dirty));
                    assert!(version.is_none_or(|v| !v.published), "written once");
                }
                let end = first + pages.len() as u64;
                assert_eq!(first / self.group(), (end - 1) / self.group(), "a job stays within its group");
                assert_eq!(*completes_group, end.is_multiple_of(self.group()));
                let by_group = self.config.policy != PolicyKind::Face;
                assert_eq!(*one_io, by_group);
                assert!(!by_group || pages.len() as u64 == self.group(), "whole groups");
            }
            Some(Job::Dequeue { pages, one_io, .. }) => {
                assert!(!writes_only);
                assert_eq!(pages.len() as u64, self.group());
                assert_eq!(*one_io, self.config.policy != PolicyKind::Face);
                let ahead = (self.config.slots as u64 / self.group() / 16).clamp(4, 8);
                let early = self.config.slots as u64 - ahead * self.group();
                assert!(self.rear - self.scan > early, "a dequeue before room gets scarce");
                let fates = self.fates(self.scan);
                assert!(fates.iter().any(|f| *f != Fate::SecondChance), "a dequeue makes room");
                for (at, (page, fate)) in pages.iter().zip(fates).enumerate() {
                    let position = self.scan + at as u64;
                    let generation = Generation::Exact(Position(position));
                    assert_eq!(
                        (page.generation, page.fate),
                        (generation, fate),
                        "fate of position {position}"
                    );
                    self.second_chances += usize::from(fate == Fate::SecondChance);
                    if fate != Fate::Drop {
                        let version = &self.versions[&position];
                        assert_eq!((page.page, page.dirty), (Some(version.page), version.dirty));
                    }
                }
                self.scan += self.group();
            }
            Some(Job::PullVictims(pages)) => {
                assert!(!writes_only);
                assert_eq!(self.config.policy, PolicyKind::FaceGsc);
                assert_eq!((self.rear + *pages as u64) % self.group(), 0, "victims fill the open group");
                assert!(*pages > 0 && (*pages as u64) < self.group());
            }
            Some(Job::Clean(_)) => panic!("FaCE has no cleaner"),
        }
    }

    fn staged(&mut self, _frame: u32) {}

    fn written(&mut self, pages: &[WritePage]) {
        // A group's pages are published together, when its last is written.
        let end = pages[pages.len() - 1].position.0 + 1;
        if end.is_multiple_of(self.group()) {
            self.versions
                .range_mut(end - self.group()..end)
                .for_each(|(_, version)| version.published = true);
        }
    }

    fn restage(&mut self, page: &DequeuePage, got: Admission) {
        let id = page.page.expect("a page with a second chance");
        let newest = self.newest(id).expect("the version itself is there at least");
        let Generation::Exact(Position(restaged)) = page.generation else { panic!("{page:?}") };
        match got {
            Admission::Stage { frame, position } => {
                assert_eq!(newest, restaged, "an older version never enters behind a newer");
                self.enter(id, page.dirty, frame.0, position.0);
            }
            Admission::Bypass { .. } => panic!("a log takes what it does not have"),
            Admission::AlreadyThere => assert!(newest > restaged, "no newer version of {id} has come"),
            Admission::Full => {
                assert_eq!(
                    self.rear - self.staged_front,
                    self.config.staging_pages() as u64,
                    "staging is full"
                );
            }
        }
    }

    fn dequeued(&mut self, _pages: &[DequeuePage]) {}

    fn cleaned(&mut self, _page: &CleanPage) {
        unreachable!("FaCE has no cleaner")
    }

    fn swept(&mut self, _from: SlotId, _got: &Option<Result<CleanPage, SlotId>>) {
        unreachable!("only slot placement is swept")
    }

    fn restored(&mut self, entries: &[(Position, PageId, bool)], front: Position, rear: Position) {
        *self = LogModel {
            rear: rear.0,
            scan: front.0,
            released: front.0,
            staged_front: rear.0,
            ..Self::new(&self.config)
        };
        for (position, page, dirty) in entries {
            let version = Version { page: *page, dirty: *dirty, referenced: false, published: true };
            self.versions.insert(position.0, version);
        }
    }

    fn verify(&mut self, occupancy: &Occupancy, window: (Position, Position), published: Position) {
        let (released, rear) = (window.0.0, window.1.0);
        assert!(
            released >= self.released && released <= self.scan,
            "released {released} of scan {}",
            self.scan
        );
        assert!(
            rear == self.rear || rear.is_multiple_of(self.group()),
            "only closing a group skips positions"
        );
        assert!(rear >= self.rear && rear - self.rear < self.group());
        (self.released, self.rear, self.staged_front) = (released, rear, published.0);
        self.versions = self.versions.split_off(&released);
        let unpublished = self.versions.iter().find(|(_, v)| !v.published);
        assert!(
            unpublished.is_none_or(|(position, _)| *position >= published.0),
            "published below {}",
            published.0
        );

        let published = self.versions.values().filter(|v| v.published);
        let held = published.clone().count();
        // In ascending position: the newest is what remains.
        let pages: BTreeMap<PageId, bool> = published.map(|v| (v.page, v.dirty)).collect();
        let dirty = pages.values().filter(|dirty| **dirty).count();
        assert_eq!(occupancy.valid as usize, pages.len(), "valid");
        assert_eq!(occupancy.dirty as usize, dirty, "dirty");
        assert_eq!(occupancy.superseded as usize, held - pages.len(), "superseded");
        assert_eq!(occupancy.entered, self.rear);
    }
}

//! The naive model of log placement, of FaCE's three forms and of `reuse`: a map of the versions in the ring.

use super::Model;
use super::log_records::Records;
use super::reuse_evidence::{Evidence, Note};
use entresol_core::{
    Admission, CleanPage, Cleaning, Config, Costs, DequeuePage, Flush, Forget, Forgotten, Generation, Job,
    Lookup, Occupancy, PageId, PolicyKind, Position, SlotId, WritePage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) struct Version {
    pub(super) page: PageId,
    pub(super) dirty: bool,
    pub(super) referenced: bool,
    pub(super) published: bool,
    /// It was forgotten after it was published, or flushed.
    pub(super) forgotten: bool,
    pub(super) note: Note,
}

/// The places of a group in staging, from its first position.
#[derive(Clone, Copy, Default)]
struct Places {
    /// Given to write jobs.
    issued: u64,
    /// Durable, or being flushed.
    flushing: u64,
    /// Durable.
    flushed: u64,
}

pub struct LogModel {
    pub(super) config: Config,
    /// By position; a version is removed when its slot is released.
    pub(super) versions: BTreeMap<u64, Version>,
    pub(super) rear: u64,
    pub(super) scan: u64,
    pub(super) released: u64,
    pub(super) staged_front: u64,
    pub(super) second_chances: usize,
    /// By first position of the group; a group that is durable as a whole has all its places flushed.
    places: BTreeMap<u64, Places>,
    flush_to: u64,
    /// A restart begins at this position or after it.
    pub(super) front_durable: u64,
    /// Changed pages enter, whatever `reuse` says.
    pub(super) takes_changes: bool,
    /// What `reuse` knows.
    pub(super) evidence: Evidence,
    /// Pages whose slots were released, by position, from the durable front on.
    pub(super) gone: BTreeMap<u64, PageId>,
    pub(super) records: Records,
    /// First positions of the dequeues under way.
    pub(super) dequeuing: BTreeSet<u64>,
    /// With `reuse`, those whose second chances wait: for destages, and for their turn; and the one whose
    /// second chances get positions.
    pub(super) leaving: BTreeSet<u64>,
    pub(super) left: BTreeSet<u64>,
    pub(super) staying: Option<u64>,
    /// Those with second chances that got positions from the beginning.
    pub(super) chances: BTreeSet<u64>,
    /// Positions of the pages that are being copied to disk out of turn.
    pub(super) cleaning: BTreeSet<u64>,
    /// Pages of which versions from a position on do not leave.
    pub(super) held: Vec<(PageId, u64)>,
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
            places: BTreeMap::new(),
            flush_to: 0,
            front_durable: 0,
            takes_changes: false,
            evidence: Evidence::new(config),
            gone: BTreeMap::new(),
            records: Records::default(),
            dequeuing: BTreeSet::new(),
            leaving: BTreeSet::new(),
            left: BTreeSet::new(),
            staying: None,
            chances: BTreeSet::new(),
            cleaning: BTreeSet::new(),
            held: Vec::new(),
        }
    }

    pub(super) fn group(&self) -> u64 {
        self.config.group_pages as u64
    }

    /// Everything below is durable.
    fn flushed(&self) -> u64 {
        let firsts = (self.staged_front..self.rear).step_by(self.group() as usize);
        let flushed = |first| self.places.get(&first).map_or(0, |places| places.flushed);
        let torn = firsts.map(|first| (first, flushed(first))).find(|(_, flushed)| *flushed < self.group());
        torn.map_or(self.rear, |(first, flushed)| first + flushed)
    }

    /// Of how many of these pages there is a copy below `below`, and a dirty one. They are struck out.
    fn strike_out_below(&mut self, pages: (PageId, PageId), below: u64) -> (u32, u32) {
        let copies = self.copies(pages, below);
        let found: BTreeSet<PageId> = copies.iter().map(|(_, page, _)| *page).collect();
        let dirty: BTreeSet<_> = copies.iter().filter(|c| c.2).map(|(_, page, _)| *page).collect();
        copies.iter().for_each(|(position, ..)| self.strike_out(*position));
        (found.len() as u32, dirty.len() as u32)
    }

    /// A copy that was in the index is forgotten: one that is staged only fills up its group now.
    fn strike_out(&mut self, position: u64) {
        let Version { page, published, .. } = self.versions[&position];
        let (first, place) = (position / self.group() * self.group(), position % self.group());
        let is_named = self.places.get(&first).is_some_and(|places| place < places.flushing);
        if is_named && !published {
            // A summary names it, so it is in its slot until that is released.
            self.versions.get_mut(&position).expect("it is in the index").forgotten = true;
        } else if published {
            // The older ones are superseded, and stay so.
            let versions = self.versions.range_mut(..=position).map(|(_, version)| version);
            versions.filter(|v| v.page == page && v.published).for_each(|v| v.forgotten = true);
        } else {
            self.versions.remove(&position);
        }
    }

    /// Copies in the index of pages from `first` to `last`, with positions below `below`.
    fn copies(&self, (first, last): (PageId, PageId), below: u64) -> Vec<(u64, PageId, bool)> {
        let pages: BTreeSet<PageId> = self.versions.values().map(|version| version.page).collect();
        let mut copies = Vec::new();
        for page in pages.range(first..=last) {
            let newest_published = self.newest_published(*page);
            let in_index = |(position, v): &(u64, &Version)| {
                *position < below && (!v.published || Some(*position) == newest_published)
            };
            let of_page = self.versions_of(*page).filter(in_index);
            copies.extend(of_page.map(|(position, version)| (position, *page, version.dirty)));
        }
        copies
    }

    /// The entry of the directory for a copy in the index: those of the frames come first.
    fn entry_of(&self, position: u64) -> u32 {
        if self.versions[&position].published {
            self.config.staging_pages() + (position % u64::from(self.config.slots)) as u32
        } else {
            (position % u64::from(self.config.staging_pages())) as u32
        }
    }

    fn enter(&mut self, page: PageId, dirty: bool, note: Note, frame: u32, position: u64) {
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
        self.versions.insert(
            position,
            Version { page, dirty, referenced: false, published: false, forgotten: false, note },
        );
        self.rear += 1;
    }
}

impl Model for LogModel {
    fn cost(&mut self, costs: &Costs) {
        self.evidence.cost(costs);
    }

    fn fetch(&mut self, page: PageId, found: &Lookup) {
        let newest = self.newest(page);
        match found {
            Lookup::Absent => assert_eq!(newest, None, "page {page} is in the model"),
            Lookup::Staged { position, dirty, .. } => {
                let Version { published, dirty: was, .. } = self.versions[&position.0];
                assert_eq!((Some(position.0), published, was), (newest, false, *dirty));
            }
            Lookup::Flash { slot, generation, dirty } => {
                let position = newest.expect("the model has the page");
                assert!(generation.matches(Position(position)) && self.versions[&position].published);
                let was = self.versions[&position].dirty;
                assert_eq!((u64::from(slot.0), was), (position % u64::from(self.config.slots), *dirty));
            }
        }
        self.meet();
        match newest {
            None => self.evidence.miss(page),
            Some(position) => {
                let version = self.versions.get_mut(&position).expect("just found");
                version.referenced = true;
                version.note = self.evidence.hit(page, version.note, version.dirty, version.published);
            }
        }
    }

    fn take_changes(&mut self) {
        self.takes_changes = true;
    }

    fn evict(&mut self, page: PageId, dirty: bool, fdirty: bool, got: Admission) {
        let is_dirty = |version: &Version| version.page == page && version.dirty && !version.forgotten;
        let dirty = dirty && (fdirty || !self.config.keeps_bases || self.versions.values().any(is_dirty));
        let newest = self.newest(page);
        if let Some(Version { note, dirty, .. }) = newest.and_then(|newest| self.versions.get_mut(&newest)) {
            self.evidence.given_up(note, *dirty && got != Admission::Full, fdirty);
            self.evidence.may_watch_known(page, *note, *dirty || fdirty);
        }
        let enqueue = fdirty || newest.is_none();
        if self.is_kept_out(page, dirty, fdirty) {
            assert_eq!(got, Admission::Bypass { stale: false }, "page {page} is kept out");
            self.evidence.keep_out(page, dirty);
            self.look();
            return;
        }
        match got {
            Admission::Bypass { .. } => panic!("page {page} is not kept out"),
            Admission::AlreadyThere => assert!(!enqueue, "page {page} must be enqueued"),
            Admission::Stage { frame, position } => {
                assert!(enqueue, "page {page} is there already");
                let older = self.newest(page).map(|older| self.versions[&older].note);
                let note = self.evidence.stage(page, older);
                self.enter(page, dirty, note, frame.0, position.0);
            }
            Admission::Full => {
                assert!(enqueue, "page {page} is there already");
                self.assert_full();
            }
        }
    }

    fn job(&mut self, job: Option<&Job>, flush: Option<&Flush>, writes_only: bool) {
        match job {
            None => {}
            Some(Job::Write { pages, one_io, completes_group, .. }) => {
                let first = match (flush, pages.first()) {
                    (Some(flush), _) => flush.first.0,
                    (None, page) => page.expect("a page to write").position.0 / self.group() * self.group(),
                };
                let places = self.places.entry(first).or_default();
                let from = first + places.issued;
                places.issued += pages.len() as u64;
                let (end, flushed) = (first + places.issued, places.flushed);
                if flush.is_some() {
                    places.flushing = places.issued;
                }
                for (at, page) in pages.iter().enumerate() {
                    let position = from + at as u64;
                    let version = self.versions.get(&position).filter(|version| !version.forgotten);
                    assert_eq!(page.position.0, position, "a write job is sequential");
                    assert_eq!(page.slot.0 as u64, position % self.config.slots as u64);
                    assert_eq!(page.page, version.map(|v| v.page), "page of position {position}");
                    assert_eq!(page.dirty, version.is_some_and(|v| v.dirty));
                    assert!(version.is_none_or(|v| !v.published), "written once");
                }
                assert!(end <= first + self.group(), "a job stays within its group");
                assert_eq!(*completes_group, end == first + self.group() && !pages.is_empty());
                let by_group = self.config.policy != PolicyKind::Face;
                assert_eq!(*one_io, by_group);
                match flush {
                    None => assert!(!by_group || *completes_group, "whole groups"),
                    Some(flush) => {
                        assert!(!completes_group, "the last part of a group is not flushed, but written");
                        assert_eq!((first + u64::from(flush.upto), u64::from(flush.flushed)), (end, flushed));
                        assert!(end >= self.flush_to.min(first + self.group()), "all that was asked for");
                        assert!(flushed < u64::from(flush.upto), "something to flush");
                    }
                }
            }
            Some(Job::Dequeue { pages, one_io, .. }) => {
                assert!(!writes_only);
                self.dequeue(pages, *one_io);
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

    fn written(&mut self, pages: &[WritePage], flush: Option<&Flush>) {
        let group = self.group();
        if let Some(flush) = flush {
            self.places.get_mut(&flush.first.0).expect("it was issued").flushed = flush.upto.into();
            return;
        }
        // A group's pages are published together, when its last is written.
        let end = pages[pages.len() - 1].position.0 + 1;
        if end.is_multiple_of(group) {
            self.places.get_mut(&(end - group)).expect("it was issued").flushed = group;
            self.versions.range_mut(end - group..end).for_each(|(_, version)| version.published = true);
        }
    }

    fn restage(&mut self, page: &DequeuePage, got: Admission) {
        let id = page.page.expect("a page with a second chance");
        let newest = self.newest(id);
        let Generation::Exact(Position(restaged)) = page.generation else { panic!("{page:?}") };
        // A range is being forgotten in steps, and this version is forgotten before its turn.
        let dies = self.newest_published(id) == Some(restaged) && self.records.cover(id, restaged);
        let stays = got == Admission::AlreadyThere || self.stays(restaged);
        match got {
            Admission::Stage { frame, position } => {
                assert_eq!(newest, Some(restaged), "an older version never enters behind a newer");
                assert!(!dies, "a page that is being forgotten enters again");
                assert!(stays, "it is not the turn of this group");
                self.evidence.second_chance();
                self.enter(id, page.dirty, self.versions[&restaged].note, frame.0, position.0);
            }
            Admission::Bypass { .. } => panic!("a log takes what it does not have"),
            Admission::AlreadyThere if dies => self.strike_out(restaged),
            Admission::AlreadyThere => {
                assert_ne!(newest, Some(restaged), "no newer version of {id} has come")
            }
            Admission::Full => {
                let staging_full = self.rear - self.staged_front == self.config.staging_pages() as u64;
                assert!(!stays || staging_full, "staging is full");
            }
        }
    }

    fn keep(&mut self, pages: &[DequeuePage], got: bool) {
        self.keeps(pages, got);
    }

    fn left(&mut self, pages: &[DequeuePage]) {
        let first = self.first_of(pages);
        if self.leaving.remove(&first) {
            self.left.insert(first);
        }
    }

    fn restaged(&mut self, pages: &[DequeuePage]) {
        self.has_stayed(pages);
    }

    fn dequeued(&mut self, pages: &[DequeuePage]) {
        let first = self.has_stayed(pages);
        assert!(self.dequeuing.remove(&first));
    }

    fn flush(&mut self, got: Option<Position>) {
        let pads = self.flushed() == self.rear && !self.records.is_none();
        match got {
            None => {
                assert!(pads, "a flush needs no room");
                self.assert_full();
            }
            Some(position) => {
                self.rear += u64::from(pads);
                self.flush_to = self.rear;
                assert_eq!(position.0, self.rear);
            }
        }
    }

    fn forget(&mut self, pages: (PageId, PageId), after: u64, got: &Forget) {
        if self.records.are_full() {
            assert_eq!(*got, Forget::Full);
            return;
        }
        let (found, dirty) = self.strike_out_below(pages, self.rear);
        let may_return = self.gone.values().any(|page| (pages.0..=pages.1).contains(page));
        if found > 0 || may_return {
            assert!(self.records.add(pages, self.rear, after));
        }
        assert_eq!(*got, Forget::Done { found, dirty, in_dequeue: self.is_in_dequeue(pages) });
    }

    fn forget_begin(&mut self, pages: (PageId, PageId), after: u64, got: Option<Position>) {
        let expected = self.records.add(pages, self.rear, after).then_some(Position(self.rear));
        assert_eq!(got, expected);
    }

    fn forget_entries(
        &mut self,
        pages: (PageId, PageId),
        below: Position,
        entries: Range<u32>,
        got: &Forget,
    ) {
        let mut copies = self.copies(pages, below.0);
        copies.retain(|(position, ..)| entries.contains(&self.entry_of(*position)));
        let found = copies.len() as u32;
        let dirty = copies.iter().filter(|(_, _, dirty)| *dirty).count() as u32;
        copies.iter().for_each(|(position, ..)| self.strike_out(*position));
        assert_eq!(*got, Forget::Done { found, dirty, in_dequeue: self.is_in_dequeue(pages) });
    }

    fn forget_below(&mut self, pages: (PageId, PageId), below: Position, got: &Forget) {
        let (found, dirty) = self.strike_out_below(pages, below.0);
        assert_eq!(*got, Forget::Done { found, dirty, in_dequeue: self.is_in_dequeue(pages) });
    }

    fn records(&mut self, durable: u64, group_end: u64, got: &[Forgotten], end: u64) {
        self.records.given(durable, group_end, got, end);
    }

    fn recorded(&mut self, end: u64) {
        self.records.recorded(end);
    }

    fn front_is_durable(&mut self, front: u64) {
        self.gone = self.gone.split_off(&front);
        self.front_durable = self.front_durable.max(front);
    }

    fn clean(&mut self, page: PageId, got: &Cleaning) {
        self.clean_begins(page, got);
    }

    fn cleaned(&mut self, page: &CleanPage) {
        self.clean_ends(page);
    }

    fn hold(&mut self, page: PageId, got: bool) {
        assert_eq!(got, self.held.len() < self.config.slots as usize / 4);
        self.held.extend(got.then_some((page, self.rear)));
    }

    fn let_go(&mut self, page: PageId) {
        let at = self.held.iter().position(|held| held.0 == page);
        self.held.swap_remove(at.expect("it is held"));
    }

    fn swept(&mut self, _from: SlotId, _got: &Option<Result<CleanPage, SlotId>>) {
        unreachable!("only slot placement is swept")
    }

    fn restored(
        &mut self,
        entries: &[(Position, PageId, bool)],
        records: &[Forgotten],
        front: Position,
        rear: Position,
    ) {
        *self = LogModel {
            takes_changes: self.takes_changes,
            rear: rear.0,
            scan: front.0,
            released: front.0,
            staged_front: rear.0,
            front_durable: front.0,
            ..Self::new(&self.config)
        };
        for (position, page, dirty) in entries {
            let forgotten = records.iter().any(|r| (r.first..=r.last).contains(page) && *position < r.below);
            let (page, dirty) = (*page, *dirty);
            let note = Note::NEW;
            let version = Version { page, dirty, referenced: false, published: true, forgotten, note };
            self.versions.insert(position.0, version);
        }
    }

    fn verify(&mut self, occupancy: &Occupancy, window: (Position, Position), published: Position) {
        let (released, rear) = (window.0.0, window.1.0);
        assert!((self.released..=self.scan).contains(&released), "released {released} of scan {}", self.scan);
        assert!(
            rear == self.rear || rear.is_multiple_of(self.group()),
            "only closing a group skips positions"
        );
        assert!(rear >= self.rear && rear - self.rear < self.group());
        self.leave(released);
        (self.released, self.rear, self.staged_front) = (released, rear, published.0);
        let kept = self.versions.split_off(&released);
        let gone = std::mem::replace(&mut self.versions, kept);
        self.gone.extend(gone.into_iter().map(|(position, version)| (position, version.page)));
        self.places = self.places.split_off(&published.0);
        let unpublished = self.versions.iter().find(|(_, v)| !v.published);
        assert!(
            unpublished.is_none_or(|(position, _)| *position >= published.0),
            "published below {}",
            published.0
        );
        self.assert_counts(occupancy);
    }
}

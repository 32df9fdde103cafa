//! What the naive model of log placement decides: which pages of a group stay, and which do not enter.

use super::log_model::{LogModel, Version};
use super::reuse_evidence::Note;
use entresol_core::{DequeuePage, Fate, Generation, Occupancy, PageId, PolicyKind, Position};
use std::collections::BTreeMap;

impl LogModel {
    /// The versions that were not forgotten, newest first.
    pub(super) fn versions_of(&self, page: PageId) -> impl Iterator<Item = (u64, &Version)> + '_ {
        let versions = self.versions.iter().rev().filter(move |(_, v)| v.page == page && !v.forgotten);
        versions.map(|(position, version)| (*position, version))
    }

    pub(super) fn newest(&self, page: PageId) -> Option<u64> {
        self.versions_of(page).next().map(|(position, _)| position)
    }

    pub(super) fn newest_published(&self, page: PageId) -> Option<u64> {
        self.versions_of(page).find(|(_, v)| v.published).map(|(position, _)| position)
    }

    /// Groups that are kept free beyond those for second chances.
    pub(super) fn spare(&self) -> u64 {
        let is_long = self.config.slots as u64 / self.group() >= 16;
        u64::from(self.config.policy == PolicyKind::Reuse && is_long || self.config.refusals)
    }

    fn is_held(&self, page: PageId, position: u64) -> bool {
        self.held.iter().any(|held| held.0 == page && held.1 <= position)
    }

    /// FaCE algorithm 1, dequeue. With `reuse`, the likely ones stay.
    pub(super) fn fates(&self, first: u64) -> Vec<Fate> {
        let stays = |version: &Version| match self.config.policy {
            PolicyKind::FaceGsc => version.referenced,
            PolicyKind::Reuse => self.weight(version) >= self.evidence.stays_from,
            _ => false,
        };
        let room = self.released + self.config.slots as u64 - self.rear;
        let fate = |position: u64| {
            let Some(version) = self.versions.get(&position) else { return Fate::Drop };
            let valid = self.newest_published(version.page) == Some(position);
            let overtaken = self.newest(version.page) != Some(position);
            match (valid && !overtaken, stays(version), version.dirty) {
                (false, ..) => Fate::Drop,
                (true, ..) if room >= self.group() && self.is_held(version.page, position) => {
                    Fate::SecondChance
                }
                (true, true, _) => Fate::SecondChance,
                (true, false, true) => Fate::Destage,
                (true, false, false) => Fate::Drop,
            }
        };
        let mut fates: Vec<Fate> = (first..first + self.group()).map(fate).collect();
        let leave = if self.config.policy == PolicyKind::Reuse { (self.group() / 8).max(1) } else { 1 };
        let most = if room < self.group() * (1 + self.spare()) { 0 } else { self.group() - leave };
        while fates.iter().filter(|f| **f == Fate::SecondChance).count() as u64 > most {
            let version = |at: usize| &self.versions[&(first + at as u64)];
            let staying = (0..fates.len()).filter(|at| fates[*at] == Fate::SecondChance);
            let staying = staying
                .filter(|at| room < self.group() || !self.is_held(version(*at).page, first + *at as u64));
            let is_ours = self.config.policy == PolicyKind::Reuse;
            let worth = |at: usize| self.weight(version(at));
            let least = staying.min_by_key(|at| (if is_ours { worth(*at) } else { 0 }, *at));
            // The others are held.
            let Some(least) = least else { break };
            fates[least] = if version(least).dirty { Fate::Destage } else { Fate::Drop };
        }
        fates
    }

    /// A group leaves the flash.
    pub(super) fn dequeue(&mut self, pages: &[DequeuePage], one_io: bool) {
        assert_eq!(pages.len() as u64, self.group());
        assert_eq!(one_io, self.config.policy != PolicyKind::Face);
        let ahead = (self.config.slots as u64 / self.group() / 16).clamp(4, self.config.dequeues.into())
            + self.spare();
        let early = self.config.slots as u64 - ahead * self.group();
        assert!(self.rear - self.scan > early, "a dequeue before room gets scarce");
        let group = self.scan..self.scan + self.group();
        let is_copied = self.cleaning.iter().any(|position| group.contains(position));
        assert!(!is_copied, "no dequeue of a group begins while a page of it is copied out of turn");
        self.dequeuing.insert(self.scan);
        self.adapt(self.scan);
        let fates = self.fates(self.scan);
        if self.leaves_first() && fates.contains(&Fate::SecondChance) {
            self.leaving.insert(self.scan);
        }
        if !self.leaving.contains(&self.scan) && fates.contains(&Fate::SecondChance) {
            self.chances.insert(self.scan);
        }
        let makes_room = fates.iter().any(|f| *f != Fate::SecondChance);
        assert!(makes_room || self.held.len() as u64 >= self.group(), "a dequeue makes room");
        let staying = fates.contains(&Fate::SecondChance);
        let room = self.released + self.config.slots as u64 - self.rear;
        assert!(!staying || room >= self.group(), "second chances find a group");
        for (at, (page, fate)) in pages.iter().zip(fates).enumerate() {
            let position = self.scan + at as u64;
            let generation = Generation::Exact(Position(position));
            assert_eq!((page.generation, page.fate), (generation, fate), "fate of position {position}");
            self.second_chances += usize::from(fate == Fate::SecondChance);
            if fate != Fate::Drop {
                let version = &self.versions[&position];
                assert_eq!((page.page, page.dirty), (Some(version.page), version.dirty));
            }
        }
        self.scan += self.group();
    }

    /// Whether second chances wait for the destages of their group.
    pub(super) fn leaves_first(&self) -> bool {
        self.config.policy == PolicyKind::Reuse && self.evidence.writes_are_cheap()
    }

    /// Whether the second chances of the group with this position get positions now: in order, one dequeue
    /// at a time, when there is room for a group.
    pub(super) fn stays(&mut self, position: u64) -> bool {
        let first = position / self.group() * self.group();
        let is_first = [&self.leaving, &self.left].iter().all(|set| set.first().is_none_or(|f| *f >= first));
        let none_stays = self.staying.is_none() && self.chances.is_empty();
        if is_first && none_stays && self.has_a_group_for(first) && self.left.remove(&first) {
            self.staying = Some(first);
        }
        assert!(!self.leaving.contains(&first), "pages that leave are on disk");
        !self.left.contains(&first)
    }

    /// One group for this dequeue, and one for each that has its group already. If the disk may refuse pages,
    /// one for an earlier dequeue that is still destaged.
    pub(super) fn has_a_group_for(&self, first: u64) -> bool {
        let earlier = self.dequeuing.range(..first).any(|at| !self.left.contains(at));
        let left = u64::from(self.config.refusals && earlier);
        let stay = self.chances.len() as u64 + u64::from(self.staying.is_some());
        let room = self.released + self.config.slots as u64 - self.rear;
        room >= self.group() * (1 + stay + left)
    }

    /// The disk refuses some of these pages.
    pub(super) fn keeps(&mut self, pages: &[DequeuePage], got: bool) {
        let first = self.first_of(pages);
        let is_known = [&self.chances, &self.leaving, &self.left].iter().any(|set| set.contains(&first));
        assert_eq!(got, is_known || self.staying == Some(first) || self.has_a_group_for(first));
        if got && !is_known && self.staying != Some(first) {
            self.left.insert(first);
        }
    }

    /// There is no room for a page.
    pub(super) fn assert_full(&self) {
        let room = self.released + u64::from(self.config.slots) - self.rear;
        let staging_full = self.rear - self.staged_front == u64::from(self.config.staging_pages());
        let dequeues = (self.scan - self.released) / self.group();
        let is_scarce = room < self.group() * (dequeues + 2 + self.spare());
        assert!(staging_full || is_scarce, "full with room for {room} pages");
    }

    pub(super) fn first_of(&self, pages: &[DequeuePage]) -> u64 {
        let Generation::Exact(Position(first)) = pages[0].generation else { panic!("{pages:?}") };
        first
    }

    /// The second chances of these pages have positions, if they need some.
    pub(super) fn has_stayed(&mut self, pages: &[DequeuePage]) -> u64 {
        let first = self.first_of(pages);
        self.leaving.remove(&first);
        self.left.remove(&first);
        self.chances.remove(&first);
        self.staying.take_if(|staying| *staying == first);
        first
    }

    /// The hands move, if it is time to.
    pub(super) fn meet(&mut self) {
        if self.evidence.hands_move() {
            let in_slots = self.in_slots();
            self.evidence.meet(|slot| in_slots.get(&slot).map(|(_, note, dirty)| (*note, *dirty)));
        }
    }

    /// By slot: the page in it, with its note, and whether it is dirty.
    fn in_slots(&self) -> BTreeMap<u64, (PageId, Note, bool)> {
        let slots = u64::from(self.config.slots);
        let published = self.versions.iter().filter(|(_, version)| version.published);
        let valid = published.filter(|(at, v)| self.newest_published(v.page) == Some(**at));
        valid.map(|(at, version)| (at % slots, (version.page, version.note, version.dirty))).collect()
    }

    /// A page was kept out.
    pub(super) fn look(&mut self) {
        let group_pages = self.group();
        let Some(group) = self.evidence.looks_at(group_pages) else { return };
        let slots = group * group_pages..(group + 1) * group_pages;
        let pages = self.in_slots().range(slots).map(|(_, page)| *page).collect();
        let weights = self.weights(pages);
        self.evidence.review(weights, group_pages, group_pages - (group_pages / 8).max(1));
    }

    /// The weights of the valid pages of a group, of which some become samples.
    fn weights(&mut self, pages: Vec<(PageId, Note, bool)>) -> Vec<u64> {
        self.evidence.watch_some(&pages);
        pages.into_iter().map(|(page, note, dirty)| self.evidence.weight(page, note, dirty)).collect()
    }

    /// The group from this position on is dequeued.
    pub(super) fn adapt(&mut self, first: u64) {
        let group_pages = self.group();
        let group = self.versions.range(first..first + group_pages);
        let valid = group.filter(|(at, version)| self.newest_published(version.page) == Some(**at));
        let pages = valid.map(|(_, version)| (version.page, version.note, version.dirty)).collect();
        let weights = self.weights(pages);
        self.evidence.dequeue(weights, group_pages, group_pages - (group_pages / 8).max(1));
    }

    fn weight(&self, version: &Version) -> u64 {
        self.evidence.weight(version.page, version.note, version.dirty)
    }

    /// The slots below this position are released.
    pub(super) fn leave(&mut self, released: u64) {
        for position in self.released..released {
            let Some(version) = self.versions.get(&position) else { continue };
            let (page, note, dirty) = (version.page, version.note, version.dirty);
            // A page with a newer version in staging stays in the cache.
            if self.newest(page) == Some(position) {
                self.evidence.leave(page, note, dirty);
            }
        }
    }

    /// `reuse`: an unlikely page goes to disk alone, unless it has changed and an older copy may come back.
    pub(super) fn is_kept_out(&mut self, page: PageId, dirty: bool, fdirty: bool) -> bool {
        if self.config.policy != PolicyKind::Reuse || self.newest(page).is_some() {
            return false;
        }
        let weight = self.evidence.weight_of_offer(page, dirty);
        let is_unlikely = self.evidence.is_unlikely(weight);
        let lags = self.released - self.front_durable > 8 * self.group();
        let may_return = lags || self.gone.values().any(|gone| *gone == page) || self.records.name(page);
        let must_enter = fdirty && self.takes_changes || (dirty || fdirty) && may_return;
        is_unlikely && !must_enter
    }

    /// The partition counts as the model does.
    pub(super) fn assert_counts(&self, occupancy: &Occupancy) {
        let published = self.versions.values().filter(|v| v.published);
        let held = published.clone().count();
        // In ascending position: the newest remains.
        let pages: BTreeMap<PageId, bool> =
            published.filter(|v| !v.forgotten).map(|v| (v.page, v.dirty)).collect();
        let dirty = pages.values().filter(|dirty| **dirty).count();
        assert_eq!(occupancy.valid as usize, pages.len(), "valid");
        assert_eq!(occupancy.dirty as usize, dirty, "dirty");
        assert_eq!(occupancy.superseded as usize, held - pages.len(), "superseded");
        assert_eq!(occupancy.entered, self.rear);
    }
}

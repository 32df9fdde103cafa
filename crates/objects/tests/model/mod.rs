//! The naive model: each object and each page, with the changes that made and unmade them.

use entresol_core::PageId;
use entresol_objects::{CUTS_MAX, CutOutcome, Locator, ObjectId};
use std::collections::BTreeMap;

/// An object. It stays here after its number is free: a crash may undo its retirement.
struct Object {
    locator: Locator,
    defined_at: u64,
    /// The change that retired it, and its rear.
    retired: Option<(u64, u64)>,
    /// The front has passed it since.
    freed: bool,
    /// Page number, rear, and the change.
    cuts: Vec<(u32, u64, u64)>,
}

pub struct Model {
    objects_max: u32,
    /// In the order of their definitions. A number may be there again after it was free.
    objects: Vec<(ObjectId, Object)>,
    /// The change that made the version dead.
    pages: BTreeMap<(u64, PageId), Option<u64>>,
    numbers: u32,
}

impl Model {
    pub fn new(objects_max: u32) -> Self {
        Self { objects_max, objects: Vec::new(), pages: BTreeMap::new(), numbers: 0 }
    }

    fn living(&self) -> impl Iterator<Item = &(ObjectId, Object)> {
        self.objects.iter().filter(|(_, object)| object.retired.is_none())
    }

    fn get(&mut self, object: ObjectId) -> &mut Object {
        let found = self.objects.iter_mut().find(|(id, found)| *id == object && found.retired.is_none());
        &mut found.expect("a live object").1
    }

    pub fn live(&self) -> impl Iterator<Item = ObjectId> {
        self.living().map(|(id, _)| *id)
    }

    pub fn named(&self) -> Vec<(ObjectId, Locator)> {
        self.living().map(|(id, object)| (*id, object.locator)).collect()
    }

    /// Live objects of these locators, by number.
    pub fn live_where(&self, matches: impl Fn(&Locator) -> bool) -> Vec<ObjectId> {
        let mut all: Vec<_> =
            self.living().filter(|(_, object)| matches(&object.locator)).map(|(id, _)| *id).collect();
        all.sort_unstable();
        all
    }

    pub fn lookup(&self, locator: &Locator) -> Option<ObjectId> {
        self.living().find(|(_, object)| object.locator == *locator).map(|(id, _)| *id)
    }

    pub fn was_defined(&self, object: ObjectId) -> bool {
        object.0 < self.numbers
    }

    pub fn defined_at(&mut self, object: ObjectId) -> u64 {
        self.get(object).defined_at
    }

    pub fn define(&mut self, object: ObjectId, locator: Locator, at: u64, front: u64) {
        assert!(self.held().all(|(id, _)| *id != object), "{object:?} is in use");
        let left = self.pages.keys().find(|(_, page)| page.object() == object.0);
        assert!(left.is_none(), "{object:?} is reused while {left:?} may come back, front {front}");
        self.numbers = self.numbers.max(object.0 + 1);
        self.objects.push((
            object,
            Object { locator, defined_at: at, retired: None, freed: false, cuts: Vec::new() },
        ));
    }

    /// Objects whose numbers are not free.
    fn held(&self) -> impl Iterator<Item = &(ObjectId, Object)> {
        self.objects.iter().filter(|(_, object)| !object.freed)
    }

    pub fn is_full(&self) -> bool {
        self.held().count() == self.objects_max as usize
    }

    pub fn enter(&mut self, page: PageId, position: u64) {
        self.pages.insert((position, page), None);
    }

    pub fn last_position(&self, object: ObjectId) -> Option<u64> {
        let of = |(position, page): &(u64, PageId)| (page.object() == object.0).then_some(*position);
        self.pages.keys().filter_map(of).max()
    }

    fn kill(&mut self, at: u64, killed: impl Fn(PageId, u64) -> bool) {
        for ((position, page), dead) in &mut self.pages {
            if killed(*page, *position) {
                dead.get_or_insert(at);
            }
        }
    }

    pub fn retire(&mut self, object: ObjectId, rear: u64, at: u64) {
        let later = self.held().filter_map(|(_, object)| object.retired).map(|(_, rear)| rear).max();
        self.get(object).retired = Some((at, rear.max(later.unwrap_or(0))));
        self.kill(at, |page, _| page.object() == object.0);
    }

    /// Cuts that no other one implies.
    fn needed(cuts: &[(u32, u64, u64)]) -> usize {
        let mut pairs: Vec<_> = cuts.iter().map(|(number, rear, _)| (*number, *rear)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let implied = |a: &(u32, u64)| pairs.iter().any(|b| a != b && b.0 <= a.0 && b.1 >= a.1);
        pairs.iter().filter(|cut| !implied(cut)).count()
    }

    pub fn cut(&mut self, object: ObjectId, number: u32, rear: u64, at: u64, front: u64) -> CutOutcome {
        let cuts = &mut self.get(object).cuts;
        cuts.retain(|(_, rear, _)| *rear > front);
        if rear <= front || cuts.iter().any(|cut| cut.0 <= number && cut.1 >= rear) {
            return CutOutcome::Implied;
        }
        cuts.push((number, rear, at));
        if Self::needed(cuts) > CUTS_MAX {
            cuts.pop();
            return CutOutcome::TooMany;
        }
        self.kill(at, |page, position| {
            page.object() == object.0 && page.number() >= number && position < rear
        });
        CutOutcome::Kept
    }

    pub fn front_passed(&mut self, front: u64) -> u32 {
        self.pages.retain(|(position, _), _| *position >= front);
        let mut freed = 0;
        for (_, object) in &mut self.objects {
            if !object.freed && object.retired.is_some_and(|(_, rear)| rear <= front) {
                object.freed = true;
                freed += 1;
            }
        }
        freed
    }

    /// All pages with their positions, and whether they are dead.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, u64, bool)> {
        self.pages.iter().map(|((position, page), dead)| (*page, *position, dead.is_some()))
    }

    /// A crash that no change after `last`, and no page from `rear` on, has survived.
    pub fn crash(&mut self, last: u64, front: u64, rear: u64) {
        self.pages.retain(|(position, _), _| *position < rear);
        for dead in self.pages.values_mut() {
            *dead = dead.filter(|at| *at <= last);
        }
        self.objects.retain(|(_, object)| object.defined_at <= last);
        for (_, object) in &mut self.objects {
            object.retired = object.retired.filter(|(at, _)| *at <= last);
            object.freed &= object.retired.is_some();
            object.cuts.retain(|(_, _, at)| *at <= last);
            for cut in &mut object.cuts {
                cut.1 = cut.1.min(rear);
            }
        }
        self.front_passed(front);
        self.objects.retain(|(_, object)| !object.freed);
    }
}

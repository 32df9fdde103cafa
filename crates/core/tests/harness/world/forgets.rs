//! Forgetting: pages die, and a write past the cache gives each its next version on disk.
//!
//! 1. The cache forgets the pages. Nobody uses them until step 2 is done.
//! 2. The pages are written to disk. If an older version may be on its way there, that waits until the
//!    dequeues that were open have ended.
//! 3. The write becomes durable on disk. The partition is told so later.
//! 4. The records of the forgotten pages become durable on flash. Only now the driver promises that no older
//!    version returns.

use super::*;
use entresol_core::{FORGET_PAGES_MAX, Forget, Forgotten};
use std::ops::RangeInclusive;

/// How far a death has come.
enum Stage {
    /// The entries of the directory, or the pages, from `next` on were not searched yet.
    Steps { below: Position, next: u32, by_page: bool },
    /// The write to disk waits for the dequeues of the groups at these positions.
    Waits(Vec<u64>),
    /// On disk, and durable there when its number is.
    Written { records: u64 },
}

/// Pages that died together.
pub(super) struct Death {
    /// Some may not exist.
    pages: RangeInclusive<u32>,
    /// The new version of the first page; each page has the next number.
    version: u64,
    after: u64,
    stage: Stage,
}

impl Death {
    fn ids(&self) -> (PageId, PageId) {
        (id(*self.pages.start()), id(*self.pages.end()))
    }

    fn is_unwritten(&self) -> bool {
        !matches!(self.stage, Stage::Written { .. })
    }

    /// Those of its pages that exist, if `pages` do.
    fn existing(&self, pages: usize) -> std::ops::Range<u32> {
        *self.pages.start()..(self.pages.end() + 1).min(pages as u32)
    }

    fn version_of(&self, page: u32) -> Option<u64> {
        self.pages.contains(&page).then(|| self.version + u64::from(page - self.pages.start()))
    }
}

/// A page on disk whose newest writes are not durable.
#[derive(Clone, Debug)]
pub struct Unsynced {
    /// The durable version.
    pub before: u64,
    /// Writes since: number and version.
    pub writes: Vec<(u64, u64)>,
}

/// All that died, and what is durable of it.
#[derive(Default)]
pub struct Deaths {
    /// Those that are not promised yet.
    deaths: Vec<Death>,
    /// Number of the newest.
    pub newest: u64,
    /// The deaths up to this number are durable on disk.
    pub synced: u64,
    /// What the partition was told of that.
    told: u64,
    /// Greatest number of a death of dirty pages.
    dirty: u64,
    /// Records before this number are durable.
    recorded: u64,
    pub unsynced: BTreeMap<u32, Unsynced>,
    /// Writes become durable once in so many chances.
    pub sync_one_in: usize,
    /// Counters: pages that were found in the cache, dirty ones, writes that waited for dequeues, requests
    /// that had to come again, long ranges.
    pub found: u64,
    pub found_dirty: u64,
    pub waits: u64,
    pub full: u64,
    pub long: u64,
    pub promised: u64,
}

impl Deaths {
    /// Whether the page was forgotten and its new version is not on disk yet.
    pub(super) fn is_dying(&self, page: u32) -> bool {
        let mut unwritten = self.deaths.iter().filter(|death| death.is_unwritten());
        unwritten.any(|death| death.pages.contains(&page))
    }

    /// Whether a crash may take this version on disk back.
    pub fn may_be_undone(&self, page: u32, version: u64) -> bool {
        self.deaths.iter().any(|death| death.version_of(page) == Some(version))
    }

    /// Whether the writes of all deaths up to a number are durable on disk.
    pub(super) fn are_durable_to(&self, number: u64) -> bool {
        let mut unwritten = self.deaths.iter().filter(|death| death.is_unwritten());
        let mut writes = self.unsynced.values().flat_map(|unsynced| &unsynced.writes);
        !unwritten.any(|death| death.after <= number) && !writes.any(|(after, _)| *after <= number)
    }

    pub(super) fn is_any_unfinished(&self) -> bool {
        !self.deaths.is_empty() || self.told < self.dirty
    }

    /// All is undone, or stays as it is.
    pub(super) fn crash(&mut self) {
        self.deaths.clear();
        self.unsynced.clear();
        (self.synced, self.told, self.dirty, self.recorded) = (self.newest, 0, 0, 0);
    }
}

impl World {
    /// One random step of a death.
    pub(super) fn forget_step(&mut self, choices: &mut Choices) {
        match choices.below(8) {
            0 | 1 => self.forget_some(choices),
            2 if self.dead.sync_one_in > 1 || choices.once_in(3) => self.forget_begin(choices),
            2 | 3 if self.dead.sync_one_in > 1 && !choices.once_in(self.dead.sync_one_in) => {}
            2 | 3 => self.sync_dead(choices),
            4 => self.tell_dead(),
            _ => {
                let deaths = self.dead.deaths.iter().enumerate();
                let unwritten: Vec<usize> =
                    deaths.filter(|(_, death)| death.is_unwritten()).map(|(at, _)| at).collect();
                let step = 1 + choices.below(partition!(self).entries() as usize / 2) as u32;
                if !unwritten.is_empty() {
                    self.advance_death(unwritten[choices.below(unwritten.len())], step);
                }
            }
        }
    }

    /// Forgets a few pages, or some ranges that follow each other.
    fn forget_some(&mut self, choices: &mut Choices) {
        let first = choices.below(self.pages_used) as u32;
        let after = self.dead.newest + 1;
        let (mut next, mut in_dequeue) = (first, false);
        let pieces = if choices.once_in(4) { 3 } else { 1 };
        for _ in 0..pieces {
            let most = if choices.once_in(6) { FORGET_PAGES_MAX as usize } else { 3 };
            let last = next + choices.below(most) as u32;
            if (next..=last).any(|page| self.dead.is_dying(page)) {
                break;
            }
            let got = partition!(self).forget(id(next), id(last), after);
            self.model.forget((id(next), id(last)), after, &got);
            let Forget::Done { in_dequeue: waits, .. } = got else {
                self.dead.full += 1;
                break;
            };
            self.count(&got, after);
            in_dequeue |= waits;
            next = last + 1;
        }
        if next > first {
            let stage = Stage::Waits(if in_dequeue { self.copies_under_way() } else { Vec::new() });
            self.dead.waits += u64::from(in_dequeue);
            self.begin_death(first..=next - 1, stage);
            self.advance_death(self.dead.deaths.len() - 1, 0);
        }
    }

    /// Begins to forget a long range.
    fn forget_begin(&mut self, choices: &mut Choices) {
        let first = choices.below(self.pages_used) as u32;
        let last = first + choices.below(2 * self.pages_used) as u32;
        let is_dying = (first..=last).any(|page| self.dead.is_dying(page));
        if is_dying || self.config.policy.placement() == Placement::Slots {
            return;
        }
        let after = self.dead.newest + 1;
        let got = log(&mut partition!(self)).forget_begin(id(first), id(last), after);
        self.model.forget_begin((id(first), id(last)), after, got);
        match got {
            None => self.dead.full += 1,
            Some(below) => {
                self.dead.long += 1;
                let by_page = last.is_multiple_of(2);
                self.begin_death(
                    first..=last,
                    Stage::Steps { below, next: if by_page { first } else { 0 }, by_page },
                );
            }
        }
    }

    fn begin_death(&mut self, pages: RangeInclusive<u32>, stage: Stage) {
        let death = Death { version: self.next_version, after: self.dead.newest + 1, pages, stage };
        self.dead.newest += 1;
        self.next_version += death.pages.clone().count() as u64;
        for page in death.existing(self.disk.len()) {
            self.dram.remove(&page);
            self.current[page as usize] = death.version_of(page).expect("it is one of them");
        }
        self.dead.deaths.push(death);
    }

    fn count(&mut self, got: &Forget, after: u64) {
        let Forget::Done { found, dirty, .. } = *got else { panic!("{got:?}") };
        self.dead.found += u64::from(found);
        self.dead.found_dirty += u64::from(dirty);
        if dirty > 0 {
            self.dead.dirty = self.dead.dirty.max(after);
        }
    }

    /// A dirty page of a long range is forgotten instead of its second chance.
    pub(super) fn dies_before_its_turn(&mut self, page: u32) {
        let deaths = self.dead.deaths.iter().filter(|death| matches!(death.stage, Stage::Steps { .. }));
        let after = deaths.filter(|death| death.pages.contains(&page)).map(|death| death.after).max();
        self.dead.dirty = self.dead.dirty.max(after.expect("a range that is being forgotten"));
    }

    /// The dequeues under way, by their first position, and the cleanings.
    fn copies_under_way(&self) -> Vec<u64> {
        let first = |job: &InFlight| {
            let generation = match job {
                InFlight::Dequeue { pages, .. } => pages[0].generation,
                InFlight::Clean { page, .. } => page.generation,
                InFlight::Write { .. } => return None,
            };
            match generation {
                Generation::Exact(position) => Some(position.0),
                Generation::LowByte(_) => None,
            }
        };
        self.jobs.iter().filter_map(first).collect()
    }

    /// Advances a death by one step; `entries` are searched in it. False if there is nothing to do.
    pub(super) fn advance_death(&mut self, at: usize, entries: u32) -> bool {
        let open = self.copies_under_way();
        let death = &mut self.dead.deaths[at];
        let (ids, after) = (death.ids(), death.after);
        match &mut death.stage {
            &mut Stage::Steps { below, next: from, by_page } => {
                let (all, most) = match by_page {
                    true => (death.pages.end() + 1, FORGET_PAGES_MAX as u32),
                    false => (partition!(self).entries(), u32::MAX),
                };
                let end = (from + entries.clamp(1, most)).min(all);
                let got = if by_page {
                    let part = (id(from), id(end - 1));
                    let got = log(&mut partition!(self)).forget_below(part, below, after);
                    self.model.forget_below(part, below, &got);
                    got
                } else {
                    let got = log(&mut partition!(self)).forget_entries(ids, below, after, from..end);
                    self.model.forget_entries(ids, below, from..end, &got);
                    got
                };
                self.count(&got, after);
                let begun = log(&mut partition!(self)).dequeues_begun();
                let in_dequeue = log(&mut partition!(self)).is_in_dequeue(ids.0, ids.1, begun);
                self.dead.waits += u64::from(end == all && in_dequeue);
                self.dead.deaths[at].stage = match end == all {
                    true => Stage::Waits(if in_dequeue { open } else { Vec::new() }),
                    false => Stage::Steps { below, next: end, by_page },
                };
                true
            }
            Stage::Waits(dequeues) => {
                dequeues.retain(|first| open.contains(first));
                dequeues.is_empty() && {
                    self.write_dead(at);
                    true
                }
            }
            Stage::Written { .. } => false,
        }
    }

    fn write_dead(&mut self, at: usize) {
        let records = self.dead.recorded + u64::from(self.records_waiting());
        let death = &mut self.dead.deaths[at];
        death.stage = Stage::Written { records };
        for page in death.existing(self.disk.len()) {
            let version = death.version_of(page).expect("it is one of them");
            assert!(!self.disk_writes.contains_key(&page), "an older version of page {page} is on its way");
            let disk = &mut self.disk[page as usize];
            assert!(version > *disk, "the disk copy of page {page} would go back");
            let unsynced = self.dead.unsynced.entry(page);
            let unsynced = unsynced.or_insert_with(|| Unsynced { before: *disk, writes: Vec::new() });
            unsynced.writes.push((death.after, version));
            *disk = version;
        }
    }

    /// The disk makes some or all of the writes durable.
    fn sync_dead(&mut self, choices: &mut Choices) {
        let unwritten = self.dead.deaths.iter().filter(|death| death.is_unwritten());
        let end = unwritten.map(|death| death.after).min().unwrap_or(self.dead.newest + 1);
        let possible = end - 1 - self.dead.synced.min(end - 1);
        self.dead.synced += choices.below(possible as usize + 1) as u64;
        let synced = self.dead.synced;
        self.dead.unsynced.retain(|_, unsynced| {
            let durable = unsynced.writes.iter().rfind(|(number, _)| *number <= synced);
            unsynced.before = durable.map_or(unsynced.before, |(_, version)| *version);
            unsynced.writes.retain(|(number, _)| *number > synced);
            !unsynced.writes.is_empty()
        });
        self.promise();
    }

    fn tell_dead(&mut self) {
        self.dead.told = self.dead.synced;
        if let Some(log) = partition!(self).log_mut() {
            log.dead_is_durable(self.dead.synced);
        }
    }

    /// Records before number `end` are durable on flash.
    pub(super) fn recorded(&mut self, end: u64) {
        self.dead.recorded = self.dead.recorded.max(end);
        self.promise();
    }

    /// Promises what is durable on disk and recorded on flash.
    fn promise(&mut self) {
        let Deaths { deaths, synced, recorded, promised, .. } = &mut self.dead;
        deaths.retain(|death| {
            let Stage::Written { records } = death.stage else { return true };
            let is_durable = death.after <= *synced && records <= *recorded;
            for page in death.existing(self.durable.len()).filter(|_| is_durable) {
                let durable = &mut self.durable[page as usize];
                *durable = death.version_of(page).expect("it is one of them").max(*durable);
                *promised += 1;
            }
            !is_durable
        });
    }

    /// Ends all deaths as far as other work lets them. False if there is nothing to do.
    pub(super) fn settle_dead(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.dead.deaths.len() {
            moved |= self.advance_death(at, u32::MAX / 2);
        }
        if !self.dead.deaths.iter().any(Death::is_unwritten) && self.dead.told < self.dead.newest {
            self.dead.synced = self.dead.newest;
            self.sync_dead(&mut Choices::from_seed(0));
            self.tell_dead();
            moved = true;
        }
        moved
    }

    pub(super) fn verify_dead(&mut self) {
        let expected = (self.dead.dirty > self.dead.told).then_some(self.dead.dirty);
        if let Some(log) = partition!(self).log() {
            assert_eq!(log.awaits_dead(), expected, "what must be durable before slots are released");
        }
    }

    /// All promises are kept when nothing is left to do.
    pub(super) fn assert_all_promised(&mut self) {
        assert!(self.dead.deaths.is_empty(), "forgotten pages were not recorded");
    }

    /// Copies of pages that a record on flash makes stale.
    pub fn is_stale(record: &Forgotten, page: u32, position: u64) -> bool {
        (record.first..=record.last).contains(&id(page)) && position < record.below.0
    }
}

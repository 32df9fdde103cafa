//! Slots that survive a crash: a driver writes batches with their summaries and, now and then, segments of
//! the directory, and loses power at any moment. What segments and summaries say after that is looked up in
//! the slots: each page is there, or on disk, in a version that is no older than the last durable one.

use entresol_core::{
    Admission, BATCH_EMPTIED_MAX, BATCH_PAGES_MAX, CleanPage, Config, Extent, FlushGoal, Job, Lookup, Lsn,
    PageId, Partition, PolicyKind, Position, SlotId, Ticket, WritePage, region_bytes,
};
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::IntoBytes;

const SEGMENTS: u32 = 3;

/// Pseudo-random choices.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }
}

/// What a summary says.
#[derive(Clone)]
struct Summary {
    /// Slots with their pages.
    pages: Vec<(SlotId, PageId, bool)>,
    emptied: Vec<SlotId>,
}

/// A segment of the directory.
#[derive(Clone, Default)]
struct Segment {
    since: u64,
    slots: BTreeMap<u32, (PageId, bool)>,
}

/// A job under way.
enum UnderWay {
    Write { ticket: Ticket, number: u64, pages: Vec<WritePage>, summary: Summary },
    Dequeue(Ticket, CleanPage),
    Clean(CleanPage),
}

/// The content of a slot: a page in a version; `None`: torn, or never written.
type Content = Option<(PageId, u64)>;

struct World {
    config: Config,
    region: Vec<u64>,
    choices: Choices,
    /// The newest version of each page.
    newest: Vec<u64>,
    /// The versions that are staged, by position.
    staged: BTreeMap<u64, (PageId, u64)>,
    /// Pages that are dead, and of which a crash may find an older version until the next flush.
    dead: BTreeSet<PageId>,
    /// Each page is durable in this version at least.
    durable: Vec<u64>,
    disk: Vec<u64>,
    flash: Vec<Content>,
    summaries: BTreeMap<u64, Summary>,
    segments: Vec<Segment>,
    /// A segment that is being copied: its number, how far it is, and what it is so far.
    copying: Option<(u32, u32, Segment)>,
    under_way: Vec<UnderWay>,
    rear: u64,
    crashes: u64,
    found: u64,
    batches: u64,
    full: u64,
    entered_though_unwanted: u64,
}

impl World {
    fn new(policy: PolicyKind, seed: u64) -> Self {
        let mut choices = Choices(seed);
        let group_pages = [2, 4, 8, 64][choices.below(4) as usize];
        let sizes =
            Config { group_pages, staging_groups: 2 + choices.below(3), ..Config::new(policy, 1 << 20) };
        let slots = sizes.slots_min() + choices.below(64);
        let set_slots = [1, 3, 16, 512][choices.below(4) as usize];
        let config = Config { slots, history: slots, set_slots, keeps_slots: true, proofs: true, ..sizes };
        let pages = slots as usize / 2 + choices.below(2 * slots) as usize;
        let mut world = Self {
            config,
            region: vec![0; region_bytes(&config) / 8],
            choices,
            newest: vec![0; pages],
            staged: BTreeMap::new(),
            dead: BTreeSet::new(),
            durable: vec![0; pages],
            disk: vec![0; pages],
            flash: vec![None; slots as usize],
            summaries: BTreeMap::new(),
            segments: vec![Segment::default(); SEGMENTS as usize],
            copying: None,
            under_way: Vec::new(),
            rear: 0,
            crashes: 0,
            found: 0,
            batches: 0,
            full: 0,
            entered_though_unwanted: 0,
        };
        Partition::format(world.region.as_mut_bytes(), &config).expect("valid");
        world
    }

    fn with<R>(&mut self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        let mut partition = Partition::attach(self.region.as_mut_bytes()).expect("formatted");
        step(&mut partition)
    }

    fn segment_of(&self, slot: u32) -> usize {
        (slot / self.config.slots.div_ceil(SEGMENTS)) as usize
    }

    fn step(&mut self) {
        match self.choices.below(100) {
            0..50 => self.evict(),
            50..65 => self.begin_job(),
            65..90 => self.end_job(),
            90..93 => self.fetch(),
            93..95 => self.forget(),
            95 => {
                self.flush();
                if self.choices.below(4) == 0 {
                    self.crash();
                }
            }
            _ => self.copy_segment(),
        }
        self.with(|partition| partition.check().expect("no invariant is broken"));
    }

    /// The buffer pool changes a page, or not, and evicts it.
    fn evict(&mut self) {
        let page = self.any_page();
        let at = page.0 as usize;
        let changes = self.choices.below(4) > 0;
        let was_there = self.with(|partition| partition.peek(page));
        let (newer, dirty) = match (changes, was_there) {
            (true, _) => (true, true),
            (false, Lookup::Staged { dirty, .. } | Lookup::Flash { dirty, .. }) => (false, dirty),
            (false, Lookup::Absent) => (false, false),
        };
        let version = self.newest[at] + u64::from(newer);
        // A page that changed may be unwanted, and come back.
        let (first, last) = (page, page);
        let returns = self.with(|partition| partition.slots().unwrap().may_come_back(first, last));
        match self.with(|partition| partition.evict(page, Lsn(version), dirty, newer)) {
            Admission::Stage { frame, position } => {
                self.newest[at] = version;
                self.dead.remove(&page);
                self.staged.insert(position.0, (page, version));
                self.with(|partition| partition.staged_with(frame, version as u32));
                self.entered_though_unwanted += u64::from(returns && newer);
            }
            Admission::AlreadyThere => assert!(!newer, "a changed page is not there"),
            Admission::Full => {
                self.full += 1;
                self.expect_progress();
            }
            Admission::Bypass { .. } => {
                self.newest[at] = version;
                if dirty {
                    assert!(
                        !returns,
                        "page {page} is written past the cache, and its older version may come back"
                    );
                    (self.disk[at], self.durable[at]) = (version, version);
                }
            }
        }
    }

    /// Where nothing is under way, there is something to do: a page waits for room.
    fn expect_progress(&mut self) {
        if self.under_way.is_empty() {
            let staged = self.with(|partition| partition.occupancy().staged);
            (0..20).for_each(|_| self.begin_job());
            // A search for jobs may have freed the frames of overtaken versions.
            let now = self.with(|partition| partition.occupancy());
            assert!(!self.under_way.is_empty() || now.staged < staged, "{now:?}");
        }
    }

    fn any_page(&mut self) -> PageId {
        let pages = self.newest.len() as u32;
        // Some are used far more than others.
        let end = [pages, pages / 4 + 1][self.choices.below(2) as usize];
        PageId(u64::from(self.choices.below(end)))
    }

    fn fetch(&mut self) {
        let page = self.any_page();
        let newest = self.newest[page.0 as usize];
        let found = self.with(|partition| partition.fetch(page));
        match found {
            Lookup::Staged { position, .. } => assert_eq!(self.staged[&position.0], (page, newest)),
            Lookup::Flash { slot, .. } => {
                assert_eq!(self.flash[slot.0 as usize], Some((page, newest)), "page {page}, slot {slot:?}");
                self.found += 1;
            }
            Lookup::Absent => {
                assert_eq!(self.disk[page.0 as usize], newest, "page {page} on disk");
                self.with(|partition| partition.missed(page));
                self.arrive(page, newest);
            }
        }
    }

    fn arrive(&mut self, page: PageId, version: u64) {
        let admission = self.with(|partition| partition.slots_mut().unwrap().arrived(page));
        if let Admission::Stage { frame, position } = admission {
            self.dead.remove(&page);
            self.staged.insert(position.0, (page, version));
            self.with(|partition| partition.staged_with(frame, version as u32));
        }
    }

    /// A page is dead: whatever a crash finds of it is allowed.
    fn forget(&mut self) {
        let page = self.any_page();
        let forgotten = self.with(|partition| partition.forget(page, page, 0));
        if matches!(forgotten, entresol_core::Forget::Done { .. }) {
            let at = page.0 as usize;
            // The owner writes it anew, in another version, to disk, when no older one can come back.
            if !self.with(|partition| partition.slots().unwrap().may_come_back(page, page)) {
                self.newest[at] += 1;
                (self.disk[at], self.durable[at]) = (self.newest[at], self.newest[at]);
            } else {
                self.newest[at] = self.disk[at];
                self.durable[at] = 0;
                self.dead.insert(page);
            }
        }
    }

    fn begin_job(&mut self) {
        let job = match self.choices.below(2) {
            0 => self.with(|partition| partition.next_write()),
            _ => self.with(|partition| partition.next_background()),
        };
        let begun = match job {
            None => return,
            Some(Job::Write { ticket, pages, .. }) => self.begin_batch(ticket, pages.to_vec()),
            Some(Job::Dequeue { ticket, pages, .. }) => {
                let page = pages[0].to_clean().expect("what is dequeued is destaged");
                UnderWay::Dequeue(ticket, page)
            }
            Some(Job::Clean(page)) => UnderWay::Clean(page),
            Some(Job::PullVictims(_)) => unreachable!("slots pull no victims"),
        };
        self.under_way.push(begun);
    }

    fn begin_batch(&mut self, ticket: Ticket, pages: Vec<WritePage>) -> UnderWay {
        assert!(pages.len() <= BATCH_PAGES_MAX);
        let (number, summary) = self.with(|partition| {
            let slots = partition.slots().expect("the pages are in slots");
            let from = pages.iter().filter_map(|page| Some(slots.moves_from(page.page?)?.slot));
            let emptied: Vec<SlotId> = slots.emptied(ticket).chain(from).collect();
            let named = pages.iter().map(|page| (page.slot, page.page.expect("a page"), page.dirty));
            let summary = Summary { pages: named.collect(), emptied };
            (slots.batch(ticket).expect("slots survive").number, summary)
        });
        assert!(summary.emptied.len() <= BATCH_EMPTIED_MAX + pages.len());
        // The writes begin: what was in these slots may be gone.
        for page in &pages {
            self.flash[page.slot.0 as usize] = None;
        }
        self.batches += 1;
        UnderWay::Write { ticket, number, pages, summary }
    }

    fn write(&mut self, number: u64, pages: &[WritePage], summary: Summary) {
        for page in pages {
            let staged = self.staged[&page.position.0];
            assert_eq!(Some(staged.0), page.page);
            self.flash[page.slot.0 as usize] = Some(staged);
        }
        self.summaries.insert(number, summary);
    }

    fn end_job(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let at = self.choices.below(self.under_way.len() as u32) as usize;
        match self.under_way.swap_remove(at) {
            UnderWay::Write { ticket, number, pages, summary } => {
                self.write(number, &pages, summary);
                for page in &pages {
                    let (id, version) = self.staged[&page.position.0];
                    let durable = &mut self.durable[id.0 as usize];
                    *durable = version.max(*durable);
                }
                self.with(|partition| partition.written(ticket, &pages));
            }
            UnderWay::Dequeue(ticket, page) => {
                self.copy(&page);
                self.with(|partition| partition.dequeued(ticket));
            }
            UnderWay::Clean(page) => {
                self.copy(&page);
                self.with(|partition| partition.cleaned(&page));
            }
        }
    }

    /// To disk, durably.
    fn copy(&mut self, page: &CleanPage) {
        let (id, version) = self.flash[page.slot.0 as usize].expect("a dirty page is whole");
        assert_eq!(id, page.page);
        assert!(version >= self.disk[id.0 as usize], "an older version follows to disk");
        self.disk[id.0 as usize] = version;
    }

    /// Everything that is staged, and all records, are durable when it ends.
    fn flush(&mut self) {
        let made = self.with(|partition| partition.slots().unwrap().records_made());
        let dead = std::mem::take(&mut self.dead);
        let extent = [Extent::Published, Extent::Flushed][self.choices.below(2) as usize];
        let mut goal = self.with(|partition| FlushGoal::begin(partition, extent));
        for _ in 0..10_000 {
            if self.with(|partition| goal.step(partition, true, false)) {
                assert!(self.with(|partition| partition.slots().unwrap().records_durable()) >= made);
                // Their owner uses their places on disk again: no older version may be found.
                for page in dead {
                    let at = page.0 as usize;
                    self.newest[at] += 1;
                    (self.disk[at], self.durable[at]) = (self.newest[at], self.newest[at]);
                }
                return;
            }
            self.begin_job();
            self.end_job();
        }
        panic!("a flush does not end: {:?}", self.with(|partition| partition.occupancy()));
    }

    /// Continues the copy of a segment, a few slots at a time.
    fn copy_segment(&mut self) {
        let per = self.config.slots.div_ceil(SEGMENTS);
        let (number, from, mut segment) = match self.copying.take() {
            Some(copying) => copying,
            None => {
                let number = self.choices.below(SEGMENTS);
                let since = self.with(|partition| partition.slots().unwrap().oldest_batch());
                (number, number * per, Segment { since, slots: BTreeMap::new() })
            }
        };
        let end = ((number + 1) * per).min(self.config.slots);
        let to = (from + 1 + self.choices.below(per)).min(end);
        self.with(|partition| {
            for slot in from..to {
                let view = partition.slot(SlotId(slot));
                segment.slots.extend(view.map(|view| (slot, (view.page, view.dirty))));
            }
        });
        if to < end {
            self.copying = Some((number, to, segment));
            return;
        }
        self.segments[number as usize] = segment;
        let oldest = self.segments.iter().map(|segment| segment.since).min().unwrap();
        self.summaries.retain(|number, _| *number >= oldest);
    }

    fn crash(&mut self) {
        self.crashes += 1;
        // Of the writes under way some are complete, others torn.
        for job in std::mem::take(&mut self.under_way) {
            if let UnderWay::Write { number, pages, summary, .. } = job
                && self.choices.below(2) == 0
            {
                self.write(number, &pages, summary);
            }
        }
        let next = self.summaries.keys().next_back().map_or(0, |number| number + 1);
        let next = next.max(self.with(|partition| partition.slots().unwrap().next_batch()));
        let found = self.recover();
        let rear = self.with(|partition| partition.window().1.0);
        self.rear = (rear + 1).next_multiple_of(self.config.group_pages.into());
        (self.copying, self.staged) = (None, BTreeMap::new());
        self.dead.clear();
        let config = self.config;
        Partition::format(self.region.as_mut_bytes(), &config).expect("valid");
        let rear = self.rear;
        self.with(|partition| {
            let slots = partition.slots_mut().unwrap();
            slots.restore_slots_begin(Position(rear));
            for (slot, (page, dirty)) in &found {
                assert!(slots.restore_slot(SlotId(*slot), *page, *dirty, Position(0)), "page {page} twice");
            }
            slots.restore_slots_end();
            slots.restore_batches(next);
        });
        let places: BTreeMap<PageId, u32> = found.iter().map(|(slot, (page, _))| (*page, *slot)).collect();
        for at in 0..self.newest.len() {
            let page = PageId(at as u64);
            let version = match places.get(&page) {
                None => self.disk[at],
                Some(slot) => {
                    let (id, version) = self.flash[*slot as usize].expect("a page that is found is whole");
                    assert_eq!(id, page, "slot {slot}");
                    version
                }
            };
            assert!(
                version >= self.durable[at],
                "page {page}: {version} found, {} durable",
                self.durable[at]
            );
            (self.newest[at], self.durable[at]) = (version, version);
        }
    }

    /// What segments and summaries say: each slot by itself.
    fn recover(&self) -> BTreeMap<u32, (PageId, bool)> {
        let mut found: BTreeMap<u32, (PageId, bool)> = BTreeMap::new();
        self.segments.iter().for_each(|segment| found.extend(segment.slots.clone()));
        for (number, summary) in &self.summaries {
            let is_news = |slot: &SlotId| *number >= self.segments[self.segment_of(slot.0)].since;
            for slot in summary.emptied.iter().filter(|slot| is_news(slot)) {
                found.remove(&slot.0);
            }
            for (slot, page, dirty) in summary.pages.iter().filter(|(slot, ..)| is_news(slot)) {
                found.insert(slot.0, (*page, *dirty));
            }
        }
        found
    }
}

fn run(policy: PolicyKind) {
    let (mut crashes, mut found, mut batches, mut full, mut returned) = (0, 0, 0, 0, 0);
    for seed in 0..60 {
        println!("{} seed {seed}", policy.name());
        let mut world = World::new(policy, seed * 977 + policy as u64);
        for _ in 0..4_000 {
            match world.choices.below(400) {
                0 => world.crash(),
                _ => world.step(),
            }
        }
        crashes += world.crashes;
        found += world.found;
        batches += world.batches;
        full += world.full;
        returned += world.entered_though_unwanted;
    }
    println!(
        "{crashes} crashes, {found} found, {batches} batches, {full} times full, {returned} that may return"
    );
    assert!(crashes > 400 && found > 500 && batches > 2000 && full > 100 && returned > 20);
}

#[test]
fn every_policy_survives_power_failures() {
    let policies = PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots());
    assert!(policies.clone().count() >= 8);
    policies.for_each(run);
}

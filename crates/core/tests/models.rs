//! Look-ups without the latch under shuttle: readers walk the index while a writer changes it, at every
//! access to a word of it. A reader proves what it has read from "flash" by page and position, as one of the
//! engine does by checksum, and takes the latch where it finds nothing. No version is older than what was
//! acknowledged, or served to anybody, before the read began.
//!
//! ```text
//! cargo test --release -p entresol-core --features shuttle --test models
//! ```

use entresol_core::{
    Admission, Config, DequeuePage, Fate, Forget, Generation, Job, Lookup, Lsn, PageId, Partition,
    PolicyKind, Position, Shape, index_words, own_bytes,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::thread;
use shuttle::{Config as Limits, Runner};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use zerocopy::IntoBytes;

const PAGES: u64 = 6;
const CAUSE: u64 = 1;

/// A slot of the flash.
#[derive(Clone, Copy, Default, PartialEq)]
struct Cell {
    page: u64,
    position: u64,
    version: u64,
}

struct World {
    shape: Shape,
    own: Mutex<Vec<u64>>,
    index: Vec<AtomicU32>,
    /// By slot. The lock is no point of shuttle's.
    flash: Vec<std::sync::Mutex<Cell>>,
    /// By frame, under the latch: the version of its page.
    staging: Vec<AtomicU64>,
    disk: Vec<AtomicU64>,
    /// By page: the newest version that was acknowledged or served.
    known: Vec<AtomicU64>,
    is_over: AtomicBool,
}

fn config(policy: PolicyKind) -> Config {
    let of_groups = |groups| Config { staging_groups: 2, ..Config::with_group(policy, 2 * groups, 2) };
    (1..100_u32).map(of_groups).find(|config| config.validate().is_ok()).expect("a possible configuration")
}

fn numbers(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl World {
    fn new(policy: PolicyKind) -> Self {
        let config = config(policy);
        let mut own = vec![0; own_bytes(&config) / 8];
        let index: Vec<_> = (0..index_words(&config)).map(|_| AtomicU32::new(0)).collect();
        Partition::format_parts(own.as_mut_bytes(), &index, &config).expect("a possible configuration");
        Self {
            shape: Shape::of_parts(own.as_bytes(), &index).expect("a partition"),
            own: Mutex::new(own),
            index,
            flash: (0..config.slots).map(|_| std::sync::Mutex::default()).collect(),
            staging: numbers((config.group_pages * config.staging_groups) as usize),
            disk: numbers(100),
            known: numbers(100),
            is_over: AtomicBool::new(false),
        }
    }

    fn with<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        let mut own = self.own.lock().expect("no task panics under the latch");
        step(&mut Partition::attach_parts(own.as_mut_bytes(), &self.index, &self.shape))
    }

    fn cell(&self, slot: u32) -> Cell {
        *self.flash[slot as usize].lock().expect("no task panics with it")
    }

    fn write(&self) -> bool {
        let Some(Job::Write { ticket, pages, completes_group, .. }) =
            self.with(|partition| partition.next_write())
        else {
            return false;
        };
        for page in &pages {
            thread::yield_now();
            let version = self.staging[page.frame.0 as usize].load(SeqCst);
            let cell = Cell { page: page.page.map_or(0, |page| page.0), position: page.position.0, version };
            *self.flash[page.slot.0 as usize].lock().expect("no task panics with it") = cell;
        }
        self.with(|partition| {
            let front = partition.window().0;
            let log = partition.log_mut().expect("a log");
            let recorded = completes_group.then(|| log.records(ticket, CAUSE).1);
            partition.written(ticket, &pages);
            if let (Some(recorded), Some(log)) = (recorded, partition.log_mut()) {
                log.recorded(recorded);
                log.front_is_durable(front);
            }
        });
        true
    }

    fn restage(&self, ticket: entresol_core::Ticket, page: &DequeuePage) {
        loop {
            let version = self.cell(page.slot.0).version;
            let admission = self.with(|partition| {
                let log = partition.log_mut().expect("a log");
                let admission = log.restage(ticket, page, Lsn(1));
                if let Admission::Stage { frame, .. } = admission {
                    self.staging[frame.0 as usize].store(version, SeqCst);
                    partition.staged(frame);
                }
                admission
            });
            if !matches!(admission, Admission::Full | Admission::Bypass { .. }) || !self.write() {
                return;
            }
        }
    }

    fn jobs(&self) {
        loop {
            while self.write() {}
            let Some(job) = self.with(|partition| partition.next_background()) else { return };
            match job {
                Job::Write { .. } => unreachable!("no background job is a write"),
                Job::PullVictims(_) => {}
                Job::Clean(page) => self.with(|partition| partition.cleaned(&page)),
                Job::Dequeue { ticket, pages, .. } => {
                    for page in pages.iter().filter(|page| page.page.is_some()) {
                        match page.fate {
                            Fate::Drop => {}
                            Fate::Destage => {
                                let Cell { page, version, .. } = self.cell(page.slot.0);
                                self.disk[page as usize].store(version, SeqCst);
                            }
                            Fate::SecondChance => self.restage(ticket, page),
                        }
                    }
                    self.with(|partition| partition.dequeued(ticket));
                }
            }
        }
    }

    fn evict(&self, page: u64, version: u64) {
        loop {
            let admission = self.with(|partition| {
                let admission = partition.evict(PageId(page), Lsn(1), true, true);
                if let Admission::Stage { frame, .. } = admission {
                    self.staging[frame.0 as usize].store(version, SeqCst);
                    partition.staged(frame);
                }
                admission
            });
            if let Admission::Stage { .. } = admission {
                self.known[page as usize].fetch_max(version, SeqCst);
                return;
            }
            self.jobs();
        }
    }

    /// The page is written past the flash.
    fn write_around(&self, page: u64, version: u64) {
        let forgotten = self.with(|partition| {
            let forgotten = partition.forget(PageId(page), PageId(page), CAUSE);
            partition.log_mut().expect("a log").dead_is_durable(CAUSE);
            forgotten
        });
        assert!(matches!(forgotten, Forget::Done { in_dequeue: false, .. }), "{forgotten:?}");
        self.disk[page as usize].store(version, SeqCst);
        self.known[page as usize].fetch_max(version, SeqCst);
    }

    /// A fetch. Returns whether it was a hit without the latch.
    fn fetch(&self, page: u64) -> bool {
        let least = self.known[page as usize].load(SeqCst);
        let index = self.shape.unlatched(&self.index).expect("hits need no latch");
        let is_proved = |cell: Cell, position: Position| cell.page == page && cell.position == position.0;
        let unlatched = index.fetch(PageId(page)).and_then(|hit| {
            thread::yield_now();
            let cell = self.cell(hit.slot.0);
            (is_proved(cell, hit.position) && index.is_current(&hit)).then_some(cell.version)
        });
        let version = unlatched.unwrap_or_else(|| {
            let found = self.with(|partition| match partition.fetch(PageId(page)) {
                Lookup::Staged { frame, .. } => Some(self.staging[frame.0 as usize].load(SeqCst)),
                Lookup::Flash { slot, generation: Generation::Exact(position), .. } => {
                    let cell = self.cell(slot.0);
                    assert!(is_proved(cell, position), "what the latch guards is there");
                    Some(cell.version)
                }
                Lookup::Flash { .. } => unreachable!("a log knows positions"),
                Lookup::Absent => None,
            });
            found.unwrap_or_else(|| {
                thread::yield_now();
                self.disk[page as usize].load(SeqCst)
            })
        });
        assert!(version >= least, "page {page}: version {version} was served, {least} was known before");
        self.known[page as usize].fetch_max(version, SeqCst);
        unlatched.is_some()
    }
}

static HITS: AtomicU64 = AtomicU64::new(0);

fn readers_and_a_writer(policy: PolicyKind) {
    let world = Arc::new(World::new(policy));
    let slots = u64::from(world.shape.config().slots);
    for nth in 0..slots + 4 {
        world.evict(nth % PAGES, 1 + nth / PAGES);
        world.jobs();
    }
    let first = 2 + (slots + 4) / PAGES;
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let world = world.clone();
            thread::spawn(move || {
                let mut nth = reader;
                while !world.is_over.load(SeqCst) {
                    HITS.fetch_add(u64::from(world.fetch(nth % PAGES)), SeqCst);
                    thread::yield_now();
                    nth += 1 + reader;
                }
            })
        })
        .collect();
    for nth in 0..12 {
        let (page, version) = (nth * 5 % PAGES, first + nth);
        if nth % 4 == 3 {
            world.evict(page, 2 * version);
            world.write_around(page, 2 * version + 1);
        } else {
            world.evict(page, 2 * version);
        }
        world.jobs();
    }
    world.is_over.store(true, SeqCst);
    readers.into_iter().for_each(|reader| reader.join().expect("it sees no older version"));
    world.with(|partition| partition.check()).expect("the index is whole");
}

fn check(policy: PolicyKind) {
    let limits = || {
        let mut limits = Limits::new();
        limits.stack_size = 1 << 20;
        limits.max_steps = shuttle::MaxSteps::None;
        limits
    };
    Runner::new(RandomScheduler::new(150), limits()).run(move || readers_and_a_writer(policy));
    Runner::new(PctScheduler::new(3, 150), limits()).run(move || readers_and_a_writer(policy));
    assert!(HITS.load(SeqCst) > 100, "readers hit without the latch");
}

#[test]
fn no_older_version_is_served_beside_second_chances() {
    check(PolicyKind::FaceGsc);
}

#[test]
fn no_older_version_is_served_beside_replacements_of_groups() {
    check(PolicyKind::FaceGr);
}

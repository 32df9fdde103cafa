//! The driver.

use super::crash::{self, Front, Recovered};
use super::reuse_evidence::costs;
use super::{Choices, Model, model_of};
use entresol_core::{
    Admission, CleanPage, Cleaning, Config, Costs, DequeuePage, DequeuePages, Fate, Flush, Generation, Job,
    Log, Lookup, Lsn, PageId, Partition, Placement, PolicyKind, Position, SlotId, Slots, Taken, Ticket,
    WritePage, WritePages, region_bytes,
};
use flushes::{SummaryCell, Summing};
use forgets::Deaths;
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::IntoBytes;

/// A page with its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub page: u32,
    pub version: u64,
    pub position: u64,
    pub dirty: bool,
}

/// A slot on the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    pub content: Option<Content>,
    /// A write is under way.
    pub writing: Option<Content>,
    /// The stamp of the page, written or being written.
    pub stamp: u64,
}

/// When the driver writes a changed page to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Back,
    Through,
    /// To disk, and nowhere else.
    Around,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    version: u64,
    dirty: bool,
    fdirty: bool,
}

/// A page that is being copied into staging.
struct Filling {
    content: Content,
    frame: u32,
    /// The dequeue that restages it.
    dequeue: Option<Ticket>,
}

#[expect(clippy::large_enum_variant, reason = "a few at a time")]
enum InFlight {
    Write { ticket: Ticket, pages: WritePages, flush: Option<Flush>, summing: Option<Summing> },
    Dequeue { ticket: Ticket, pages: DequeuePages, read: Vec<Content>, step: Step },
    Clean { page: CleanPage, read: Vec<Content>, step: Step },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Read,
    StartDestage,
    Destaging,
    /// The disk has refused these pages, by their places in the dequeue.
    Keep(u128),
    /// Second chances from this one on are to be restaged.
    Restage(usize),
}

/// The copy of a cleaning is read and written like that of a dequeue.
fn destaged(page: &CleanPage) -> DequeuePage {
    let CleanPage { page, slot, generation } = *page;
    DequeuePage { page: Some(page), slot, dirty: true, fate: Fate::Destage, generation }
}

/// The checksum of a page.
fn proof(content: &Content) -> u32 {
    let Content { page, version, position, .. } = *content;
    (u64::from(page) << 40 ^ version << 20 ^ position).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u32
}

const OBJECT: u32 = 7;

fn id(page: u32) -> PageId {
    PageId::new(OBJECT, page)
}

pub struct World {
    pub config: Config,
    pub region: Vec<u64>,
    pub model: Box<dyn Model>,
    dram: BTreeMap<u32, Frame>,
    dram_max: usize,
    filling: Vec<Filling>,
    staging: Vec<Option<Content>>,
    pub flash: Vec<Cell>,
    /// By page number.
    pub disk: Vec<u64>,
    /// Destages and cleanings under way.
    pub disk_writes: BTreeMap<u32, u64>,
    /// Newest version of each page.
    current: Vec<u64>,
    /// Newest version of each page that a crash must not lose.
    pub durable: Vec<u64>,
    /// Every position ever written, as segments and summaries on flash record it.
    pub directory: BTreeMap<u64, u32>,
    pub restored_front: u64,
    /// The front recorded durably before slots are overwritten.
    pub recorded_front: u64,
    pub restored_rear: u64,
    /// The front is recorded only when it must be.
    pub front_lags: bool,
    next_version: u64,
    jobs: Vec<InFlight>,
    /// Slot placement: next slot of the sweep.
    sweep: u32,
    pub mode: Mode,
    pub bypasses: u64,
    pub arrivals: u64,
    pub moves: u64,
    pub steps: u64,
    pub crashes: u64,
    pub destages: u64,
    pub redundant_destages: u64,
    pub second_chances: u64,
    /// How often one had to wait.
    pub waits: u64,
    pub flash_hits: u64,
    /// All work under way is ended once in this many steps.
    pub settle_every: usize,
    /// Clients use this many of the pages, from the first.
    pub pages_used: usize,
    /// Whether the machine crashes now and then.
    pub crash_often: bool,
    /// Most dequeues that were under way at once.
    pub dequeues_at_once: usize,
    /// Whether pages are forgotten and groups flushed.
    pub forgets_and_flushes: bool,
    pub dead: Deaths,
    pub walking: walks::Walking,
    /// The summaries of the groups of slots.
    pub summaries: Vec<SummaryCell>,
    /// Everything below this position is to be flushed.
    flush_promised: u64,
    /// Whether pages are held; those that are.
    pub holds: bool,
    held: Vec<holds::Held>,
    /// Whether the disk refuses pages; those that it refuses now, and how often one stayed for that.
    pub refuses: bool,
    /// Changed pages enter, whatever the policy says.
    takes_changes: bool,
    refused: BTreeSet<u32>,
    pub kept: u64,
    /// How often there was no room for that, and nothing else went on; so it is now.
    pub stuck: u64,
    is_stuck: bool,
    /// Steps at which a page was held that had entered a round of the ring before.
    pub stayed: u64,
    pub flushes: u64,
    pub flushes_full: u64,
    /// What the owner's log must keep.
    pub bases: bases::Bases,
}

macro_rules! partition {
    ($world:expr) => {
        Partition::attach($world.region.as_mut_bytes()).expect("the region holds a partition")
    };
}

/// What only log placement answers.
fn log<'p, 'r>(partition: &'p mut Partition<'r>) -> &'p mut Log<'r> {
    partition.log_mut().expect("log placement")
}

/// What only slot placement answers.
fn slots<'p, 'r>(partition: &'p mut Partition<'r>) -> &'p mut Slots<'r> {
    partition.slots_mut().expect("slot placement")
}

mod bases;
mod clients;
pub mod flushes;
pub mod forgets;
mod holds;
mod jobs;
mod restart;
pub mod walks;

impl World {
    pub fn new(config: Config, pages: u32, dram_max: usize) -> Self {
        let mut region = vec![0u64; region_bytes(&config) / 8];
        let mut partition =
            Partition::format(region.as_mut_bytes(), &config).expect("the configuration is valid");
        partition.set_costs(&costs(&config));
        Self {
            config,
            region,
            model: model_of(&config),
            dram: BTreeMap::new(),
            dram_max,
            filling: Vec::new(),
            staging: vec![None; config.staging_pages() as usize],
            flash: vec![Cell::default(); config.slots as usize],
            disk: vec![0; pages as usize],
            disk_writes: BTreeMap::new(),
            current: vec![0; pages as usize],
            durable: vec![0; pages as usize],
            directory: BTreeMap::new(),
            restored_front: 0,
            recorded_front: 0,
            restored_rear: 0,
            front_lags: false,
            next_version: 1,
            jobs: Vec::new(),
            sweep: 0,
            mode: if config.policy.write_back() { Mode::Back } else { Mode::Through },
            bypasses: 0,
            arrivals: 0,
            moves: 0,
            steps: 0,
            crashes: 0,
            destages: 0,
            redundant_destages: 0,
            second_chances: 0,
            waits: 0,
            flash_hits: 0,
            settle_every: usize::MAX,
            pages_used: pages as usize,
            crash_often: true,
            dequeues_at_once: 0,
            forgets_and_flushes: false,
            dead: Deaths::default(),
            walking: walks::Walking::default(),
            summaries: vec![SummaryCell::default(); config.slots.div_ceil(config.group_pages) as usize],
            flush_promised: 0,
            holds: false,
            held: Vec::new(),
            refuses: false,
            takes_changes: false,
            refused: BTreeSet::new(),
            kept: 0,
            stuck: 0,
            is_stuck: false,
            stayed: 0,
            flushes: 0,
            flushes_full: 0,
            bases: bases::Bases::default(),
        }
    }

    /// Whether a restart must begin at the recorded front.
    pub fn needs_recorded_front(&self) -> bool {
        self.forgets_and_flushes || self.config.policy == PolicyKind::Reuse
    }

    /// Changed pages enter from now on, whatever the policy says.
    pub fn take_changes(&mut self) {
        self.takes_changes = true;
        self.model.take_changes();
    }

    /// Runs until the choices or the steps are used up, then ends all work.
    pub fn run(&mut self, choices: &mut Choices, steps: usize) {
        for step in 1..=steps {
            if choices.is_over() {
                break;
            }
            self.step(choices);
            self.verify();
            if step.is_multiple_of(self.settle_every) {
                self.settle(true);
            }
        }
        self.assert_evictors_get_on();
        self.drain();
    }

    /// One random step.
    pub fn step(&mut self, choices: &mut Choices) {
        self.steps += 1;
        if self.forgets_and_flushes {
            let forgets = if self.dead.sync_one_in > 1 { 12 } else { 3 };
            match choices.below(32) {
                31 => return self.flush(),
                at if at < forgets => return self.forget_step(choices),
                _ => {}
            }
        }
        if self.config.keeps_bases && choices.once_in(12) {
            return self.checkpoint_step(choices);
        }
        if self.holds && choices.once_in(8) {
            return self.hold_step(choices);
        }
        if self.refuses && choices.once_in(8) {
            return self.change_refused(choices);
        }
        if self.config.policy.facts().weighs_costs && choices.once_in(100) {
            return self.change_worth(choices);
        }
        let pages = self.pages_used;
        match choices.below(100) {
            0..30 => {
                // Skewed, so that some pages are fetched again soon.
                let hot = choices.once_in(2);
                let page = choices.below(if hot { pages / 4 + 1 } else { pages });
                self.use_page(page as u32, choices);
            }
            30..45 => self.evict_one(choices),
            45..49 => {
                let at = choices.below(self.dram.len().max(1));
                if let Some(page) = self.dram.keys().nth(at).copied() {
                    self.evict_page(page, true);
                }
            }
            49..64 => self.finish_filling(choices),
            64..78 => {
                let writes_only = choices.once_in(4);
                self.take_job(writes_only);
            }
            78..96 => self.advance_job(choices),
            96 => self.close_group(),
            97 if choices.once_in(2) => {
                // Often one that is being copied already, maybe in an older version.
                let under_way = self.jobs.iter().find_map(|job| match job {
                    InFlight::Clean { page, .. } => Some(page.page.number()),
                    _ => None,
                });
                let page = under_way.filter(|_| choices.once_in(2)).unwrap_or(choices.below(pages) as u32);
                self.clean_one(page);
            }
            97 => self.sweep_one(),
            98 => self.region = self.region.clone(), // moves it
            _ => {
                if self.crash_often && choices.once_in(8) {
                    self.crash(choices);
                }
            }
        }
    }

    /// The disk refuses another page, or one less.
    fn change_refused(&mut self, choices: &mut Choices) {
        let page = choices.below(self.pages_used) as u32;
        let is_few = self.refused.len() < self.config.slots as usize / 8;
        match self.refused.first() {
            Some(first) if choices.once_in(3) || !is_few => drop(self.refused.remove(&first.clone())),
            _ => drop(self.refused.insert(page)),
        }
    }

    /// The owner wants another number of writes.
    fn change_worth(&mut self, choices: &mut Choices) {
        let write_worth_permille = [0, 0, 150, 1200, Costs::WRITE_WORTH_MAX][choices.below(5)];
        let costs = Costs { write_worth_permille, ..costs(&self.config) };
        partition!(self).set_costs(&costs);
        self.model.cost(&costs);
    }

    /// Asserts every invariant.
    pub fn verify(&mut self) {
        let partition = partition!(self);
        if let Err(violation) = partition.check() {
            panic!("step {}: {violation}", self.steps);
        }
        let (occupancy, window) = (partition.occupancy(), partition.window());
        let published = partition.published();
        let latched = |page: u32| self.filling.iter().any(|f| f.content.page == page);
        let below =
            (0..self.disk.len() as u32).filter(|page| !self.dram.contains_key(page) && !latched(*page));
        let below = below.filter(|page| !self.dead.is_dying(*page));
        let found: Vec<(u32, Lookup)> = below.map(|page| (page, partition.peek(id(page)))).collect();
        self.assert_proofs(&found);
        self.walk_on(&found);
        for (page, found) in found {
            self.assert_served(page, found);
        }
        self.verify_dead();
        self.verify_held();
        self.verify_flushed();
        self.verify_bases();
        self.model.verify(&occupancy, window, published);
        crash::assert_nothing_is_lost(self, self.steps);
    }

    /// The partition has the checksum of each page that it finds on flash.
    fn assert_proofs(&mut self, found: &[(u32, Lookup)]) {
        let partition = partition!(self);
        for (page, found) in found.iter().filter(|_| self.config.proofs) {
            let Lookup::Flash { slot, .. } = found else { continue };
            let content = self.flash[slot.0 as usize].content.expect("a page on flash");
            assert_eq!(partition.proof(*slot), proof(&content), "page {page}: {content:?}");
            let view = partition.slot(*slot).expect("the slot is in use");
            assert_eq!(view.proof, proof(&content), "page {page}: {content:?}");
        }
    }

    /// Ends all work under way, taking new jobs or not.
    fn settle(&mut self, new_jobs: bool) {
        let mut choices = Choices::from_seed(self.steps);
        for _ in 0..100_000 {
            let valid = partition!(self).occupancy().valid;
            let mut moved = new_jobs && self.take_job(false);
            // Looking for a job may make room, where clean pages are dropped.
            moved |= partition!(self).occupancy().valid < valid;
            while !self.filling.is_empty() {
                self.finish_filling(&mut choices);
                moved = true;
            }
            for at in (0..self.jobs.len()).rev() {
                moved |= self.advance(at);
                self.verify(); // so that the model knows what is released
            }
            if self.dead.is_any_unfinished() {
                self.verify(); // so that the model knows what is released
                moved |= self.settle_dead();
            }
            self.is_stuck = !moved && self.is_any_kept() && !self.is_stuck;
            if self.is_stuck {
                continue;
            }
            if !moved {
                if new_jobs {
                    self.assert_flushed();
                }
                return;
            }
            self.verify();
        }
        panic!("no rest after 100,000 rounds");
    }

    /// Whether a dequeue waits for room for what the disk has refused.
    fn is_any_kept(&self) -> bool {
        let waits = |job: &InFlight| matches!(job, InFlight::Dequeue { step: Step::Keep(_), .. });
        self.jobs.iter().any(waits)
    }

    /// Liveness: when no jobs are left, an evictor does not wait.
    pub fn assert_evictors_get_on(&mut self) {
        for round in 0..3 * self.config.slots {
            self.settle(true);
            assert!(self.jobs.is_empty(), "jobs wait for each other");
            let page = round % self.disk.len() as u32;
            if !self.dram.contains_key(&page) {
                let version = self.current[page as usize];
                let dirty = self.disk[page as usize] < version;
                self.dram.insert(page, Frame { version, dirty, fdirty: false });
            }
            // A changed page must be admitted.
            self.current[page as usize] = self.next_version;
            self.dram.insert(page, Frame { version: self.next_version, dirty: true, fdirty: true });
            self.next_version += 1;
            assert!(
                self.evict_page(page, false),
                "evictors wait, no job is available and nothing is in flight"
            );
            self.verify();
        }
    }

    /// Checkpoint: all pages staged before are durable after it. LC: on disk.
    pub fn drain(&mut self) {
        self.settle(true);
        self.record_all();
        let before: Vec<u32> =
            (0..self.disk.len() as u32).filter(|page| !self.dram.contains_key(page)).collect();
        let staged = partition!(self).window().1;
        self.close_group();
        self.settle(true);
        assert!(partition!(self).published() >= staged, "closing the group lets all of staging be written");
        if self.config.policy.placement() == Placement::Slots {
            self.sweep = 0;
            for _ in 0..=2 * self.config.slots {
                self.sweep_one();
                self.settle(false);
            }
            assert_eq!(partition!(self).occupancy().dirty, 0, "a sweep leaves nothing dirty");
            for page in before {
                assert_eq!(
                    self.disk[page as usize], self.current[page as usize],
                    "page {page} after the sweep"
                );
            }
        }
    }
}

//! The driver.

use super::crash::{self, Front, Recovered};
use super::{Choices, Model, model_of};
use entresol_core::{
    Admission, CleanPage, Config, DequeuePage, DequeuePages, Fate, Generation, Job, Lookup, Lsn, PageId,
    Partition, Placement, Position, SlotId, Taken, Ticket, WritePage, WritePages, region_bytes,
};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// A page with what is stamped into it.
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
    /// What is stamped into the page, or is being so.
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
    Write { ticket: Ticket, pages: WritePages },
    Dequeue { ticket: Ticket, pages: DequeuePages, read: Vec<Content>, step: Step },
    Clean { page: CleanPage, read: Vec<Content>, step: Step },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Read,
    StartDestage,
    Destaging,
    /// Second chances from this one on are to be restaged.
    Restage(usize),
}

/// The copy of a cleaning is read and written as that of a dequeue.
fn destaged(page: &CleanPage) -> DequeuePage {
    let CleanPage { page, slot, generation } = *page;
    DequeuePage { page: Some(page), slot, dirty: true, fate: Fate::Destage, generation }
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
    /// Every position that was ever written, as segments and summaries on flash know it.
    pub directory: BTreeMap<u64, u32>,
    pub restored_front: u64,
    /// The front that is recorded durably before slots are overwritten.
    pub recorded_front: u64,
    pub restored_rear: u64,
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
    pub flash_hits: u64,
    /// Everything under way ends once in so many steps.
    pub settle_every: usize,
    /// Of all pages, the first that clients use.
    pub pages_used: usize,
    /// Whether the machine crashes now and then.
    pub crash_often: bool,
    /// Most dequeues that were under way at once.
    pub dequeues_at_once: usize,
}

macro_rules! partition {
    ($world:expr) => {
        Partition::attach($world.region.as_mut_bytes()).expect("the region holds a partition")
    };
}

impl World {
    pub fn new(config: Config, pages: u32, dram_max: usize) -> Self {
        let mut region = vec![0u64; region_bytes(&config) / 8];
        Partition::format(region.as_mut_bytes(), &config).expect("the configuration is valid");
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
            flash_hits: 0,
            settle_every: usize::MAX,
            pages_used: pages as usize,
            crash_often: true,
            dequeues_at_once: 0,
        }
    }

    /// Runs until the choices or the steps are over, then to rest.
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
            97 => self.sweep_one(),
            98 => self.region = self.region.clone(), // moves it
            _ => {
                if self.crash_often && choices.once_in(8) {
                    self.crash(choices);
                }
            }
        }
    }

    /// A client reads the page, and perhaps changes it.
    fn use_page(&mut self, page: u32, choices: &mut Choices) {
        if self.filling.iter().any(|f| f.content.page == page) {
            return; // latched until its copy is complete
        }
        if !self.dram.contains_key(&page) {
            if self.dram.len() >= self.dram_max {
                self.evict_one(choices);
            }
            if self.dram.len() >= self.dram_max {
                return;
            }
            let found = partition!(self).fetch(id(page));
            self.model.fetch(id(page), &found);
            self.flash_hits += u64::from(matches!(found, Lookup::Flash { .. }));
            let dirty = self.assert_served(page, found);
            self.dram.insert(page, Frame { version: self.current[page as usize], dirty, fdirty: false });
            match found {
                Lookup::Absent => self.arrived(page),
                // A driver need not take the page.
                _ if self.config.policy.exclusive() && choices.once_in(8) => {}
                _ => self.taken(page),
            }
        }
        if choices.once_in(2) {
            let frame = self.dram.get_mut(&page).expect("just fetched");
            *frame = Frame { version: self.next_version, dirty: true, fdirty: true };
            self.current[page as usize] = self.next_version;
            self.next_version += 1;
        }
    }

    /// The page has come from disk.
    fn arrived(&mut self, page: u32) {
        let got = partition!(self).arrived(id(page));
        self.model.arrived(id(page), got);
        if let Admission::Stage { frame, position } = got {
            self.arrivals += 1;
            let version = self.current[page as usize];
            let content = Content { page, version, position: position.0, dirty: false };
            self.staging[frame.0 as usize] = None;
            self.filling.push(Filling { content, frame: frame.0, dequeue: None });
        }
    }

    /// The page has been read into DRAM.
    fn taken(&mut self, page: u32) {
        let got = partition!(self).taken(id(page));
        self.model.taken(id(page), got);
        if let Taken::Moved { dirty } = got {
            self.moves += 1;
            let frame = self.dram.get_mut(&page).expect("just fetched");
            assert!(dirty || !frame.dirty || self.disk[page as usize] == frame.version);
            frame.fdirty = frame.dirty;
        }
    }

    /// Asserts that what the partition says leads to the newest version; returns whether it is newer than
    /// disk.
    fn assert_served(&self, page: u32, found: Lookup) -> bool {
        let expected = self.current[page as usize];
        let (content, dirty) = match found {
            Lookup::Absent => {
                assert_eq!(
                    self.disk[page as usize], expected,
                    "page {page} is absent, and the disk is not current"
                );
                return false;
            }
            Lookup::Staged { frame, position, dirty } => {
                let content = self.staging[frame.0 as usize].expect("a staged page");
                assert_eq!(content.position, position.0);
                (content, dirty)
            }
            Lookup::Flash { slot, generation, dirty } => {
                let cell = self.flash[slot.0 as usize];
                assert!(cell.writing.is_none(), "slot {} is served while it is written", slot.0);
                let content = cell.content.expect("a page on flash");
                assert!(generation.matches(Position(cell.stamp)), "{generation:?} against {content:?}");
                (content, dirty)
            }
        };
        assert_eq!((content.page, content.version), (page, expected), "{found:?}");
        assert!(
            dirty || self.disk[page as usize] >= expected,
            "page {page} is newer than disk, but not dirty"
        );
        dirty
    }

    fn evict_one(&mut self, choices: &mut Choices) {
        let at = choices.below(self.dram.len().max(1));
        if let Some(page) = self.dram.keys().nth(at).copied() {
            self.evict_page(page, false);
        }
    }

    /// Evicts a page; `keep` writes it out without giving up its frame. False if the tier is full.
    fn evict_page(&mut self, page: u32, keep: bool) -> bool {
        if self.filling.iter().any(|f| f.content.page == page) {
            return false;
        }
        let Frame { version, dirty, fdirty } = self.dram[&page];
        let mut frame = Frame { version, dirty, fdirty: false };
        let got = if self.mode == Mode::Around && fdirty {
            let got = partition!(self).bypass(id(page));
            self.model.bypassed(id(page), got);
            got
        } else {
            if self.mode == Mode::Through && dirty {
                self.write_to_disk(page, version);
                frame.dirty = false;
            }
            let got = partition!(self).evict(id(page), Lsn(version), frame.dirty, fdirty);
            self.model.evict(id(page), frame.dirty, fdirty, got);
            got
        };
        match got {
            Admission::Full => return false,
            Admission::AlreadyThere => {}
            Admission::Bypass { .. } => {
                self.bypasses += 1;
                if frame.dirty {
                    self.write_to_disk(page, version);
                    frame.dirty = false;
                }
            }
            Admission::Stage { frame: place, position } => {
                let content = Content { page, version, position: position.0, dirty: frame.dirty };
                self.staging[place.0 as usize] = None;
                self.filling.push(Filling { content, frame: place.0, dequeue: None });
            }
        }
        if keep {
            self.dram.insert(page, frame);
        } else {
            self.dram.remove(&page);
        }
        true
    }

    /// The driver writes a changed page to disk itself; nobody else may be doing so.
    fn write_to_disk(&mut self, page: u32, version: u64) {
        assert!(!self.disk_writes.contains_key(&page), "page {page} is on its way to disk already");
        assert!(version >= self.disk[page as usize], "the disk copy of page {page} would go back");
        self.disk[page as usize] = version;
        self.durable[page as usize] = self.durable[page as usize].max(version);
    }

    fn finish_filling(&mut self, choices: &mut Choices) {
        if self.filling.is_empty() {
            return;
        }
        let filling = self.filling.swap_remove(choices.below(self.filling.len()));
        self.staging[filling.frame as usize] = Some(filling.content);
        partition!(self).staged(entresol_core::FrameId(filling.frame));
        self.model.staged(filling.frame);
    }

    /// False if there is none.
    fn take_job(&mut self, writes_only: bool) -> bool {
        let mut partition = partition!(self);
        let job = if writes_only { partition.next_write() } else { partition.next_job() };
        self.model.job(job.as_ref(), writes_only);
        let Some(job) = job else { return false };
        match job {
            Job::Write { ticket, pages, .. } => {
                self.recorded_front = partition!(self).window().0.0;
                for page in pages.iter().filter(|page| page.page.is_some()) {
                    let content =
                        self.staging[page.frame.0 as usize].expect("only complete copies are written");
                    assert_eq!((Some(id(content.page)), content.position), (page.page, page.position.0));
                    assert_eq!(content.dirty, page.dirty);
                    // A page from disk comes without its LSN.
                    assert!(page.lsn == Lsn(content.version) || (page.lsn == Lsn(0) && !page.dirty));
                    let cell = &mut self.flash[page.slot.0 as usize];
                    assert!(cell.writing.is_none(), "one write at a time to slot {}", page.slot.0);
                    cell.writing = Some(content);
                    let before = std::mem::replace(&mut cell.stamp, page.stamp.0);
                    let is_told =
                        self.config.policy.placement() == Placement::Log || cell.stamp as u8 != before as u8;
                    assert!(is_told, "a write to slot {} looks like the one before it", page.slot.0);
                }
                self.jobs.push(InFlight::Write { ticket, pages });
            }
            Job::Dequeue { ticket, pages, .. } => {
                self.jobs.push(InFlight::Dequeue { ticket, pages, read: Vec::new(), step: Step::Read });
                let dequeues = self.jobs.iter().filter(|job| matches!(job, InFlight::Dequeue { .. })).count();
                self.dequeues_at_once = self.dequeues_at_once.max(dequeues);
            }
            Job::Clean(page) => self.jobs.push(InFlight::Clean { page, read: Vec::new(), step: Step::Read }),
            Job::PullVictims(count) => {
                let coldest: Vec<u32> = self.dram.keys().copied().take(count as usize).collect();
                for page in coldest {
                    self.evict_page(page, false);
                }
            }
        }
        true
    }

    fn read(&self, pages: &[DequeuePage]) -> Vec<Content> {
        let wanted = pages.iter().filter(|page| page.fate != Fate::Drop);
        let read = wanted.map(|page| {
            let cell = self.flash[page.slot.0 as usize];
            assert!(cell.writing.is_none(), "slot {} is overwritten while it is needed", page.slot.0);
            let content = cell.content.expect("a page on flash");
            assert_eq!(Some(id(content.page)), page.page);
            assert!(page.generation.matches(Position(cell.stamp)));
            content
        });
        read.collect()
    }

    fn start_destage(&mut self, content: &Content) {
        let before = self.disk_writes.insert(content.page, content.version);
        assert_eq!(before, None, "two versions of page {} on their way to disk", content.page);
    }

    fn end_destage(&mut self, content: &Content) {
        let page = content.page as usize;
        assert!(content.version >= self.disk[page], "the disk copy of page {page} would go back");
        self.destages += 1;
        self.redundant_destages += u64::from(content.version == self.disk[page]);
        self.disk_writes.remove(&content.page);
        self.disk[page] = content.version;
        self.durable[page] = self.durable[page].max(content.version);
        if let Some(frame) = self.dram.get_mut(&content.page).filter(|f| f.version == content.version) {
            frame.dirty = false;
        }
    }

    /// Lets a random job make a step.
    fn advance_job(&mut self, choices: &mut Choices) {
        if !self.jobs.is_empty() {
            let at = choices.below(self.jobs.len());
            self.advance(at);
        }
    }

    /// False if the job waits.
    fn advance(&mut self, at: usize) -> bool {
        let mut job = self.jobs.swap_remove(at);
        let (over, moved) = match &mut job {
            InFlight::Write { ticket, pages } => {
                self.complete_write(*ticket, pages);
                (true, true)
            }
            InFlight::Clean { page, read, step } => {
                let end = self.advance_destage(&[destaged(page)], read, step);
                if end {
                    self.model.cleaned(page);
                    partition!(self).cleaned(page);
                }
                (end, true)
            }
            InFlight::Dequeue { ticket, pages, read, step } => match *step {
                Step::Restage(from) if from < pages.len() => {
                    let next = self.restage(*ticket, pages, read, from);
                    *step = Step::Restage(next.unwrap_or(from));
                    (false, next.is_some())
                }
                Step::Restage(_) if self.filling.iter().any(|f| f.dequeue == Some(*ticket)) => (false, false),
                Step::Restage(_) => {
                    self.model.dequeued(pages);
                    partition!(self).dequeued(*ticket);
                    (true, true)
                }
                _ => {
                    if self.advance_destage(pages, read, step) {
                        *step = Step::Restage(0);
                    }
                    (false, true)
                }
            },
        };
        if !over {
            self.jobs.push(job);
        }
        moved
    }

    fn complete_write(&mut self, ticket: Ticket, pages: &[WritePage]) {
        for (slot, frame) in self.made_durable(pages) {
            let cell = &mut self.flash[slot];
            let Some(content) = cell.writing.take() else { continue };
            cell.content = Some(content);
            assert_eq!(self.staging[frame], Some(content), "a frame keeps its page until it is written");
            if self.config.policy.placement() == Placement::Log {
                let durable = &mut self.durable[content.page as usize];
                *durable = content.version.max(*durable);
                self.directory.insert(content.position, content.page);
            }
        }
        self.model.written(pages);
        partition!(self).written(ticket, pages);
    }

    /// Slots and frames whose content is durable with this write: with log placement none before the group is
    /// complete, then all of the group.
    fn made_durable(&self, pages: &[WritePage]) -> Vec<(usize, usize)> {
        if self.config.policy.placement() == Placement::Slots {
            return pages.iter().map(|page| (page.slot.0 as usize, page.frame.0 as usize)).collect();
        }
        let end = pages[pages.len() - 1].position.0 + 1;
        let group = self.config.group_pages as u64;
        let first = if end.is_multiple_of(group) { end - group } else { end };
        let place = |position: u64| {
            let frame = position % self.config.staging_pages() as u64;
            ((position % self.config.slots as u64) as usize, frame as usize)
        };
        (first..end).map(place).collect()
    }

    /// True when the destages are durable.
    fn advance_destage(&mut self, pages: &[DequeuePage], read: &mut Vec<Content>, step: &mut Step) -> bool {
        let destaged = |read: &[Content]| -> Vec<Content> {
            let wanted = pages.iter().filter(|page| page.fate != Fate::Drop).zip(read);
            wanted.filter(|(page, _)| page.fate == Fate::Destage).map(|(_, content)| *content).collect()
        };
        match *step {
            Step::Read => {
                *read = self.read(pages);
                *step = Step::StartDestage;
            }
            Step::StartDestage => {
                destaged(read).iter().for_each(|content| self.start_destage(content));
                *step = Step::Destaging;
            }
            _ => {
                self.read(pages); // they must not have been overwritten yet
                destaged(read).iter().for_each(|content| self.end_destage(content));
                return true;
            }
        }
        false
    }

    /// Restages the next page with a second chance, at or after `from`; returns where to go on, `None` to
    /// wait.
    fn restage(
        &mut self,
        ticket: Ticket,
        pages: &[DequeuePage],
        read: &[Content],
        from: usize,
    ) -> Option<usize> {
        let chances = pages.iter().enumerate().skip(from);
        let Some((at, page)) = chances.clone().find(|(_, page)| page.fate == Fate::SecondChance) else {
            return Some(pages.len());
        };
        let is_read = |c: &&Content| page.generation == Generation::Exact(Position(c.position));
        let content = *read.iter().find(is_read).expect("it was read");
        let got = partition!(self).restage(ticket, page, Lsn(content.version));
        self.model.restage(page, got);
        match got {
            Admission::Full => return None,
            Admission::Bypass { .. } => panic!("a second chance was promised"),
            Admission::AlreadyThere => {}
            Admission::Stage { frame, position } => {
                self.second_chances += 1;
                let content = Content { position: position.0, ..content };
                self.staging[frame.0 as usize] = None;
                self.filling.push(Filling { content, frame: frame.0, dequeue: Some(ticket) });
            }
        }
        Some(at + 1)
    }

    fn close_group(&mut self) {
        partition!(self).close_group();
        self.model.close_group();
    }

    fn sweep_one(&mut self) {
        if self.config.policy.placement() != Placement::Slots {
            return;
        }
        let from = SlotId(self.sweep);
        let got = partition!(self).sweep(from);
        self.model.swept(from, &got);
        match got {
            None => self.sweep = 0,
            Some(Err(slot)) => self.sweep = slot.0,
            Some(Ok(page)) => {
                self.sweep = page.slot.0;
                self.jobs.push(InFlight::Clean { page, read: Vec::new(), step: Step::Read });
            }
        }
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
        let found: Vec<(u32, Lookup)> = below.map(|page| (page, partition.peek(id(page)))).collect();
        for (page, found) in found {
            self.assert_served(page, found);
        }
        self.model.verify(&occupancy, window, published);
        crash::assert_nothing_is_lost(self, self.steps);
    }

    /// Lets everything that is under way end, taking new jobs or not.
    fn settle(&mut self, new_jobs: bool) {
        let mut choices = Choices::from_seed(self.steps);
        for _ in 0..100_000 {
            let mut moved = new_jobs && self.take_job(false);
            while !self.filling.is_empty() {
                self.finish_filling(&mut choices);
                moved = true;
            }
            for at in (0..self.jobs.len()).rev() {
                moved |= self.advance(at);
            }
            if !moved {
                return;
            }
            self.verify();
        }
        panic!("no rest after 100,000 rounds");
    }

    /// Liveness: when all jobs are done and there are no more, an evictor does not wait.
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
            // A change, so that it must be taken.
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

    /// Checkpoint: all that was staged before is durable after. LC: on disk.
    pub fn drain(&mut self) {
        self.settle(true);
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

    /// The machine crashes and the tier is opened again.
    pub fn crash(&mut self, choices: &mut Choices) {
        self.crashes += 1;
        let rule = if choices.once_in(2) { Front::Recorded } else { Front::Verified };
        let recovered = crash::recover(self, choices, rule);
        let (front, rear) = crash::positions(&recovered);
        self.region.fill(!0);
        let mut partition =
            Partition::format(self.region.as_mut_bytes(), &self.config).expect("a valid configuration");
        let entries: Vec<_> =
            recovered.entries.iter().map(|c| (Position(c.position), id(c.page), c.dirty)).collect();
        if self.config.policy.placement() == Placement::Log {
            partition.restore_begin(front);
            entries
                .iter()
                .for_each(|(position, page, dirty)| partition.restore_entry(*position, *page, *dirty));
            partition.restore_end(rear);
        }
        self.model.restored(&entries, front, rear);
        self.assume(&recovered);
        self.assert_restored(&recovered);
    }

    fn assume(&mut self, recovered: &Recovered) {
        let newest = recovered.newest();
        for page in 0..self.disk.len() {
            let served = newest.get(&(page as u32)).map_or(recovered.disk[page], |content| content.version);
            (self.current[page], self.durable[page]) = (served, served);
        }
        self.disk.clone_from(&recovered.disk);
        self.disk_writes.clear();
        self.flash = recovered
            .flash
            .iter()
            .map(|content| {
                let stamp = content.map_or(0, |content| content.position);
                Cell { content: *content, writing: None, stamp }
            })
            .collect();
        self.staging.fill(None);
        self.dram.clear();
        self.filling.clear();
        self.jobs.clear();
        self.sweep = 0;
        (self.restored_front, self.restored_rear) = (recovered.front, recovered.rear);
        self.recorded_front = recovered.front;
    }

    fn assert_restored(&mut self, recovered: &Recovered) {
        let partition = partition!(self);
        let newest = recovered.newest();
        for page in 0..self.disk.len() as u32 {
            let expected = newest.get(&page).map_or(Lookup::Absent, |content| Lookup::Flash {
                slot: SlotId((content.position % self.config.slots as u64) as u32),
                generation: entresol_core::Generation::Exact(Position(content.position)),
                dirty: content.dirty,
            });
            assert_eq!(partition.peek(id(page)), expected, "page {page} after the restart");
        }
        let dirty: Vec<_> = partition.dirty_slots().collect();
        let expected = newest.values().filter(|content| content.dirty).count();
        assert_eq!(dirty.len(), expected, "dirty slots after the restart");
    }
}

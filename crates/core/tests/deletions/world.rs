//! The partition, the devices, the tasks, and what a crash may find.

use super::devices::{Copy, Devices, Kept, Version};
use super::tasks::{Deleting, Dequeuing, Sleep, Task, Writing};
use entresol_core::{
    Admission, Config, Deletion, Log, Lsn, Next, PageId, Partition, PolicyKind, region_bytes,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use zerocopy::IntoBytes;

/// A rule for drivers (`deletion/README.md`) that this one breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Nothing is told when causes are settled.
    SettledIsNotTold,
    /// A later summary of a group leaves out the records of an earlier one.
    RecordNotRepeated,
    /// The cause ends before the write that it stands for.
    CauseEndsBeforeItsWrite,
    /// The write is made while an older version may be on its way to disk.
    WriteBeforeTheDestage,
    /// A flush ends when its pages are durable, whatever the records.
    FlushLeavesRecords,
    /// A record is reported as durable before its summary is.
    RecordedBeforeItsSync,
    /// Causes that end during a sync of the disk are taken for durable.
    SettledByAnEarlierSync,
}

/// What is promised of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    /// Its newest version. A deletion of dead pages gives none.
    pub(super) current: Version,
    /// It was deleted, dead, and the deletion has returned.
    pub(super) is_dead: bool,
    /// Its deletion has begun.
    pub(super) dies: bool,
    /// A crash finds this version or a newer one.
    pub(super) least: Version,
    /// A crash finds none older than this on flash.
    pub(super) least_on_flash: Version,
    /// No version up to this one is written to disk any more.
    pub(super) closed: Version,
}

pub(super) const GROUP_PAGES: u32 = 2;
const SLOTS: u32 = 32;
/// More positions than any of these scenarios needs.
const POSITIONS_MAX: u64 = 80;

pub fn page(number: u32) -> PageId {
    PageId::new(1, number)
}

#[derive(Clone)]
pub struct World {
    pub(super) region: Vec<u64>,
    pub(super) devices: Devices,
    /// By frame: its page.
    pub(super) staging: Vec<Option<Copy>>,
    pub tasks: Vec<Task>,
    pub(super) sleep: Vec<Sleep>,
    pub(super) promises: BTreeMap<PageId, Promise>,
    /// By flusher: what it will promise.
    pub(super) snapshots: BTreeMap<usize, BTreeMap<PageId, Promise>>,
    pub(super) broken: Option<Broken>,
}

pub(super) type Step = Result<(), String>;

pub(super) fn log<'p, 'r>(partition: &'p mut Partition<'r>) -> &'p mut Log<'r> {
    partition.log_mut().expect("log placement")
}

impl World {
    pub fn new(broken: Option<Broken>) -> Self {
        let mut config = Config::new(PolicyKind::FaceGsc, 64 * 4);
        (config.group_pages, config.staging_groups, config.slots) = (GROUP_PAGES, 2, SLOTS);
        let mut region = vec![0; region_bytes(&config).div_ceil(8)];
        Partition::format(region.as_mut_bytes(), &config).expect("a small partition");
        let devices = Devices::new(SLOTS.into(), GROUP_PAGES.into());
        let staging = vec![None; config.staging_pages() as usize];
        let tasks = vec![Task::Writer { at: Writing::Look }, Task::Background { at: Dequeuing::Look }];
        let sleep = vec![Sleep::default(); 2];
        let (promises, snapshots) = Default::default();
        Self { region, devices, staging, tasks, sleep, promises, snapshots, broken }
    }

    pub fn add(&mut self, task: Task) {
        self.tasks.push(task);
        self.sleep.push(Sleep::default());
    }

    /// Pages whose deletion follows are dead.
    pub fn delete_dead(&mut self, first: u32, last: u32, entries_at_once: u32) {
        let (first, last) = (page(first), page(last));
        let deletion = Deletion::of_dead(first, last, &partition!(self)).with_steps_of(entries_at_once);
        self.add(Task::Deleter { deletion, pages: (first, last), write: None, at: Deleting::Steps });
    }

    /// Deletes a page, and writes this version of it to disk.
    pub fn delete_for(&mut self, number: u32, version: Version) {
        let id = page(number);
        let deletion = Deletion::of_replaced(id, id);
        let write = Some((id, version));
        self.add(Task::Deleter { deletion, pages: (id, id), write, at: Deleting::Steps });
    }

    /// Runs the writer alone until it has nothing to do.
    pub fn write_all(&mut self) {
        self.sleep[0] = Sleep::default();
        while !self.sleep[0].asleep {
            self.step(0).expect("one after the other");
        }
    }

    /// Runs the tasks, the first that can go on, until none can.
    pub fn run_all(&mut self) {
        while let Some(nth) = self.awake().first().copied() {
            self.step(nth).expect("one after the other");
        }
    }

    /// Evicts pages, each dirty or not in version 1, one after the other, and writes them.
    pub fn fill(&mut self, pages: &[(u32, bool)]) {
        for (number, dirty) in pages {
            self.evict(page(*number), 1, *dirty).expect("there is room");
            self.write_all();
        }
    }

    /// Fills the ring with clean pages from `first` on until a dequeue is due. Returns the next number.
    pub fn fill_up(&mut self, first: u32) -> u32 {
        let mut number = first;
        while u64::from(SLOTS) - partition!(self).window().1.0 > 4 * u64::from(GROUP_PAGES) {
            self.fill(&[(number, false)]);
            number += 1;
        }
        number
    }

    /// Fills the ring with clean pages from `first` on until there is no room.
    pub fn fill_all(&mut self, first: u32) {
        for number in first.. {
            if self.evict(page(number), 1, false).is_none() {
                return;
            }
            self.write_all();
        }
    }

    /// References a page: it gets a second chance.
    pub fn touch(&mut self, number: u32) {
        let _ = partition!(self).fetch(page(number));
    }

    /// Everything in staging and all that was written to disk is durable, and promised.
    pub fn flush_now(&mut self) {
        partition!(self).flush();
        self.write_all();
        self.devices.sync_disk();
        self.promises.values_mut().for_each(|promise| promise.least = promise.current);
    }

    /// Makes records of ranges of pages that are not there, until `room` more fit. Their causes have ended.
    pub fn fill_records(&mut self, room: usize, first: u32) {
        for nth in 0.. {
            let mut partition = partition!(self);
            if 64 - log(&mut partition).records_waiting() as usize <= room {
                return;
            }
            let from = page(first + 1000 * nth);
            let mut deletion = Deletion::of_replaced(from, PageId(from.0 + 100));
            while !matches!(deletion.step(&mut partition), Next::Done { .. }) {}
            log(&mut partition).cause_ends(deletion.cause().expect("a replaced page has one"));
        }
    }

    /// Makes all records durable whose causes have ended.
    pub fn write_records(&mut self) {
        let mut partition = partition!(self);
        if let Some(settle) = log(&mut partition).settle_for_records() {
            log(&mut partition).settled(&settle, true);
        }
        while log(&mut partition!(self)).records_waiting() > 0 {
            partition!(self).flush();
            self.write_all();
        }
    }

    /// The hash of a state. What was decided on the way does not count.
    pub fn key(&mut self) -> u64 {
        let decisions = partition!(self).decision_hash();
        let mut hasher = DefaultHasher::new();
        let at = self.region[..32].iter().position(|word| *word == decisions).expect("it is in the header");
        (&self.region[..at], &self.region[at + 1..]).hash(&mut hasher);
        (&self.staging, &self.sleep, &self.promises, &self.snapshots).hash(&mut hasher);
        format!("{:?} {:?}", self.devices, self.tasks).hash(&mut hasher);
        hasher.finish()
    }

    /// Tasks that can go on.
    pub fn awake(&self) -> Vec<usize> {
        let goes_on = |nth: &usize| {
            let is_for_ever = matches!(self.tasks[*nth], Task::Writer { .. } | Task::Background { .. });
            !self.sleep[*nth].asleep && (is_for_ever || !self.tasks[*nth].is_over())
        };
        (0..self.tasks.len()).filter(goes_on).collect()
    }

    fn tell(&mut self, is_told: impl Fn(&Task) -> bool) {
        for (task, sleep) in self.tasks.iter().zip(&mut self.sleep) {
            if is_told(task) {
                *sleep = Sleep { asleep: false, told: true };
            }
        }
    }

    pub(super) fn tell_writer(&mut self) {
        self.tell(|task| matches!(task, Task::Writer { .. }));
    }

    pub(super) fn tell_background(&mut self) {
        self.tell(|task| matches!(task, Task::Background { at: Dequeuing::Look }));
    }

    /// As `Front::job_is_done`: all that wait for progress, a background task, a writer.
    pub(super) fn job_is_done(&mut self) {
        self.tell(|_| true);
    }

    /// Sleeps, unless it was told since it last looked.
    pub(super) fn sleeps(&mut self, nth: usize) {
        self.sleep[nth].asleep = !self.sleep[nth].told;
    }

    /// The next step of a task.
    pub fn step(&mut self, nth: usize) -> Step {
        let mut task = self.tasks[nth].clone();
        let done = match &mut task {
            Task::Deleter { deletion, pages, write, at } => {
                self.step_deleter(nth, deletion, *pages, *write, at)
            }
            Task::Flusher { published, at } => self.step_flusher(nth, *published, at),
            Task::Evictor { pages } => self.step_evictor(nth, pages),
            Task::Writer { at } => self.step_writer(nth, at),
            Task::Background { at } => self.step_background(nth, at),
        };
        self.tasks[nth] = task;
        done?;
        partition!(self).check().map_err(|violation| format!("the partition: {violation}"))?;
        if partition!(self).window().1.0 > POSITIONS_MAX {
            return Err("groups are written in vain".to_owned());
        }
        Ok(())
    }

    pub(super) fn evict(&mut self, page: PageId, version: Version, dirty: bool) -> Option<()> {
        let mut partition = partition!(self);
        match partition.evict(page, Lsn(0), dirty, true) {
            Admission::Stage { frame, position } => {
                self.staging[frame.0 as usize] = Some(Copy { page, version, position: position.0, dirty });
                partition.staged(frame);
                if !dirty {
                    // As on disk.
                    self.devices.write_disk(page, version);
                    self.devices.sync_disk();
                }
                let promise = self.promises.entry(page).or_default();
                (promise.current, promise.dies, promise.is_dead) = (version, false, false);
                self.tell_writer();
                Some(())
            }
            Admission::Full => None,
            other => panic!("{other:?}"),
        }
    }

    /// What a crash now would find is what was promised.
    pub fn crash(&self) -> Step {
        let pages: BTreeSet<PageId> = self.promises.keys().copied().collect();
        for (flash, disk) in [(false, false), (false, true), (true, false), (true, true)] {
            let kept = Kept { flash, disk };
            if !self.devices.differs(kept) {
                continue;
            }
            for (page, found) in self.devices.after_crash(kept, &pages) {
                let promise = &self.promises[&page];
                let is_lost = found.version < promise.least;
                let is_back = found.on_flash && found.version < promise.least_on_flash;
                if is_lost || is_back {
                    return Err(format!("a crash ({kept:?}) finds {page:?} as {found:?}, {promise:?}"));
                }
            }
        }
        Ok(())
    }

    /// No task can go on: all are done. Dead pages keep no slot from being released.
    pub fn end(&mut self) -> Step {
        match self.tasks.iter().find(|task| !task.is_over()) {
            Some(task) => Err(format!("nothing goes on, and this waits: {task:?}")),
            None => Ok(()),
        }
    }

    /// Pages that are dead already keep no slot from being released.
    pub fn dead_pages_keep_no_slot(&mut self) -> Step {
        let is_replaced = |task: &Task| matches!(task, Task::Deleter { write: Some(_), .. });
        let awaited = log(&mut partition!(self)).awaits_dead();
        match awaited {
            Some(cause) if !self.tasks.iter().any(is_replaced) => {
                Err(format!("slots wait for cause {cause}"))
            }
            _ => Ok(()),
        }
    }
}

/// Looks at all schedules of the tasks; how many states there are. The first that breaks a promise, with its
/// steps, is an error.
pub fn explore(world: World) -> Result<usize, String> {
    let mut seen: HashMap<u64, ()> = HashMap::new();
    let mut stack = vec![(world, Vec::<u8>::new())];
    while let Some((mut world, steps)) = stack.pop() {
        if seen.insert(world.key(), ()).is_some() {
            continue;
        }
        let awake = world.awake();
        let looked = match awake.is_empty() {
            true => world.end(),
            false => world.crash().and_then(|()| world.dead_pages_keep_no_slot()),
        };
        looked.map_err(|fault| format!("{fault}\nafter {} states, by the tasks {steps:?}", seen.len()))?;
        for nth in awake {
            let (mut next, mut steps) = (world.clone(), steps.clone());
            steps.push(nth as u8);
            next.step(nth).map_err(|fault| format!("{fault}\nby the tasks {steps:?}"))?;
            stack.push((next, steps));
        }
    }
    Ok(seen.len())
}

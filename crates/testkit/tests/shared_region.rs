//! Two processes drive one partition that lies in memory they share, each at an address of its own, and are
//! killed in turn. Whatever is in flight lies in the shared memory too, so whoever lives on finishes it. If
//! the victim held the lock, the next holder says what it found and builds the directory anew from what is on
//! flash.

use entresol_core::{
    Admission, CleanPage, Config, DequeuePage, Fate, FrameId, Generation, Job, Lookup, Lsn, Occupancy,
    PageId, Partition, Placement, PolicyKind, Position, SlotId, Ticket, WritePage, region_bytes,
};
use entresol_testkit::shared::SharedRegion;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const PAGES: usize = 150;
const GROUP_PAGES: usize = 4;
const JOBS: usize = 6;
/// A worker whose parent is gone ends by itself.
const STEPS_MAX: u64 = 20_000_000;

/// Words of the region's header.
const STEPS: usize = 0;
const STOP: usize = 1;
const ADDRESS: usize = 2;

fn config(policy: PolicyKind) -> Config {
    let mut config =
        Config { group_pages: GROUP_PAGES as u32, staging_groups: 3, ..Config::new(policy, 4096) };
    config.slots = config.slots_min() + 2 * config.group_pages;
    config.history = policy.history(config.slots);
    config
}

/// A page image.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Image {
    page: u64,
    version: u64,
    position: u64,
    dirty: u64,
    checksum: u64,
}

impl Image {
    fn new(page: PageId, version: u64, position: Position, dirty: bool) -> Self {
        let image = Image { page: page.0, version, position: position.0, dirty: dirty.into(), checksum: 0 };
        Image { checksum: image.sum(), ..image }
    }
    fn sum(&self) -> u64 {
        let words = [self.page, self.version, self.position, self.dirty];
        words
            .iter()
            .fold(1, |sum: u64, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))
    }
    fn is_whole(&self) -> bool {
        self.checksum == self.sum()
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Part {
    /// 1 + page id; 0: none.
    page: u64,
    position: u64,
    /// Dequeues: the version, or its low byte.
    stamp: u64,
    lsn: u64,
    slot: u32,
    frame: u32,
    dirty: u32,
    fate: u32,
    /// 1: `stamp` is a low byte.
    low_byte: u32,
    reserved: u32,
}

impl Part {
    fn of_write(page: &WritePage) -> Self {
        Self {
            page: page.page.map_or(0, |id| id.0 + 1),
            position: page.position.0,
            lsn: page.lsn.0,
            slot: page.slot.0,
            frame: page.frame.0,
            dirty: page.dirty.into(),
            ..Self::new_zeroed()
        }
    }

    fn write(&self) -> WritePage {
        WritePage {
            page: self.page.checked_sub(1).map(PageId),
            slot: SlotId(self.slot),
            position: Position(self.position),
            // An image keeps the position of its frame, in any slot: that is what this driver stamps.
            stamp: Position(self.position),
            frame: FrameId(self.frame),
            dirty: self.dirty != 0,
            lsn: Lsn(self.lsn),
        }
    }

    fn of_dequeue(page: &DequeuePage) -> Self {
        Self {
            page: page.page.map_or(0, |id| id.0 + 1),
            stamp: page.generation.of(Position(0)).0,
            slot: page.slot.0,
            dirty: page.dirty.into(),
            fate: page.fate as u32,
            low_byte: u32::from(matches!(page.generation, Generation::LowByte(_))),
            ..Self::new_zeroed()
        }
    }

    fn dequeue(&self) -> DequeuePage {
        let (exact, low_byte) =
            (Generation::Exact(Position(self.stamp)), Generation::LowByte(self.stamp as u8));
        DequeuePage {
            page: self.page.checked_sub(1).map(PageId),
            slot: SlotId(self.slot),
            dirty: self.dirty != 0,
            fate: [Fate::Drop, Fate::Destage, Fate::SecondChance][self.fate as usize],
            generation: if self.low_byte == 0 { exact } else { low_byte },
        }
    }

    /// The copy of a cleaning is that of a dequeue.
    fn of_clean(page: &CleanPage) -> Self {
        let CleanPage { page, slot, generation } = *page;
        let page = Some(page);
        Self::of_dequeue(&DequeuePage { page, slot, dirty: true, fate: Fate::Destage, generation })
    }
}

const NOTHING: u32 = 0;
const FILL: u32 = 1;
const WRITE: u32 = 2;
const DEQUEUE: u32 = 3;
const CLEAN: u32 = 4;

/// What someone has begun and anyone may finish.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Begun {
    kind: u32,
    ticket: u32,
    count: u32,
    /// Dequeues: 1 + pages restaged so far, once the destages are done.
    done: u32,
    image: Image,
    parts: [Part; GROUP_PAGES],
}

/// What lies behind the partition.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Rest {
    begun: [Begun; JOBS],
    /// The front that is recorded on flash: written before any slot below it is overwritten.
    front: u64,
    rebuilt: u64,
    finished_for_others: u64,
    /// Newest version of each page.
    current: [u64; PAGES],
    /// Newest version that must survive.
    durable: [u64; PAGES],
    disk: [u64; PAGES],
    staging: [Image; 3 * GROUP_PAGES],
    flash: [Image; 128],
}

/// The shared memory, locked.
struct World<'a> {
    partition: Partition<'a>,
    rest: &'a mut Rest,
    slot_placed: bool,
}

fn id(page: usize) -> PageId {
    PageId::new(3, page as u32)
}

fn number(page: PageId) -> usize {
    page.number() as usize
}

fn split(bytes: &mut [u8]) -> (&mut [u8], &mut Rest) {
    let region = bytes.len() - size_of::<Rest>();
    let (region, rest) = bytes.split_at_mut(region);
    (region, Rest::mut_from_bytes(rest).expect("the size is right"))
}

impl<'a> World<'a> {
    fn attach(bytes: &'a mut [u8]) -> Self {
        let (region, rest) = split(bytes);
        let partition = Partition::attach(region).expect("the region holds a partition");
        let slot_placed = partition.config().policy.placement() == Placement::Slots;
        World { partition, rest, slot_placed }
    }

    fn is_latched(&self, page: usize) -> bool {
        self.rest.begun.iter().any(|begun| begun.kind == FILL && begun.image.page == id(page).0)
    }

    fn free_place(&self) -> Option<usize> {
        self.rest.begun.iter().position(|begun| begun.kind == NOTHING)
    }

    fn step(&mut self, noise: &mut Noise) {
        match noise.below(8) {
            0..3 => self.change(noise.below(PAGES)),
            3 => self.read(noise.below(PAGES)),
            4 | 5 => self.begin(),
            _ => {
                let at = noise.below(JOBS);
                self.finish(at);
            }
        }
    }

    /// A client changes a page, and it leaves DRAM at once.
    fn change(&mut self, page: usize) {
        let Some(place) = self.free_place().filter(|_| !self.is_latched(page)) else { return };
        let version = self.rest.current[page] + 1;
        match self.partition.evict(id(page), Lsn(version), true, true) {
            Admission::Full | Admission::Bypass { .. } => {}
            Admission::AlreadyThere => panic!("a changed page must be taken"),
            Admission::Stage { frame, position } => {
                self.rest.current[page] = version;
                let image = Image::new(id(page), version, position, true);
                let begun = Begun { kind: FILL, ticket: frame.0, image, ..Begun::new_zeroed() };
                self.rest.begun[place] = begun;
            }
        }
    }

    fn read(&mut self, page: usize) {
        if !self.is_latched(page) {
            let found = self.partition.fetch(id(page));
            self.assert_served(page, found);
        }
    }

    fn assert_served(&self, page: usize, found: Lookup) {
        let image = match found {
            Lookup::Absent => {
                assert_eq!(self.rest.disk[page], self.rest.current[page], "page {page} on disk");
                return;
            }
            Lookup::Staged { frame, position, .. } => {
                let image = self.rest.staging[frame.0 as usize];
                assert_eq!(image.position, position.0);
                image
            }
            Lookup::Flash { slot, generation, .. } => {
                let image = self.rest.flash[slot.0 as usize];
                assert!(generation.matches(Position(image.position)), "page {page}: {generation:?}");
                image
            }
        };
        assert!(image.is_whole());
        assert_eq!((image.page, image.version), (id(page).0, self.rest.current[page]), "{found:?}");
    }

    /// Takes a job.
    fn begin(&mut self) {
        let Some(place) = self.free_place() else { return };
        let Some(job) = self.partition.next_job() else { return };
        let (kind, ticket, parts): (u32, u32, Vec<Part>) = match &job {
            Job::Write { ticket, pages, .. } => {
                (WRITE, ticket.number(), pages.iter().map(Part::of_write).collect())
            }
            Job::Dequeue { ticket, pages, .. } => {
                (DEQUEUE, ticket.number(), pages.iter().map(Part::of_dequeue).collect())
            }
            Job::Clean(page) => (CLEAN, 0, vec![Part::of_clean(page)]),
            Job::PullVictims(_) => return,
        };
        let mut begun = Begun { kind, ticket, count: parts.len() as u32, ..Begun::new_zeroed() };
        begun.parts[..parts.len()].copy_from_slice(&parts);
        self.rest.begun[place] = begun;
    }

    /// Finishes what stands at `at`, whoever began it, if it can be.
    fn finish(&mut self, at: usize) {
        let begun = self.rest.begun[at];
        let ticket = Ticket::from_number(begun.ticket);
        let parts = &begun.parts[..begun.count as usize];
        match begun.kind {
            FILL => {
                self.rest.staging[begun.ticket as usize] = begun.image;
                self.partition.staged(FrameId(begun.ticket));
            }
            WRITE => self.write(ticket, &parts.iter().map(Part::write).collect::<Vec<_>>()),
            CLEAN => {
                let page = parts[0].dequeue().to_clean().expect("a page to be copied");
                self.destage(&page);
                self.partition.cleaned(&page);
            }
            DEQUEUE => {
                if !self.dequeue(at, ticket, &parts.iter().map(Part::dequeue).collect::<Vec<_>>()) {
                    return;
                }
            }
            _ => return,
        }
        self.rest.begun[at].kind = NOTHING;
    }

    fn write(&mut self, ticket: Ticket, pages: &[WritePage]) {
        self.rest.front = self.partition.window().0.0;
        for page in pages.iter().filter(|page| page.page.is_some()) {
            let image = self.rest.staging[page.frame.0 as usize];
            assert!(image.is_whole());
            assert_eq!((Some(PageId(image.page)), image.position), (page.page, page.position.0));
            self.rest.flash[page.slot.0 as usize] = image;
        }
        self.partition.written(ticket, pages);
        if !self.slot_placed {
            for page in 0..PAGES {
                if let Lookup::Flash { slot, .. } = self.partition.peek(id(page)) {
                    let version = self.rest.flash[slot.0 as usize].version;
                    self.rest.durable[page] = self.rest.durable[page].max(version);
                }
            }
        }
    }

    fn image_of(&self, page: PageId, slot: SlotId, generation: Generation) -> Image {
        let image = self.rest.flash[slot.0 as usize];
        assert!(image.is_whole());
        assert_eq!(PageId(image.page), page);
        assert!(self.slot_placed || generation.matches(Position(image.position)));
        image
    }

    fn destage(&mut self, page: &CleanPage) {
        let image = self.image_of(page.page, page.slot, page.generation);
        let page = number(page.page);
        assert!(self.rest.disk[page] <= image.version, "the disk copy of page {page} would go back");
        self.rest.disk[page] = image.version;
        self.rest.durable[page] = self.rest.durable[page].max(image.version);
    }

    /// False if it has to wait for room in staging.
    fn dequeue(&mut self, at: usize, ticket: Ticket, pages: &[DequeuePage]) -> bool {
        if self.rest.begun[at].done == 0 {
            pages.iter().filter_map(DequeuePage::to_clean).for_each(|page| self.destage(&page));
            if let Some(log) = self.partition.log_mut() {
                log.left(ticket);
            }
            self.rest.begun[at].done = 1;
        }
        for (nth, page) in pages.iter().enumerate() {
            if page.fate == Fate::SecondChance && nth as u32 + 1 >= self.rest.begun[at].done {
                let id = page.page.expect("only pages get second chances");
                let image = self.image_of(id, page.slot, page.generation);
                let log = self.partition.log_mut().expect("only a log gives second chances");
                match log.restage(ticket, page, Lsn(image.version)) {
                    Admission::Full | Admission::Bypass { .. } => return false,
                    Admission::AlreadyThere => {}
                    Admission::Stage { frame, position } => {
                        let image = Image::new(PageId(image.page), image.version, position, page.dirty);
                        self.rest.staging[frame.0 as usize] = image;
                        self.partition.staged(frame);
                    }
                }
            }
            self.rest.begun[at].done = nth as u32 + 2;
        }
        self.partition.dequeued(ticket);
        true
    }

    /// Every invariant, and every page served.
    fn verify(&self) {
        self.partition.check().expect("no invariant is broken");
        for page in (0..PAGES).filter(|page| !self.is_latched(*page)) {
            self.assert_served(page, self.partition.peek(id(page)));
        }
    }
}

/// Builds the directory anew, as after a crash of the machine: staging and what was in flight are gone.
fn rebuild(bytes: &mut [u8]) {
    let (region, rest) = split(bytes);
    let config = Partition::attach(region).expect("sizes are never changed").config();
    let mut partition = Partition::format(region, &config).expect("the same configuration");
    rest.begun = FromZeros::new_zeroed();
    rest.rebuilt += 1;
    let mut recovered = rest.disk;
    if let Some(log) = partition.log_mut() {
        let (slots, group) = (config.slots as u64, config.group_pages as u64);
        let whole = || rest.flash.iter().filter(|image| image.is_whole());
        let rear = whole().map(|image| image.position + 1).max().unwrap_or(0).next_multiple_of(group);
        let front = rear.saturating_sub(slots).max(rest.front).next_multiple_of(group).min(rear);
        log.restore_begin(Position(front));
        let mut images: Vec<Image> = whole().filter(|image| image.position >= front).copied().collect();
        images.sort_by_key(|image| image.position);
        for image in images {
            log.restore_entry(Position(image.position), PageId(image.page), image.dirty != 0);
            recovered[number(PageId(image.page))] = image.version;
        }
        log.restore_end(Position(rear));
        for (page, durable) in rest.durable.iter().enumerate() {
            assert!(
                recovered[page] >= *durable,
                "page {page}: {durable} was durable, {} came back",
                recovered[page]
            );
            assert!(recovered[page] >= rest.disk[page], "page {page} on flash is older than on disk");
        }
    } else {
        rest.flash = FromZeros::new_zeroed();
    }
    // The log of the database would redo the rest; here it is lost.
    rest.current = recovered;
    rest.durable = recovered;
}

/// A worker's or the parent's turn with the lock.
fn locked<R>(region: &mut SharedRegion, turn: impl FnOnce(&mut World<'_>) -> R) -> R {
    let mut guard = region.lock().expect("the lock can be had");
    if guard.is_inherited() {
        let (bytes, _) = split(guard.bytes());
        // A verdict, whatever it is: a step was cut off. The directory alone could be sound and a job be
        // lost.
        let _ = Partition::attach(bytes).expect("sizes are never changed").check();
        rebuild(guard.bytes());
    }
    turn(&mut World::attach(guard.bytes()))
}

struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 33) * bound as u64) >> 31) as usize
    }
}

/// Not a test of its own: what the processes run.
#[test]
#[ignore = "started by the tests below, in processes of their own"]
fn worker() {
    let Ok(path) = std::env::var("ENTRESOL_SHARED_REGION") else { return };
    let argument =
        |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok()).expect("given");
    let (nth, steps) = (argument("ENTRESOL_WORKER"), argument("ENTRESOL_STEPS"));
    let address = 0x3000_0000_0000 + (nth as usize % 64) * (1 << 32);
    let mut region = SharedRegion::open(Path::new(&path), address).expect("the parent made it");
    region.word(ADDRESS + nth as usize % 2).store(region.address() as u64, SeqCst);
    let mut noise = Noise(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while region.word(STOP).load(SeqCst) == 0 && region.word(STEPS).load(SeqCst) < STEPS_MAX {
        locked(&mut region, |world| (0..steps).for_each(|_| world.step(&mut noise)));
        region.word(STEPS).fetch_add(steps, SeqCst);
    }
}

fn start(path: &Path, nth: u64, steps: u64) -> Child {
    let program = std::env::current_exe().expect("this test has a file");
    let mut command = Command::new(program);
    command.args(["worker", "--exact", "--ignored", "--quiet"]).stdout(std::process::Stdio::null());
    command.env("ENTRESOL_SHARED_REGION", path).env("ENTRESOL_WORKER", nth.to_string());
    command.env("ENTRESOL_STEPS", steps.to_string()).spawn().expect("this program can be started")
}

/// Waits until the workers have made so many steps more; fails if one of them has ended.
fn await_steps(region: &SharedRegion, workers: &mut [Child], more: u64) {
    let until = region.word(STEPS).load(SeqCst) + more;
    while region.word(STEPS).load(SeqCst) < until {
        for worker in workers.iter_mut() {
            assert_eq!(worker.try_wait().expect("it is a child"), None, "a worker has failed");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a worker, `kills` times in turn; returns how often the lock was inherited.
fn kill_in_turn(policy: PolicyKind, kills: u64, steps: u64, under_the_lock: bool) -> u64 {
    let directory = tempfile::tempdir().expect("a place for files");
    let path = directory.path().join("region");
    let config = config(policy);
    let bytes = region_bytes(&config).next_multiple_of(8) + size_of::<Rest>();
    let mut region = SharedRegion::create(&path, bytes).expect("a file can be mapped");
    {
        let mut guard = region.lock().expect("nobody else has it");
        let (partition, _) = split(guard.bytes());
        Partition::format(partition, &config).expect("a valid configuration");
    }
    let mut workers = [start(&path, 0, steps), start(&path, 1, steps)];
    let mut rebuilt = 0;
    for kill in 0.. {
        // With the lock, a victim holds it or waits for it: go on until one did hold it.
        if kill >= kills && (!under_the_lock || rebuilt > 0 || kill >= 64) {
            break;
        }
        await_steps(&region, &mut workers, 3000);
        let victim = &mut workers[kill as usize % 2];
        if under_the_lock {
            victim.kill().expect("it runs");
        } else {
            // Nobody else holds the lock while this process does.
            let guard = region.lock().expect("the lock can be had");
            assert!(!guard.is_inherited());
            victim.kill().expect("it runs");
            drop(guard);
        }
        victim.wait().expect("it is a child");
        locked(&mut region, |world| {
            world.verify();
            for at in 0..JOBS {
                world.rest.finished_for_others += u64::from(world.rest.begun[at].kind != NOTHING);
                world.finish(at);
            }
            world.verify();
            rebuilt = world.rest.rebuilt;
        });
        workers[kill as usize % 2] = start(&path, kill + 2, steps);
    }
    // A rebuilt directory begins to count anew, so how long it takes the ring to go round is not known
    // beforehand.
    for _ in 0..64 {
        await_steps(&region, &mut workers, 3000);
        if locked(&mut region, |world| went_round(&world.partition.occupancy())) {
            break;
        }
    }
    let addresses =
        [region.word(ADDRESS).load(SeqCst), region.word(ADDRESS + 1).load(SeqCst), region.address() as u64];
    assert!(addresses[0] != addresses[1] && addresses[0] != addresses[2] && addresses[1] != addresses[2]);
    region.word(STOP).store(1, SeqCst);
    for worker in &mut workers {
        assert!(worker.wait().expect("it is a child").success(), "a worker has failed");
    }
    locked(&mut region, |world| {
        world.verify();
        let occupancy = world.partition.occupancy();
        assert!(went_round(&occupancy), "the ring went round: {occupancy:?}");
        assert!(
            world.rest.disk.iter().filter(|version| **version > 0).count() > PAGES / 2,
            "pages were destaged"
        );
        assert!(world.rest.finished_for_others > 0, "the dead left work behind");
        world.rest.rebuilt
    })
}

/// Every slot has been used about ten times.
fn went_round(occupancy: &Occupancy) -> bool {
    occupancy.entered > 10 * u64::from(occupancy.slots)
}

/// Between steps: everything goes on as if nothing had happened.
#[test]
fn a_process_that_dies_between_steps_is_not_missed() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Lc] {
        assert_eq!(kill_in_turn(policy, 8, 1, false), 0, "{}: nothing had to be rebuilt", policy.name());
    }
}

/// In the middle of a step: the next one notices, and builds the directory anew.
#[test]
fn a_process_that_dies_in_a_step_is_noticed() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Face, PolicyKind::Lc] {
        let rebuilt = kill_in_turn(policy, 8, 200, true);
        assert!(rebuilt > 0, "{}: no victim held the lock", policy.name());
    }
}

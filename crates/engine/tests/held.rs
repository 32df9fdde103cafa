//! One write of the disk takes very long, in write-through mode without a log above: what was read of its
//! page is never followed by an older version, and nobody else waits for it.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{
    Counters, Device, DeviceError, FaultPlan, FaultyDevice, Geometry, Io, MemoryDevice, Survival,
};
use entresol_engine::{FlashTier, Layer, Mode, PageCache, ReadRoute, TierOptions, disk_offset, flash_bytes};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{JoinHandle, sleep, spawn};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::{PAGE, disk_bytes, memory};

const PAGES: u64 = 4000;
/// The page whose write is held.
const HELD: u64 = 7;
const POLICIES: [PolicyKind; 3] = [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc];

/// A disk that holds writes of one page as long as it is told to.
struct Holding {
    disk: Arc<dyn Device>,
    holds: AtomicBool,
    held: AtomicU64,
}

impl Device for Holding {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let at = disk_offset(PageId(HELD), PAGE as u32);
        let is_it = |io: &Io<'_>| matches!(io, Io::Write { offset, .. } if *offset == at);
        if self.holds.load(SeqCst) && batch.iter().any(is_it) {
            self.held.fetch_add(1, SeqCst);
            while self.holds.load(SeqCst) {
                sleep(Duration::from_micros(10));
            }
        }
        self.disk.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.disk.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.disk.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.disk.counters()
    }
}

fn options(policy: PolicyKind) -> TierOptions {
    TierOptions {
        mode: Mode::WriteThrough,
        page_format: PageFormat::Raw,
        staging_groups: 4,
        segment_entries: 16,
        overwrite: true,
        ..support::small(policy, 80)
    }
}

fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

fn version(tier: &FlashTier, page: u64, how: ReadRoute) -> u64 {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, how).unwrap();
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    assert_eq!(found, bytes(page, number), "page {page}");
    number
}

struct World {
    tier: Arc<FlashTier>,
    flash: Arc<MemoryDevice>,
    disk: Arc<Holding>,
}

impl World {
    /// A cache; the disk has all pages at version 1, and one of them is being written in version 2.
    fn with_a_held_write(policy: PolicyKind) -> (Self, JoinHandle) {
        let (flash, medium) = memory(&options(policy), PAGES);
        assert!(medium.geometry().capacity_bytes >= disk_bytes(PAGES));
        (0..PAGES)
            .for_each(|page| medium.write(disk_offset(PageId(page), PAGE as u32), &bytes(page, 1)).unwrap());
        let disk = Arc::new(Holding { disk: medium, holds: AtomicBool::new(false), held: AtomicU64::new(0) });
        let tier = FlashTier::create(flash.clone(), disk.clone(), options(policy)).unwrap();
        disk.holds.store(true, SeqCst);
        let writer = {
            let tier = tier.clone();
            spawn("held", move || tier.write_pages(PageId(HELD), &bytes(HELD, 2)).unwrap())
        };
        while disk.held.load(SeqCst) == 0 {
            sleep(Duration::from_micros(10));
        }
        (Self { tier, flash, disk }, writer)
    }

    fn others_write(&self, pages: std::ops::Range<u64>) {
        others_write(&self.tier, pages);
    }

    /// Changes a byte of the copy on flash of the page that is being written.
    fn damage(&self) {
        let image = support::bytes_of(&*self.flash);
        let at = image.chunks(PAGE).position(|found| found == bytes(HELD, 2)).expect("it is on flash");
        self.flash.write((at * PAGE) as u64, &[0xee; 512]).unwrap();
    }

    fn release(&self, writer: JoinHandle) {
        self.disk.holds.store(false, SeqCst);
        writer.join();
    }
}

/// In many tasks at once; each must end while the write is held.
fn others_write(tier: &Arc<FlashTier>, pages: std::ops::Range<u64>) {
    let ended = Arc::new(AtomicU64::new(0));
    let tasks = (0..4).map(|task| {
        let (tier, pages, ended) = (tier.clone(), pages.clone(), ended.clone());
        spawn("other", move || {
            for page in pages.skip(task).step_by(4).filter(|page| *page != HELD) {
                tier.write_pages(PageId(page), &bytes(page, 3)).unwrap();
            }
            ended.fetch_add(1, SeqCst);
        })
    });
    let tasks: Vec<_> = tasks.collect();
    // Time passes only when all tasks wait.
    let is_over = || ended.load(SeqCst) == tasks.len() as u64;
    let in_time = (0..10_000).any(|_| {
        sleep(Duration::from_micros(100));
        is_over()
    });
    assert!(in_time, "writers of other pages wait for the one that is held");
    tasks.into_iter().for_each(|task| task.join());
}

fn run(seed: u64, main: impl FnOnce() + Send) {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap();
}

/// Reads of one page, one after the other, and what they found.
fn reader(world: &World, how: ReadRoute) -> (JoinHandle, Arc<Mutex<Vec<u64>>>) {
    let (tier, found) = (world.tier.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = found.clone();
    let task = spawn("reader", move || {
        for _ in 0..3 {
            let version = version(&tier, HELD, how);
            seen.lock().push(version);
        }
    });
    (task, found)
}

#[test]
fn a_version_that_was_read_is_never_followed_by_an_older_one() {
    for policy in POLICIES {
        let ways = [ReadRoute::Populates, ReadRoute::StaysOut, ReadRoute::Around];
        for (how, is_damaged) in ways.into_iter().flat_map(|how| [(how, false), (how, true)]) {
            run(1, || {
                let (world, writer) = World::with_a_held_write(policy);
                assert_eq!(version(&world.tier, HELD, how), 2, "{policy:?}: it is on flash");
                if is_damaged {
                    world.damage();
                }
                let mut readers = Vec::new();
                for from in [100, 164, 300] {
                    world.others_write(from..from + 64);
                    readers.push(reader(&world, how));
                    sleep(Duration::from_millis(1));
                }
                world.release(writer);
                for (task, found) in readers {
                    task.join();
                    assert_eq!(*found.lock(), [2, 2, 2], "{policy:?}, {how:?}");
                }
                world.tier.close().unwrap();
            });
        }
    }
}

#[test]
fn nobody_waits_for_the_write_of_another_page() {
    for policy in POLICIES {
        run(2, || {
            let (world, writer) = World::with_a_held_write(policy);
            world.others_write(0..PAGES);
            for page in (0..PAGES).filter(|page| *page != HELD) {
                assert_eq!(version(&world.tier, page, ReadRoute::StaysOut), 3, "{policy:?}: page {page}");
            }
            assert_eq!(world.disk.held.load(SeqCst), 1);
            world.release(writer);
            assert_eq!(version(&world.tier, HELD, ReadRoute::StaysOut), 2);
            world.tier.close().unwrap();
        });
    }
}

/// Pages whose writes are acknowledged, and on no device durably but on flash, leave the flash while one
/// write is held. Power fails: each is whole, in one version or the other.
#[test]
fn power_fails_while_one_write_is_held() {
    for policy in POLICIES {
        let options = options(policy);
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let (flash, medium) = (device("flash", flash_bytes(&options)), device("disk", disk_bytes(PAGES)));
        run(3, || {
            let place = |page| disk_offset(PageId(page), PAGE as u32);
            (0..PAGES).for_each(|page| medium.write(place(page), &bytes(page, 1)).unwrap());
            medium.sync().unwrap();
            let (disk, holds) = (medium.clone(), AtomicBool::new(false));
            let disk = Arc::new(Holding { disk, holds, held: AtomicU64::new(0) });
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            disk.holds.store(true, SeqCst);
            let tier_of_writer = tier.clone();
            let writer = spawn("held", move || {
                tier_of_writer.write_pages(PageId(HELD), &bytes(HELD, 2)).unwrap();
            });
            while disk.held.load(SeqCst) == 0 {
                sleep(Duration::from_micros(10));
            }
            others_write(&tier, 100..400);
            for seed in 0..40 {
                let [flash, disk] = [&flash, &medium].map(|device| device.after_crash(&Survival::Seed(seed)));
                let opened = FlashTier::open(Arc::new(flash), Arc::new(disk), options.clone());
                let (tier, _) = opened.unwrap();
                for page in (100..400).chain([HELD]) {
                    version(&tier, page, ReadRoute::StaysOut);
                }
                tier.close().unwrap();
            }
            disk.holds.store(false, SeqCst);
            writer.join();
            tier.close().unwrap();
        });
    }
}

/// Whoever holds pages may wait for room. Under `reuse` all pages of a group may stay.
#[test]
fn writers_get_on_with_pages_held_in_all_the_ring() {
    for seed in 0..200 {
        run(seed, || {
            let mut rng = Rng::new(seed);
            let slots = 80 + 4 * rng.below(16) as u32;
            let history = PolicyKind::Reuse.history(slots);
            let staging_groups = 2 + rng.below(3) as u32;
            let options =
                TierOptions { group_pages: 4, slots, history, staging_groups, ..options(PolicyKind::Reuse) };
            let pages = u64::from(slots) * [15, 18, 20][rng.below(3) as usize] / 20;
            let (flash, disk) = memory(&options, PAGES);
            let tier = FlashTier::create(flash, disk, options).unwrap();
            let mut at = 0;
            let longest = [8, 20, 130][rng.below(3) as usize];
            for number in 0..200 {
                let run = 1 + rng.below(longest);
                let (first, last) = (at % pages, (at % pages + run).min(pages));
                let data: Vec<u8> = (first..last).flat_map(|page| bytes(page, number)).collect();
                tier.write_pages(PageId(first), &data).unwrap();
                at += run;
            }
            tier.close().unwrap();
        });
    }
}

//! A flash that fails while the disk fails, too, for a while: a controller that both hang on is reset, say. A
//! cache without a log above continues when the disk works again. Nothing that was flushed is lost.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{
    Counters, Device, DeviceError, FaultPlan, FaultyDevice, Geometry, Io, MemoryDevice, RedoDevice, Survival,
};
use entresol_engine::{
    DiskErrors, FlashTier, Layer, Mode, PageCache, ReadRoute, TierError, TierOptions, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_runtime::{JoinHandle, now, random, sleep, spawn};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{PAGE, disk_bytes, simulate};

/// Pages of the disk; about twice as many as fit on flash.
const PAGES: u64 = 200;
/// The disk's first bytes: its label, which does not fail here.
const LABEL_BYTES: u64 = 1 << 16;

/// Raw bytes that tell page and version.
fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// A device whose writes, or syncs, fail for a while.
struct Failing {
    device: FaultyDevice,
    name: &'static str,
    writes: AtomicBool,
    syncs: AtomicBool,
}

impl Failing {
    fn new(name: &'static str, left: MemoryDevice) -> Arc<Self> {
        let device = FaultyDevice::new(name, left, Arc::new(FaultPlan::none()));
        Arc::new(Self { device, name, writes: AtomicBool::new(false), syncs: AtomicBool::new(false) })
    }

    fn fail(&self, writes: bool, syncs: bool) {
        self.writes.store(writes, SeqCst);
        self.syncs.store(syncs, SeqCst);
    }

    fn error(&self, operation: &'static str) -> Result<(), DeviceError> {
        let reason = "failed for the test".to_owned();
        Err(DeviceError::Io { device: self.name.to_owned(), operation, offset: 0, length: 0, reason })
    }
}

impl Device for Failing {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        sleep(Duration::from_micros(random() % 200));
        let is_label = |offset: &u64| self.name == "disk" && *offset < LABEL_BYTES;
        let writes = batch.iter().any(|io| matches!(io, Io::Write { offset, .. } if !is_label(offset)));
        if writes && self.writes.load(SeqCst) { self.error("write") } else { self.device.run(batch) }
    }
    fn sync(&self) -> Result<(), DeviceError> {
        sleep(Duration::from_micros(random() % 200));
        if self.syncs.load(SeqCst) { self.error("sync") } else { self.device.sync() }
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
}

struct World {
    flash: Arc<Failing>,
    disk: Arc<Failing>,
    options: TierOptions,
}

impl World {
    fn new((policy, mode): (PolicyKind, Mode)) -> Self {
        let options = TierOptions {
            page_format: PageFormat::Raw,
            disk_errors: DiskErrors::TryAgain,
            mode,
            staging_groups: 4,
            segment_entries: 16,
            ..support::small(policy, 96)
        };
        let flash = Failing::new("flash", MemoryDevice::new("flash", flash_bytes(&options)));
        let disk = Failing::new("disk", MemoryDevice::new("disk", disk_bytes(PAGES)));
        Self { flash, disk, options }
    }

    /// As the block door: a failed sync of the disk loses nothing while the program runs.
    fn device(&self) -> Arc<dyn Device> {
        Arc::new(RedoDevice::new(self.disk.clone() as Arc<dyn Device>))
    }

    fn create(&self) -> Arc<FlashTier> {
        FlashTier::create(self.flash.clone(), self.device(), self.options.clone()).unwrap()
    }

    fn after_crash(&self, survival: &Survival) -> Self {
        let flash = Failing::new("flash", self.flash.device.after_crash(survival));
        let disk = Failing::new("disk", self.disk.device.after_crash(survival));
        Self { flash, disk, options: self.options.clone() }
    }

    fn open(&self) -> Arc<FlashTier> {
        FlashTier::open(self.flash.clone(), self.device(), self.options.clone()).unwrap().0
    }
}

fn version(tier: &FlashTier, page: u64) -> Result<u64, TierError> {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates)?;
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    assert!(found == bytes(page, number) || number == 0, "page {page} is torn");
    Ok(number)
}

fn write(tier: &FlashTier, page: u64, version: u64) -> Result<(), TierError> {
    tier.write_pages(PageId(page), &bytes(page, version))
}

const CACHES: [(PolicyKind, Mode); 6] = [
    (PolicyKind::Face, Mode::WriteBack),
    (PolicyKind::FaceGsc, Mode::WriteBack),
    (PolicyKind::Reuse, Mode::WriteBack),
    (PolicyKind::FaceGsc, Mode::WriteThrough),
    (PolicyKind::S3Fifo, Mode::WriteThrough),
    (PolicyKind::Lc, Mode::WriteThrough),
];

/// Of a page: the versions that may be served, from the newest acknowledged one to the newest one tried.
type Versions = Arc<Mutex<BTreeMap<u64, (u64, u64)>>>;

/// Writes the pages of a third each, again and again, until `ends`.
fn writers(tier: &Arc<FlashTier>, ends: &Arc<AtomicBool>, seen: &Versions) -> Vec<JoinHandle> {
    (0..3)
        .map(|third| {
            let (tier, ends, seen) = (tier.clone(), ends.clone(), seen.clone());
            spawn("writer", move || {
                for number in 2.. {
                    for page in (third..PAGES).step_by(3) {
                        if ends.load(SeqCst) {
                            return;
                        }
                        seen.lock().unwrap().get_mut(&page).unwrap().1 = number;
                        if write(&tier, page, number).is_ok() {
                            seen.lock().unwrap().get_mut(&page).unwrap().0 = number;
                        }
                        sleep(Duration::from_micros(random() % 500));
                    }
                }
            })
        })
        .collect()
}

/// A cache that is written to.
struct Load {
    tier: Arc<FlashTier>,
    ends: Arc<AtomicBool>,
    seen: Versions,
    writers: Vec<JoinHandle>,
}

/// A new cache with version 1 of each page, durably, and writers of more.
fn under_load(world: &World) -> Load {
    let tier = world.create();
    (0..PAGES).for_each(|page| write(&tier, page, 1).unwrap());
    tier.flush().unwrap();
    let versions = (0..PAGES).map(|page| (page, (1, 1))).collect();
    let (ends, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(versions)));
    let writers = writers(&tier, &ends, &seen);
    sleep(Duration::from_millis(50));
    Load { tier, ends, seen, writers }
}

/// What fails of the flash, once; what of the disk; for how long.
fn trouble(seed: u64) -> ((bool, bool), (bool, bool), Duration) {
    let flash = [(true, false), (false, true)][seed as usize % 2];
    let disk = [(true, false), (false, true), (true, true)][seed as usize / 2 % 3];
    (flash, disk, Duration::from_millis([100, 400, 3000][seed as usize / 6 % 3]))
}

#[test]
fn all_goes_on_when_the_disk_works_again() {
    let mut left = 0;
    for (at, cache) in CACHES.into_iter().enumerate() {
        for seed in 0..18 {
            let has_left = Arc::new(AtomicBool::new(false));
            let leaves = has_left.clone();
            simulate(seed * 100 + at as u64, move || {
                let world = World::new(cache);
                let Load { tier, ends, seen, writers } = under_load(&world);
                let (of_flash, of_disk, lasts) = trouble(seed);
                world.disk.fail(of_disk.0, of_disk.1);
                world.flash.fail(of_flash.0, of_flash.1);
                sleep(Duration::from_millis(20));
                world.flash.fail(false, false);
                sleep(lasts);
                world.disk.fail(false, false);
                sleep(Duration::from_secs(2));
                ends.store(true, SeqCst);
                writers.into_iter().for_each(|writer| writer.join());
                leaves.store(tier.notice().is_some(), SeqCst);
                tier.flush().or_else(|_| tier.flush()).unwrap();
                let seen = seen.lock().unwrap().clone();
                let check = |tier: &FlashTier| {
                    for (page, (least, most)) in &seen {
                        let found = version(tier, *page).unwrap();
                        assert!(
                            (*least..=*most).contains(&found),
                            "{cache:?} {seed}: page {page} is {found}"
                        );
                    }
                };
                check(&tier);
                let begun = now();
                (0..PAGES).for_each(|page| write(&tier, page, 1 << 40).unwrap());
                assert!(now().since(begun) < Duration::from_secs(2));
                drop(tier);
                // Flushed before, whatever power leaves.
                let again = world.after_crash(&Survival::None);
                let tier = again.open();
                for (page, (least, _)) in &seen {
                    assert!(version(&tier, *page).unwrap() >= *least, "{cache:?} {seed}: page {page}");
                }
            });
            left += u32::from(has_left.load(SeqCst));
        }
    }
    assert!(left > 50, "{left} caches went on without their flash");
}

/// A process that is killed, or a power failure, in the middle of it.
#[test]
fn what_was_flushed_is_there_after_a_power_failure_in_the_trouble() {
    for (at, cache) in CACHES.into_iter().enumerate() {
        for seed in 0..18 {
            simulate(7000 + seed * 100 + at as u64, move || {
                let world = World::new(cache);
                let Load { tier, ends, seen, writers } = under_load(&world);
                let (of_flash, of_disk, _) = trouble(seed);
                let before = seen.lock().unwrap().clone();
                let flushed = tier.flush().is_ok();
                world.disk.fail(of_disk.0, of_disk.1);
                world.flash.fail(of_flash.0, of_flash.1);
                sleep(Duration::from_millis(random() % 400));
                let again = world.after_crash(&Survival::None);
                ends.store(true, SeqCst);
                world.disk.fail(false, false);
                writers.into_iter().for_each(|writer| writer.join());
                drop(tier);
                let tier = again.open();
                for (page, (least, _)) in &before {
                    let found = version(&tier, *page).unwrap();
                    assert!(!flushed || found >= *least, "{cache:?} {seed}: page {page} is {found}");
                }
            });
        }
    }
}

/// An owner that ends the cache meanwhile has an error, and does not wait for the disk.
#[test]
fn a_cache_ends_though_the_disk_goes_on_failing() {
    for (seed, cache) in CACHES.into_iter().enumerate() {
        simulate(seed as u64, move || {
            let world = World::new(cache);
            let tier = world.create();
            (0..PAGES).for_each(|page| write(&tier, page, 1).unwrap());
            world.disk.fail(true, true);
            world.flash.fail(true, true);
            let failed = (0..PAGES).find_map(|page| write(&tier, page, 2).err());
            let begun = now();
            assert!(failed.is_some() || tier.flush().is_err());
            assert!(cache.1 == Mode::WriteThrough || tier.held_up().is_some(), "{cache:?}");
            assert!(tier.close().is_err());
            assert!(now().since(begun) < Duration::from_secs(10), "{cache:?}");
        });
    }
}

//! A disk that refuses writes, all of them for a while or some for good, below a cache without a log above:
//! nothing stops that can go on, nothing is lost, and all is as before when the disk takes writes again.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{
    Counters, Device, DeviceError, FaultPlan, FaultyDevice, Geometry, Io, MemoryDevice, Survival,
};
use entresol_engine::{
    DiskErrors, FlashTier, Layer, PageCache, ReadRoute, TierError, TierOptions, detach, disk_offset,
    flash_bytes,
};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{JoinHandle, now, random, sleep, spawn};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{PAGE, disk_bytes};

/// Pages of the disk; about twice as many as fit on flash.
const PAGES: u64 = 200;

fn options(policy: PolicyKind) -> TierOptions {
    let small = support::small(policy, 96);
    TierOptions {
        page_format: PageFormat::Raw,
        disk_errors: DiskErrors::TryAgain,
        staging_groups: 4,
        segment_entries: 16,
        ..small
    }
}

/// Raw bytes that tell page and version.
fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// A disk that refuses writes to some pages, or to all; or a flash that cannot be read.
struct Refusing {
    device: FaultyDevice,
    hides: AtomicBool,
    refuses_all: AtomicBool,
    refused: Mutex<BTreeSet<u64>>,
}

impl Refusing {
    fn of(device: FaultyDevice, refused: BTreeSet<u64>) -> Self {
        let (hides, refuses_all) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { device, hides, refuses_all, refused: Mutex::new(refused) }
    }

    fn refuse(&self, pages: Range<u64>) {
        self.refused.lock().unwrap().extend(pages);
    }

    fn take(&self) {
        self.refused.lock().unwrap().clear();
        self.refuses_all.store(false, SeqCst);
    }

    fn refuses(&self, offset: u64, length: u64) -> bool {
        let refused = self.refused.lock().unwrap();
        let is_met = |page: &u64| {
            let at = disk_offset(PageId(*page), PAGE as u32);
            at < offset + length && offset < at + PAGE as u64
        };
        self.refuses_all.load(SeqCst) && offset >= disk_offset(PageId(0), PAGE as u32)
            || refused.iter().any(is_met)
    }
}

impl Device for Refusing {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        sleep(Duration::from_micros(random() % 200));
        for io in batch.iter() {
            if let Io::Read { offset, buffer } = io
                && self.hides.load(SeqCst)
            {
                let (device, operation, reason) = ("flash".to_owned(), "read", "hidden".to_owned());
                let (offset, length) = (*offset, buffer.len() as u64);
                return Err(DeviceError::Io { device, operation, offset, length, reason });
            }
            if let Io::Write { offset, data } = io
                && self.refuses(*offset, data.len() as u64)
            {
                let (device, operation, reason) = ("disk".to_owned(), "write", "refused".to_owned());
                return Err(DeviceError::Io {
                    device,
                    operation,
                    offset: *offset,
                    length: data.len() as u64,
                    reason,
                });
            }
        }
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        sleep(Duration::from_micros(random() % 200));
        self.device.sync()
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
    flash: Arc<Refusing>,
    disk: Arc<Refusing>,
    options: TierOptions,
}

impl World {
    fn new(policy: PolicyKind) -> Self {
        let options = options(policy);
        let device = |name: &str, bytes| {
            FaultyDevice::new(name, MemoryDevice::new(name, bytes), Arc::new(FaultPlan::none()))
        };
        let flash = Refusing::of(device("flash", flash_bytes(&options)), BTreeSet::new());
        let disk = Refusing::of(device("disk", disk_bytes(PAGES)), BTreeSet::new());
        Self { flash: Arc::new(flash), disk: Arc::new(disk), options }
    }

    fn create(&self) -> Arc<FlashTier> {
        FlashTier::create(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap()
    }

    /// The same devices after a power failure.
    fn after_crash(&self, survival: &Survival) -> Self {
        let left = |device: &Refusing| {
            let left = device.device.after_crash(survival);
            let faulty = FaultyDevice::new("left", left, Arc::new(FaultPlan::none()));
            Arc::new(Refusing::of(faulty, device.refused.lock().unwrap().clone()))
        };
        Self { flash: left(&self.flash), disk: left(&self.disk), options: self.options.clone() }
    }

    fn open(&self) -> Arc<FlashTier> {
        FlashTier::open(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap().0
    }
}

/// The version of a page that the tier serves; 0: blank.
fn version(tier: &FlashTier, page: u64) -> u64 {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates).unwrap();
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    let is_blank = found.iter().all(|byte| *byte == 0);
    assert!(is_blank || found == bytes(page, number), "page {page} is torn");
    if is_blank { 0 } else { number }
}

fn write(tier: &FlashTier, page: u64, version: u64) -> Result<(), TierError> {
    tier.write_pages(PageId(page), &bytes(page, version))
}

fn simulate(seed: u64, main: impl FnOnce() + Send) {
    let config = SimConfig { seed, random_order: true, ..SimConfig::default() };
    Simulation::new(config).run(main).unwrap();
}

const LOGS: [PolicyKind; 4] = [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc, PolicyKind::Reuse];

#[test]
fn all_goes_on_when_the_disk_takes_writes_again() {
    for (seed, policy) in LOGS.into_iter().enumerate() {
        simulate(seed as u64, move || {
            let world = World::new(policy);
            let tier = world.create();
            (0..PAGES).for_each(|page| write(&tier, page, 1).unwrap());
            world.disk.refuses_all.store(true, SeqCst);
            // What has room enters, and all reads are served.
            let (other, disk) = (tier.clone(), world.disk.clone());
            let writer = spawn("writer", move || {
                // No write meets a refusal that is over within a second.
                (0..PAGES).for_each(|page| write(&other, page, 2).unwrap());
            });
            sleep(Duration::from_millis(700));
            assert!(tier.disk_state().retrying_for.is_some());
            (0..PAGES).for_each(|page| assert!(version(&tier, page) >= 1));
            disk.take();
            writer.join();
            sleep(Duration::from_secs(2));
            assert_eq!(tier.disk_state().retrying_for, None);
            (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), 2));
            tier.close().unwrap();
            detach(world.flash.clone(), world.disk.clone()).unwrap();
        });
    }
}

#[test]
fn a_disk_that_takes_nothing_fails_new_writes_alone() {
    simulate(7, || {
        let world = World::new(PolicyKind::FaceGsc);
        let tier = world.create();
        (0..PAGES).for_each(|page| write(&tier, page, 1).unwrap());
        tier.flush().unwrap();
        world.disk.refuses_all.store(true, SeqCst);
        let written: Vec<bool> = (0..PAGES).map(|page| write(&tier, page, 2).is_ok()).collect();
        assert!(written.contains(&true) && written.contains(&false), "the flash takes some");
        // A write that has failed may have changed nothing, and no read and no flush fails.
        let versions: Vec<u64> = (0..PAGES).map(|page| version(&tier, page)).collect();
        let expected: Vec<u64> = written.iter().map(|written| 1 + u64::from(*written)).collect();
        assert_eq!(versions, expected);
        tier.flush().unwrap();
        let left = world.after_crash(&Survival::None);
        let tier = left.open();
        (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), expected[page as usize]));
        tier.close().unwrap();
    });
}

#[test]
fn pages_of_a_bad_range_stay_on_flash_and_others_get_on() {
    for (seed, policy) in LOGS.into_iter().enumerate() {
        simulate(seed as u64, move || {
            let world = World::new(policy);
            let tier = world.create();
            world.disk.refuse(10..18);
            for number in 1..=6 {
                (0..PAGES).for_each(|page| write(&tier, page, number).unwrap());
                (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), number, "{policy:?}"));
            }
            let state = tier.disk_state();
            assert_eq!(state.kept, [(PageId(10), 8)], "{policy:?}: {state:?}");
            // They are newer than the disk after a power failure, too.
            tier.flush().unwrap();
            let left = world.after_crash(&Survival::None);
            let tier = left.open();
            (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), 6, "{policy:?}"));
            // Everything else is copied, and these are named.
            let Err(TierError::Losing(losing)) = tier.detach() else { panic!("pages would be lost") };
            assert_eq!((losing.lost.len(), &losing.refused[..]), (0, &[(PageId(10), 8)][..]));
            (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), 6));
            left.disk.take();
            tier.detach().unwrap();
            for page in 0..PAGES {
                let mut found = vec![0; PAGE];
                left.disk.read(disk_offset(PageId(page), PAGE as u32), &mut found).unwrap();
                assert!(found == bytes(page, 6));
            }
        });
    }
}

/// What was to bypass the flash enters it, where the disk does not take it.
#[test]
fn a_write_past_the_flash_enters_it_if_the_disk_refuses() {
    for (seed, policy) in LOGS.into_iter().enumerate() {
        simulate(seed as u64, move || {
            let world = World::new(policy);
            let tier = world.create();
            world.disk.refuse(10..18);
            for number in 1..=3 {
                let run: Vec<u8> = (8..20).flat_map(|page| bytes(page, number)).collect();
                tier.write_around(PageId(8), &run).unwrap();
                (8..20).for_each(|page| assert_eq!(version(&tier, page), number, "{policy:?}"));
            }
            tier.flush().unwrap();
            let tier = world.after_crash(&Survival::None).open();
            (8..20).for_each(|page| assert_eq!(version(&tier, page), 3, "{policy:?}"));
            tier.close().unwrap();
        });
    }
}

/// More pages than a ring can keep: new ones are written past the flash.
#[test]
fn a_ring_full_of_kept_pages_takes_no_new_ones() {
    simulate(3, || {
        let world = World::new(PolicyKind::FaceGsc);
        let tier = world.create();
        world.disk.refuse(0..60);
        // Something else tells that the disk works.
        let (other, ends) = (tier.clone(), Arc::new(AtomicBool::new(false)));
        let seen = ends.clone();
        let copier = spawn("copier", move || {
            while !seen.load(SeqCst) {
                other.write_around(PageId(PAGES - 1), &bytes(PAGES - 1, 1)).unwrap();
                sleep(Duration::from_millis(100));
            }
        });
        let mut written = vec![0; PAGES as usize];
        written[PAGES as usize - 1] = 1;
        for number in 1..=8 {
            for page in 0..PAGES - 1 {
                match write(&tier, page, number) {
                    Ok(()) => written[page as usize] = number,
                    Err(_) => assert!(page < 60, "the disk takes page {page}"),
                }
            }
            (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), written[page as usize]));
        }
        let kept: u64 = tier.disk_state().kept.iter().map(|(_, pages)| u64::from(*pages)).sum();
        assert!((24..=60).contains(&kept), "{kept} pages are kept");
        ends.store(true, SeqCst);
        copier.join();
        world.disk.take();
        (0..PAGES).for_each(|page| write(&tier, page, 9).unwrap());
        (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), 9));
        tier.close().unwrap();
    });
}

#[test]
fn a_flash_that_cannot_be_read_for_a_while_is_read_again() {
    for (seed, policy) in LOGS.into_iter().enumerate() {
        simulate(seed as u64, move || {
            let world = World::new(policy);
            let tier = world.create();
            (0..PAGES).for_each(|page| write(&tier, page, 1).unwrap());
            tier.flush().unwrap();
            world.flash.hides.store(true, SeqCst);
            let (other, flash) = (tier.clone(), world.flash.clone());
            let written = Arc::new(Mutex::new(vec![1; PAGES as usize]));
            let seen = written.clone();
            let writer = spawn("writer", move || {
                for page in 0..PAGES {
                    match write(&other, page, 2) {
                        Ok(()) => seen.lock().unwrap()[page as usize] = 2,
                        Err(_) => {
                            sleep(Duration::from_millis(if flash.hides.load(SeqCst) { 10 } else { 100 }))
                        }
                    }
                }
            });
            sleep(Duration::from_secs(4));
            world.flash.hides.store(false, SeqCst);
            writer.join();
            sleep(Duration::from_millis(200));
            assert_eq!((tier.notice(), tier.missing()), (None, None), "{policy:?}");
            (0..PAGES)
                .for_each(|page| assert_eq!(version(&tier, page), written.lock().unwrap()[page as usize]));
            (0..PAGES).for_each(|page| write(&tier, page, 3).unwrap());
            (0..PAGES).for_each(|page| assert_eq!(version(&tier, page), 3));
            tier.close().unwrap();
        });
    }
}

/// What one client has written to its pages.
struct Written {
    /// The last acknowledged version, and the newest that was tried since: a write that failed may have been
    /// carried out.
    pages: Vec<(u64, u64)>,
    /// Acknowledged when a flush began that succeeded.
    durable: Vec<u64>,
}

/// Clients write, read and flush their own pages for a while, with refusals that come and go.
fn client(
    tier: Arc<FlashTier>,
    pages: Range<u64>,
    seed: u64,
    all: Arc<Mutex<BTreeMap<u64, Written>>>,
) -> JoinHandle {
    spawn("client", move || {
        let mut rng = Rng::new(seed);
        let count = (pages.end - pages.start) as usize;
        let mut written = Written { pages: vec![(0, 0); count], durable: vec![0; count] };
        for number in 1..250 {
            let at = rng.below(count as u64) as usize;
            let page = pages.start + at as u64;
            match rng.below(16) {
                0 if tier.flush().is_ok() => {
                    written.durable = written.pages.iter().map(|(acknowledged, _)| *acknowledged).collect();
                }
                0..6 => {
                    let found = version(&tier, page);
                    let (from, to) = written.pages[at];
                    assert!(found == from || found == to, "page {page} at {found}, not at {from} or {to}");
                }
                _ => match write(&tier, page, number) {
                    Ok(()) => written.pages[at] = (number, number),
                    Err(_) => written.pages[at] = (version(&tier, page), number),
                },
            }
            if rng.below(8) == 0 {
                sleep(Duration::from_millis(rng.below(300)));
            }
        }
        all.lock().unwrap().insert(pages.start, written);
    })
}

#[test]
fn lives_with_a_disk_that_refuses_now_and_then() {
    let is_hunt = std::env::var_os("ENTRESOL_MUTANT").is_some();
    let mut kept = 0;
    for seed in 0..if is_hunt { 200 } else { 24 } {
        let count = Arc::new(Mutex::new(0));
        let counted = count.clone();
        simulate(seed, move || {
            let policy = LOGS[seed as usize % LOGS.len()];
            let world = World::new(policy);
            let tier = world.create();
            let share = PAGES / 4;
            let all = Arc::new(Mutex::new(BTreeMap::new()));
            let clients: Vec<_> = (0..4)
                .map(|at| client(tier.clone(), at * share..(at + 1) * share, seed * 4 + at, all.clone()))
                .collect();
            let mut rng = Rng::new(seed);
            for _ in 0..8 {
                sleep(Duration::from_millis(rng.below(1500)));
                let from = rng.below(PAGES - 12);
                match rng.below(4) {
                    0 => world.disk.refuses_all.store(true, SeqCst),
                    1 => world.disk.take(),
                    _ => world.disk.refuse(from..from + 1 + rng.below(8)),
                }
                *counted.lock().unwrap() += tier.disk_state().kept.len();
            }
            let is_over = rng.below(2) == 0;
            if is_over {
                world.disk.take();
            } else {
                world.disk.refuses_all.store(false, SeqCst);
            }
            clients.into_iter().for_each(|client| client.join());
            let begun = now();
            let left = world.after_crash(&Survival::None);
            let tier = left.open();
            for (first, written) in &*all.lock().unwrap() {
                for (place, durable) in written.durable.iter().enumerate() {
                    let page = first + place as u64;
                    let found = version(&tier, page);
                    let newest = written.pages[place].1;
                    assert!(
                        (*durable..=newest).contains(&found),
                        "page {page} at {found}: {durable} was durable"
                    );
                }
            }
            left.disk.take();
            tier.detach().unwrap();
            assert!(now().since(begun) < Duration::from_secs(3600));
        });
        kept += *count.lock().unwrap();
    }
    println!("{kept} ranges were kept when that was looked at");
    assert!(kept > 5);
}

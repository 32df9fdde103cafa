//! Slots of raw pages that survive a shutdown, in modes in which flash is never newer than disk: the next
//! open is warm. After a crash, or when something else has written to the disk, the cache is empty: no older
//! version than the disk's is ever served.

mod support;

use entresol_core::{Directory, PageId, PolicyKind};
use entresol_device::{Counters, Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{
    DiskErrors, DiskLayer, FlashTier, InPlaceDisk, Layer, Mode, OpenReport, PageCache, ReadRoute,
    TierOptions, WholeDisk, check, detach, flash_bytes, inspect,
};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::sleep;
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, refusal, simulate};

/// Pages of the disk, of which not all fit on flash.
const PAGES: u64 = 150;
/// Slots.
const SLOTS: u32 = 96;

fn options(policy: PolicyKind, mode: Mode) -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw,
        mode,
        keeps_slots: true,
        segment_entries: 16,
        disk_errors: DiskErrors::TryAgain,
        ..support::small(policy, SLOTS)
    }
}

/// All policies and modes that keep slots so.
fn caches() -> impl Iterator<Item = TierOptions> {
    let modes = [Mode::WriteThrough, Mode::WriteAround];
    let all = PolicyKind::ALL.into_iter().flat_map(move |policy| modes.map(|mode| (policy, mode)));
    all.filter(|(policy, mode)| policy.may_keep_slots_in(*mode)).map(|(policy, mode)| options(policy, mode))
}

/// Bytes that tell page and version.
fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

fn version_in(page: u64, found: &[u8]) -> u64 {
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    let is_whole = found == bytes(page, number) || found.iter().all(|byte| *byte == 0);
    assert!(is_whole, "page {page} is mixed");
    number
}

/// A cache of a disk that is used in place, with all devices.
struct World {
    options: TierOptions,
    plan: Arc<FaultPlan>,
    flash: Arc<FaultyDevice>,
    disk: Arc<FaultyDevice>,
    label: Arc<FaultyDevice>,
}

impl World {
    fn new(options: TierOptions) -> Self {
        let devices =
            [("flash", flash_bytes(&options)), ("disk", PAGES * PAGE as u64), ("label", LABEL_FILE_BYTES)];
        let plan = Arc::new(FaultPlan::none());
        let [flash, disk, label] = devices.map(|(name, bytes)| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        });
        Self { options, plan, flash, disk, label }
    }

    /// What is left after a power failure, or of a program that was killed ([`Survival::All`]).
    fn after(&self, survival: &Survival) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let again = |device: &Arc<FaultyDevice>| {
            Arc::new(FaultyDevice::new(device.name(), device.after_crash(survival), plan.clone()))
        };
        let [flash, disk, label] = [&self.flash, &self.disk, &self.label].map(again);
        Self { options: self.options.clone(), plan, flash, disk, label }
    }

    fn create(&self) -> Arc<FlashTier> {
        let home = InPlaceDisk::create(self.disk.clone(), self.label.clone(), PAGE as u32).unwrap();
        let home = WholeDisk::new(home, PAGE as u32);
        FlashTier::create_at(self.flash.clone(), home, self.options.clone()).unwrap()
    }

    fn open(&self) -> (Arc<FlashTier>, OpenReport) {
        let (home, told) = InPlaceDisk::open(self.disk.clone(), self.label.clone()).unwrap();
        let home = WholeDisk::new(home, PAGE as u32);
        let (tier, mut report) = FlashTier::open_at(self.flash.clone(), home, self.options.clone()).unwrap();
        report.notices.extend(told);
        (tier, report)
    }

    /// A cache in which pages were written twice and read, that was closed.
    fn used(options: TierOptions) -> Self {
        let world = Self::new(options);
        let tier = world.create();
        (1..=2).for_each(|number| (0..PAGES).for_each(|page| write(&tier, page, number)));
        (0..2).for_each(|_| (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 2, "page {page}")));
        tier.close().unwrap();
        world
    }
}

fn write(tier: &FlashTier, page: u64, version: u64) {
    tier.write_pages(PageId(page), &bytes(page, version)).unwrap();
}

fn read(tier: &FlashTier, page: u64) -> u64 {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates).unwrap();
    // A page that is read does not wait for room in staging.
    sleep(Duration::from_micros(10));
    version_in(page, &found)
}

fn cached(tier: &FlashTier) -> Vec<u64> {
    (0..PAGES).filter(|page| tier.is_on_flash(PageId(*page))).collect()
}

fn name(options: &TierOptions) -> String {
    format!("{} {}", options.policy.name(), options.mode.name())
}

#[test]
fn a_cache_that_was_closed_is_warm() {
    for options in caches() {
        simulate(1, move || {
            let name = name(&options);
            let world = World::used(options);
            let report = check(&*world.flash, None).unwrap();
            assert!(report.is_sound() && report.pages > 0, "{name}: {report}");
            let told = inspect(&*world.flash).unwrap();
            let valid = told.directory.as_ref().expect("it survives").occupancy.valid;
            assert!(told.to_string().contains("of the last shutdown"), "{told}");
            let (tier, report) = world.open();
            assert!(report.warm && report.notices.is_empty(), "{name}: {report:?}");
            assert_eq!((report.entries, report.dirty), (valid.into(), 0), "{name}");
            let found = cached(&tier);
            assert_eq!(found.len() as u64, report.entries, "{name}");
            assert!(found.len() > SLOTS as usize / 2, "{name}: {}", found.len());
            let before = world.disk.counters().reads;
            found.iter().for_each(|page| assert_eq!(read(&tier, *page), 2, "{name}: page {page}"));
            assert_eq!(world.disk.counters().reads, before, "{name}: they come from flash");
            // Another shutdown, and its open is warm again.
            (0..PAGES).for_each(|page| write(&tier, page, 3));
            (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 3, "{name}: page {page}"));
            tier.close().unwrap();
            let (tier, report) = world.open();
            assert!(report.warm, "{name}: {report:?}");
            (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 3, "{name}: page {page}"));
        });
    }
}

/// A program that ends without a word, or a power failure, leaves an empty cache: its directory was of a
/// shutdown before.
#[test]
fn a_cache_that_was_not_closed_is_empty() {
    for options in caches() {
        simulate(2, move || {
            let name = name(&options);
            let world = World::used(options);
            let (tier, _) = world.open();
            (0..10).for_each(|page| write(&tier, page, 3));
            tier.flush().unwrap();
            for survival in [Survival::All, Survival::None, Survival::Torn(7)] {
                let after = world.after(&survival);
                let report = check(&*after.flash, None).unwrap();
                assert!(report.is_sound() && report.pages == 0, "{name}: {report}");
                let (tier, report) = after.open();
                let told = report.notices.concat();
                assert!(told.contains("was not closed") && report.entries == 0, "{name}: {report:?}");
                assert_eq!(cached(&tier), Vec::<u64>::new(), "{name}");
                let newest = |page| if page < 10 { 3 } else { 2 };
                (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), newest(page), "{name}: {page}"));
            }
        });
    }
}

/// Power fails at each request in turn of an open, writes, and a shutdown. What a write has acknowledged
/// is found, and what a flush was before it, durably.
#[test]
fn no_power_failure_brings_an_older_version_back() {
    for policy in [PolicyKind::ReuseSlots, PolicyKind::Lru, PolicyKind::Tac] {
        let made = simulate(3, || World::used(options(policy, Mode::WriteThrough)).after(&Survival::All));
        let mut at = 0;
        loop {
            at += 1;
            let world = made.after(&Survival::All);
            let begun = world.plan.operations();
            world.plan.inject(Injection {
                at: begun + at,
                device: None,
                fault: Fault::Crash,
                forever: false,
            });
            let flushed = Arc::new(std::sync::atomic::AtomicU64::new(2));
            let lived = Simulation::new(SimConfig { seed: at, random_order: true, ..SimConfig::default() })
                .run(|| {
                    let (tier, _) = world.open();
                    for version in 3..=4 {
                        (0..6).for_each(|page| write(&tier, page, version));
                        tier.flush().unwrap();
                        flushed.store(version, std::sync::atomic::Ordering::SeqCst);
                    }
                    tier.close().unwrap();
                });
            let least = flushed.load(std::sync::atomic::Ordering::SeqCst);
            for survival in [Survival::All, Survival::None, Survival::Torn(at)] {
                let after = world.after(&survival);
                simulate(at, move || {
                    let (tier, _) = after.open();
                    let found: Vec<u64> = (0..PAGES).map(|page| read_torn(&tier, page)).collect();
                    // From the cache, if it is warm, and from the disk alike.
                    let on_disk: Vec<u64> = (0..PAGES).map(|page| on_disk(&after, page)).collect();
                    assert_eq!(found, on_disk, "operation {at}, {survival:?}");
                    assert!(found[..6].iter().all(|found| *found >= least), "operation {at}: {found:?}");
                });
            }
            if matches!(lived, Outcome::Finished(())) {
                break;
            }
        }
        assert!(at > 30, "{at} operations");
    }
}

/// Of a page that may be torn.
fn number(found: &[u8]) -> u64 {
    u64::from_le_bytes(found[8..16].try_into().unwrap())
}

fn read_torn(tier: &FlashTier, page: u64) -> u64 {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates).map_or(u64::MAX, |_| number(&found))
}

fn on_disk(world: &World, page: u64) -> u64 {
    let mut found = vec![0; PAGE];
    world.disk.read(page * PAGE as u64, &mut found).map_or(u64::MAX, |()| number(&found))
}

#[test]
fn what_another_program_has_written_is_served() {
    for options in caches() {
        simulate(4, move || {
            let name = name(&options);
            // It is noticed by the fingerprint.
            let world = World::used(options);
            world.disk.write(0, &bytes(0, 9)).unwrap();
            world.disk.sync().unwrap();
            let (tier, report) = world.open();
            assert!(report.notices.concat().contains("another program"), "{name}: {report:?}");
            assert!(cached(&tier).is_empty(), "{name}");
            assert_eq!((read(&tier, 0), read(&tier, 1)), (9, 2), "{name}");
            tier.close().unwrap();
            // One of ours, which used the disk without the flash.
            let home = InPlaceDisk::open(world.disk.clone(), world.label.clone()).unwrap().0;
            let layer = DiskLayer::open(home, PAGE as u32).unwrap();
            layer.close().unwrap();
            world.disk.write(70 * PAGE as u64, &bytes(70, 10)).unwrap();
            world.disk.sync().unwrap();
            let (tier, report) = world.open();
            assert!(report.notices.concat().contains("emptied"), "{name}: {report:?}");
            assert_eq!((read(&tier, 0), read(&tier, 70)), (9, 10), "{name}");
        });
    }
}

/// A segment that is damaged, or of an earlier shutdown, is left out, and its pages are read from the disk.
#[test]
fn a_damaged_or_an_older_segment_is_left_out() {
    for policy in [PolicyKind::ReuseSlots, PolicyKind::Tac, PolicyKind::Flashcache] {
        simulate(5, move || {
            let world = World::used(options(policy, Mode::WriteThrough));
            let layout = world.options.layout();
            let (at, length) = (layout.slots_segment_offset(2, 0), layout.segment_bytes() as usize);
            let mut older = vec![0; length];
            world.flash.read(at, &mut older).unwrap();
            let (tier, _) = world.open();
            (0..PAGES).for_each(|page| write(&tier, page, 3));
            (0..3).for_each(|_| (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 3)));
            tier.close().unwrap();
            let all = u64::from(inspect(&*world.flash).unwrap().directory.unwrap().occupancy.valid);
            for damage in [older, vec![7; length], vec![0; length]] {
                let after = world.after(&Survival::All);
                after.flash.write(at, &damage).unwrap();
                let (tier, report) = after.open();
                let told = report.notices.concat();
                assert!(told.contains("directory segment 2: "), "{}: {report:?}", policy.name());
                assert!(report.warm && report.entries + 16 >= all && report.entries < all, "{report:?}");
                (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 3, "{}: {page}", policy.name()));
                tier.close().unwrap();
            }
            // Of the superblocks, only one says that it was closed.
            let after = world.after(&Survival::All);
            let sequence = inspect(&*after.flash).unwrap().superblock.sequence;
            after.flash.write(sequence % 4 * (16 << 10), &[7; 4096]).unwrap();
            let (tier, report) = after.open();
            assert!(!report.warm, "{report:?}");
            (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 3, "{}: {page}", policy.name()));
        });
    }
}

/// What is written while the cache is used is the same as if slots did not survive. A shutdown writes
/// 16 bytes a slot in addition.
#[test]
fn only_a_shutdown_writes_more() {
    for policy in [PolicyKind::ReuseSlots, PolicyKind::Lru] {
        let written = |keeps_slots: bool| {
            simulate(6, move || {
                let kept = options(policy, Mode::WriteThrough);
                let world = World::new(TierOptions { keeps_slots, ..kept });
                let tier = world.create();
                for number in 1..=3 {
                    (0..PAGES).for_each(|page| write(&tier, page, number));
                    tier.flush().unwrap();
                    tier.checkpoint().unwrap();
                }
                let used: Counters = world.flash.counters();
                tier.close().unwrap();
                (used.written_bytes, world.flash.counters().written_bytes - used.written_bytes)
            })
        };
        let [(used, closed), (without, closed_without)] = [true, false].map(written);
        assert_eq!(used, without, "{}", policy.name());
        // Six segments of one block for the head, and one for 16 entries.
        assert_eq!(closed - closed_without, 6 * 2 * 4096, "{}", policy.name());
    }
}

/// Temperatures are hints: they are there after a crash, too, as of the last shutdown.
#[test]
fn temperatures_survive_a_crash() {
    simulate(7, || {
        let hot = |tier: &FlashTier| {
            // Pages 96 to 127 are a region that is read again and again, while nothing of it is cached.
            (0..2).for_each(|_| (0..PAGES).for_each(|page| _ = read(tier, page)));
        };
        let world = World::new(options(PolicyKind::Tac, Mode::WriteThrough));
        let tier = world.create();
        hot(&tier);
        tier.close().unwrap();
        let (tier, _) = world.open();
        let after = world.after(&Survival::All);
        drop(tier);
        let (tier, report) = after.open();
        assert!(!report.warm && report.bytes_read >= 2 * after.options.layout().temperatures_bytes());
        assert!(report.notices.concat().contains("was not closed"), "{report:?}");
        tier.close().unwrap();
        assert!(after.open().1.notices.is_empty());
    });
}

/// Between write-through and write-around the pages stay. Another kind of directory is refused by a sentence;
/// a volume makes the cache anew then.
#[test]
fn another_mode_finds_the_pages_or_is_refused() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots_in(Mode::WriteThrough)) {
        simulate(8, move || {
            let mut world = World::used(options(policy, Mode::WriteThrough));
            let refused = |options: TierOptions| {
                let home = InPlaceDisk::open(world.disk.clone(), world.label.clone()).unwrap().0;
                let home = WholeDisk::new(home, PAGE as u32);
                refusal(FlashTier::open_at(world.flash.clone(), home, options))
            };
            if policy.may_keep_slots() {
                let told = refused(options(policy, Mode::WriteBack));
                assert!(told.contains("survive a shutdown, slots that survive a crash were"), "{told}");
            }
            let without = TierOptions { keeps_slots: false, ..world.options.clone() };
            if without.validate().is_ok() {
                let told = refused(without);
                assert!(told.contains("survive a shutdown, slots that do not"), "{told}");
            }
            world.options = options(policy, Mode::WriteAround);
            let (tier, report) = world.open();
            assert!(report.warm, "{}: {report:?}", policy.name());
            (0..PAGES).for_each(|page| assert_eq!(read(&tier, page), 2, "{}: {page}", policy.name()));
            tier.close().unwrap();
            drop(tier);
            let home = InPlaceDisk::open(world.disk.clone(), world.label.clone()).unwrap().0;
            detach(world.flash.clone(), home).unwrap();
            assert!(world.open().1.notices.concat().contains("emptied"), "{}", policy.name());
        });
    }
}

/// What a cache without slots that survive has, or one of a memory above, is not possible so.
#[test]
fn what_keeps_its_slots_so() {
    let kept = |policy, mode| options(policy, mode).validate().map_err(|error| error.to_string());
    assert_eq!(options(PolicyKind::Tac, Mode::WriteThrough).directory(), Directory::SegmentsAtShutdown);
    assert_eq!(kept(PolicyKind::Tac, Mode::WriteThrough), Ok(()));
    for policy in [PolicyKind::Loc, PolicyKind::Glb, PolicyKind::FaceGsc] {
        let told = kept(policy, Mode::WriteThrough).unwrap_err();
        assert!(told.contains("survive a shutdown are not possible with policy"), "{told}");
    }
    let raw = TierOptions { keeps_slots: false, ..options(PolicyKind::Tac, Mode::WriteThrough) };
    assert!(raw.validate().unwrap_err().to_string().contains("keeps its slots over an open"));
}

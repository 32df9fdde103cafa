//! Which flash goes with which disk: the rules of docs/DESIGN.md §4, and what is said when they are broken.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{
    DiskLayer, DurableGroup, FlashTier, FragmentOptions, FragmentTier, Layer, Mode, Source, TierError,
    TierOptions, check, detach, flash_bytes,
};
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use std::sync::Arc;
use support::{PAGE, build, bytes_of, disk_bytes, load, memory, simulate, small, version, victim};

const PAGES: u64 = 120;

fn copy(device: &dyn Device) -> Arc<MemoryDevice> {
    let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
    device.read(0, &mut bytes).unwrap();
    let copy = MemoryDevice::new("copy", bytes.len() as u64);
    copy.write(0, &bytes).unwrap();
    Arc::new(copy)
}

fn write_all(layer: &dyn Layer, number: u64) {
    for page in 0..PAGES {
        let page = PageId(page);
        layer.evict(victim(page, number, true, true), &build(page, number)).unwrap();
    }
}

fn expect_all(layer: &dyn Layer, number: u64) -> Vec<Source> {
    let mut buffer = vec![0; PAGE];
    (0..PAGES)
        .map(|page| {
            let page = PageId(page);
            let fetched = layer.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), number, "page {page} from {fetched:?}");
            fetched.source
        })
        .collect()
}

fn refusal(result: Result<impl Sized, TierError>) -> String {
    match result {
        Err(TierError::Refused(sentence)) => sentence,
        Err(other) => panic!("refused in another way: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

fn open(flash: &Arc<MemoryDevice>, disk: &Arc<MemoryDevice>, options: &TierOptions) -> Arc<FlashTier> {
    FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap().0
}

/// A closed cache with all pages at version 2, and its disk.
fn used(options: &TierOptions) -> (Arc<MemoryDevice>, Arc<MemoryDevice>) {
    let (flash, disk) = memory(options, PAGES);
    load(disk.clone(), PAGES);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    write_all(&*tier, 2);
    tier.close().unwrap();
    (flash, disk)
}

#[test]
fn after_a_shutdown_the_cache_is_warm_under_any_policy_of_its_placement() {
    let policies = [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc];
    for (was, is) in policies.into_iter().flat_map(|was| policies.map(|is| (was, is))) {
        simulate(1, move || {
            let (flash, disk) = used(&small(was, 96));
            let (tier, report) = FlashTier::open(flash.clone(), disk.clone(), small(is, 96)).unwrap();
            assert!(report.warm && report.entries > 60 && report.dirty > 60, "{report:?}");
            assert!(report.notices.is_empty() && report.pages_verified == 0, "{report:?}");
            let sources = expect_all(&*tier, 2);
            let warm = sources.iter().filter(|source| **source == Source::Flash).count() as u64;
            assert_eq!(warm, report.entries);
            write_all(&*tier, 3);
            tier.close().unwrap();
            let report = check(&*flash, Some(disk.clone())).unwrap();
            assert!(report.is_sound() && report.pages > 0 && report.disk_pages > 0, "{report}");
            expect_all(&*open(&flash, &disk, &small(was, 96)), 3);
        });
    }
}

#[test]
fn lazy_cleaning_comes_back_cold_with_everything_on_disk() {
    simulate(1, || {
        let options = small(PolicyKind::Lc, 96);
        let (flash, disk) = used(&options);
        let (tier, report) = FlashTier::open(flash, disk.clone(), options).unwrap();
        assert!(!report.warm && report.entries == 0, "{report:?}");
        assert!(expect_all(&*tier, 2).iter().all(|source| *source == Source::Disk));
        tier.close().unwrap();
        // Nothing on flash is ever needed: the disk alone will do.
        expect_all(&*DiskLayer::open(disk, PAGE as u32).unwrap(), 2);
    });
}

#[test]
fn a_disk_with_newer_pages_on_flash_is_not_opened_without_it() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = used(&options);
        let page_bytes = PAGE as u32;
        assert!(
            refusal(DiskLayer::open(disk.clone(), page_bytes)).contains("open it with that flash device")
        );
        assert!(refusal(DiskLayer::create(disk.clone(), page_bytes)).contains("detach"));
        let other = Arc::new(MemoryDevice::new("other", flash_bytes(&options)));
        assert!(refusal(FlashTier::create(other.clone(), disk.clone(), options.clone())).contains("detach"));
        let sentence = refusal(FlashTier::open(other, disk.clone(), options.clone()));
        assert!(sentence.contains("it is blank"), "{sentence}");
        // Detached, it is whole by itself; and the old cache is known to be empty.
        open(&flash, &disk, &options).detach().unwrap();
        let layer = DiskLayer::open(disk.clone(), page_bytes).unwrap();
        expect_all(&*layer, 2);
        write_all(&*layer, 3);
        layer.close().unwrap();
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        assert!(!report.warm && report.notices[0].contains("emptied"), "{report:?}");
        assert!(expect_all(&*tier, 3).iter().all(|source| *source == Source::Disk));
    });
}

#[test]
fn a_cache_of_another_disk_is_refused_or_emptied() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        simulate(1, move || {
            let mut options = small(PolicyKind::FaceGsc, 96);
            options.mode = mode;
            let (flash, _) = used(&options);
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
            load(disk.clone(), PAGES);
            let opened = FlashTier::open(flash.clone(), disk.clone(), options.clone());
            if mode == Mode::WriteBack {
                let sentence = refusal(opened);
                assert!(sentence.contains("of another disk"), "{sentence}");
                let sentence = refusal(FlashTier::create(flash, disk, options));
                assert!(sentence.contains("of another disk"), "{sentence}");
            } else {
                let (tier, report) = opened.unwrap();
                assert!(!report.warm && report.notices[0].contains("emptied"), "{report:?}");
                expect_all(&*tier, 1);
            }
        });
    }
}

#[test]
fn a_cache_whose_epoch_is_behind_is_refused_or_emptied() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        simulate(1, move || {
            let mut options = small(PolicyKind::Face, 96);
            options.mode = mode;
            let (flash, disk) = used(&options);
            let old = copy(&*flash);
            let tier = open(&flash, &disk, &options);
            write_all(&*tier, 3);
            tier.close().unwrap();
            let opened = FlashTier::open(old, disk.clone(), options.clone());
            if mode == Mode::WriteBack {
                let sentence = refusal(opened);
                assert!(sentence.contains("the disk was written without it"), "{sentence}");
                expect_all(&*open(&flash, &disk, &options), 3);
            } else {
                let (tier, report) = opened.unwrap();
                assert!(report.notices[0].contains("emptied"), "{report:?}");
                expect_all(&*tier, 3);
            }
        });
    }
}

#[test]
fn an_older_state_of_the_disk_is_refused() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGr, 96);
        let (flash, disk) = used(&options);
        let old = copy(&*disk);
        for _ in 0..2 {
            open(&flash, &disk, &options).close().unwrap();
        }
        let sentence = refusal(FlashTier::open(flash, old, options));
        assert!(sentence.contains("the disk is an older state"), "{sentence}");
    });
}

/// Two copies of disk and flash, both opened since: epochs are counted, and both count the same.
#[test]
fn a_flash_of_another_branch_is_refused_or_emptied() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        let options = TierOptions { mode, ..small(PolicyKind::FaceGsc, 96) };
        let session = |seed, (flash, disk): (&MemoryDevice, &MemoryDevice), version| {
            let (flash, disk) = (copy(flash), copy(disk));
            let devices = (flash.clone(), disk.clone());
            let options = options.clone();
            simulate(seed, move || {
                let tier = open(&flash, &disk, &options);
                write_all(&*tier, version);
                tier.close().unwrap();
            });
            devices
        };
        let copied = simulate(1, || used(&options));
        let ours = session(2, (&copied.0, &copied.1), 3);
        let theirs = session(3, (&copied.0, &copied.1), 4);
        let options = options.clone();
        simulate(4, move || match FlashTier::open(theirs.0, ours.1.clone(), options.clone()) {
            Ok((tier, report)) => {
                assert_eq!(mode, Mode::WriteThrough);
                assert!(!report.warm && report.notices[0].contains("two branches"), "{report:?}");
                expect_all(&*tier, 3);
            }
            Err(error) => {
                assert_eq!(mode, Mode::WriteBack);
                assert!(error.to_string().contains("two branches"), "{error}");
                expect_all(&*open(&ours.0, &ours.1, &options), 3);
            }
        });
    }
}

/// A disk needs its cache, though nothing has entered it yet: it is not given to another disk before it is
/// detached.
#[test]
fn an_empty_cache_is_kept_for_its_disk() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        let other = Arc::new(MemoryDevice::new("other", disk_bytes(PAGES)));
        load(other.clone(), PAGES);
        for refused in [
            FlashTier::create(flash.clone(), other.clone(), options.clone()).map(drop),
            FlashTier::open(flash.clone(), other.clone(), options.clone()).map(drop),
        ] {
            let sentence = refusal(refused);
            assert!(sentence.contains("detach it there"), "{sentence}");
        }
        expect_all(&*open(&flash, &disk, &options), 1);
        detach(flash.clone(), disk.clone()).unwrap();
        expect_all(&*DiskLayer::open(disk, PAGE as u32).unwrap(), 1);
        FlashTier::create(flash, other, options).unwrap();
    });
}

#[test]
fn a_disk_one_session_old_is_told_from_an_open_that_was_cut_off() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Lc] {
        simulate(1, move || {
            let options = small(policy, 96);
            let (flash, disk) = used(&options);
            let old = copy(&*disk);
            let tier = open(&flash, &disk, &options);
            write_all(&*tier, 3);
            tier.close().unwrap();
            // As of before the session that ended just now.
            let opened = FlashTier::open(copy(&*flash), old, options.clone());
            if options.mode == Mode::WriteBack && policy == PolicyKind::FaceGsc {
                let sentence = refusal(opened);
                assert!(sentence.contains("the disk is an older state"), "{sentence}");
            } else {
                let (_, report) = opened.unwrap();
                assert!(report.notices[0].contains("the disk is an older state"), "{report:?}");
            }
            expect_all(&*open(&flash, &disk, &options), 3);
        });
    }
}

#[test]
fn an_open_that_was_cut_off_anywhere_is_completed_by_the_next() {
    let options = small(PolicyKind::FaceGsc, 96);
    let mut operations = u64::MAX;
    let mut at = 0;
    while at < operations {
        at += 1;
        let (flash, disk) = simulate(1, || used(&options));
        let plan = Arc::new(FaultPlan::crash_at(at));
        let device = |name: &str, memory: &MemoryDevice| {
            Arc::new(FaultyDevice::new(name, memory.fork(name), plan.clone()))
        };
        let (cut_flash, cut_disk) = (device("flash", &flash), device("disk", &disk));
        let simulation = Simulation::new(SimConfig { seed: at, ..SimConfig::default() });
        let outcome = simulation.run(|| {
            drop(FlashTier::open(cut_flash.clone(), cut_disk.clone(), options.clone()).unwrap());
            plan.operations()
        });
        if let Outcome::Finished(all) = outcome {
            operations = all;
        }
        for survival in [Survival::None, Survival::All, Survival::Seed(at)] {
            let [flash, disk] = [&cut_flash, &cut_disk].map(|cut| Arc::new(cut.after_crash(&survival)));
            simulate(2, || expect_all(&*open(&flash, &disk, &options), 2));
        }
    }
    assert!(operations > 20, "{operations}");
}

/// Power fails while blank devices are taken into use, and leaves sectors that cannot be read. The next try
/// succeeds.
#[test]
fn a_first_use_that_was_cut_off_anywhere_is_begun_again() {
    type Use = fn(Arc<FaultyDevice>, Arc<FaultyDevice>) -> Result<(), TierError>;
    const BLANK_FLASH: Use =
        |flash, disk| FlashTier::open(flash, disk, small(PolicyKind::FaceGsc, 96)).map(drop);
    const NEW_CACHE: Use =
        |flash, disk| FlashTier::create(flash, disk, small(PolicyKind::FaceGsc, 96)).map(drop);
    const FRAGMENTS: Use = |flash, disk| {
        let pages = flash.geometry().capacity_bytes / PAGE as u64 - 256;
        FragmentTier::open(flash, disk, FragmentOptions::new(pages as u32)).map(drop)
    };
    let mut unreadable = 0;
    for (attempt, labelled) in [(BLANK_FLASH, true), (NEW_CACHE, true), (NEW_CACHE, false), (FRAGMENTS, true)]
    {
        let mut operations = u64::MAX;
        let mut at = 0;
        while at < operations {
            at += 1;
            let (flash, disk) = memory(&small(PolicyKind::FaceGsc, 96), PAGES);
            if labelled {
                simulate(1, || load(disk.clone(), PAGES));
            }
            let plan = Arc::new(FaultPlan::crash_at(at));
            let device = |name: &str, memory: &MemoryDevice, plan: &Arc<FaultPlan>| {
                Arc::new(FaultyDevice::new(name, memory.fork(name), plan.clone()))
            };
            let (cut_flash, cut_disk) = (device("flash", &flash, &plan), device("disk", &disk, &plan));
            let simulation = Simulation::new(SimConfig { seed: at, ..SimConfig::default() });
            let outcome = simulation.run(|| {
                attempt(cut_flash.clone(), cut_disk.clone()).unwrap();
                plan.operations()
            });
            if let Outcome::Finished(all) = outcome {
                operations = all;
            }
            for survival in (0..20).map(Survival::Torn) {
                let [flash, disk] = [&cut_flash, &cut_disk].map(|cut| cut.after_crash(&survival));
                unreadable += u32::from(flash.read(16384, &mut [0; 4096]).is_err());
                let none = Arc::new(FaultPlan::none());
                let (flash, disk) = (device("flash", &flash, &none), device("disk", &disk, &none));
                // A cache whose disk is bound to it already is opened.
                let again = simulate(2, || {
                    attempt(flash.clone(), disk.clone()).or_else(|_| BLANK_FLASH(flash, disk))
                });
                assert!(again.is_ok(), "cut off at {at}, {survival:?}: {}", again.unwrap_err());
            }
        }
        assert!(operations > 8, "{operations}");
    }
    assert!(unreadable > 5, "{unreadable}");
}

#[test]
fn another_shape_is_refused_with_the_right_one() {
    simulate(1, || {
        let (flash, disk) = used(&small(PolicyKind::FaceGsc, 96));
        let open = |options: TierOptions| refusal(FlashTier::open(flash.clone(), disk.clone(), options));
        assert!(open(small(PolicyKind::FaceGsc, 80)).contains("open it with 96"));
        assert!(
            open(TierOptions { segment_entries: 128, ..small(PolicyKind::FaceGsc, 96) }).contains("with 64")
        );
        assert!(open(small(PolicyKind::Lc, 96)).contains("places pages differently"));
        let error = FlashTier::open(
            flash.clone(),
            disk.clone(),
            TierOptions { page_bytes: 8192, ..small(PolicyKind::FaceGsc, 96) },
        );
        assert!(refusal(error).contains("pages of 4096 bytes"));
    });
}

#[test]
fn write_back_pages_are_destaged_when_the_mode_becomes_write_through() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = used(&options);
        let through = TierOptions { mode: Mode::WriteThrough, ..options };
        let (tier, report) = FlashTier::open(flash, disk.clone(), through).unwrap();
        assert!(
            report.warm && report.dirty == 0 && report.notices[0].contains("copied there first"),
            "{report:?}"
        );
        assert_eq!(tier.metrics().slots_dirty, 0);
        expect_all(&*tier, 2);
        drop(tier);
        // Losing the flash loses nothing.
        expect_all(&*DiskLayer::open(disk, PAGE as u32).unwrap(), 2);
    });
}

#[test]
fn bad_options_and_small_devices_are_refused_with_a_sentence() {
    simulate(1, || {
        let good = small(PolicyKind::FaceGsc, 96);
        let try_with = |options: TierOptions| {
            let (flash, disk) = memory(&good, PAGES);
            load(disk.clone(), PAGES);
            match FlashTier::create(flash, disk, options) {
                Err(TierError::Config(sentence)) => sentence,
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("accepted"),
            }
        };
        assert!(try_with(small(PolicyKind::FaceGsc, 960)).contains("choose fewer slots"));
        assert!(try_with(TierOptions { page_bytes: 5000, ..good.clone() }).contains("choose 4096"));
        assert!(try_with(TierOptions { slots: 8, ..good.clone() }).contains("it takes"));
        assert!(
            try_with(TierOptions { segment_entries: 3, ..good.clone() }).contains("whole number of groups")
        );
        assert!(try_with(TierOptions { write_workers: 0, ..good.clone() }).contains("choose 1 to"));
        assert_eq!(
            TierOptions::for_device(
                PolicyKind::FaceGsc,
                flash_bytes(&TierOptions::new(PolicyKind::FaceGsc, 65_536)),
                4096
            )
            .slots,
            65_536
        );
        for page_bytes in [8192, 32_768] {
            let sized = |slots| {
                flash_bytes(&TierOptions { page_bytes, ..TierOptions::new(PolicyKind::FaceGsc, slots) })
            };
            let capacity = sized(65_536);
            let largest = TierOptions::for_device(PolicyKind::FaceGsc, capacity, page_bytes);
            assert_eq!((largest.slots, largest.page_bytes), (65_536, page_bytes));
            let smaller = TierOptions::for_device(PolicyKind::FaceGsc, capacity - 1, page_bytes);
            assert_eq!(smaller.slots, 65_536 - smaller.group_pages);
        }
    });
}

#[test]
fn what_is_not_ours_is_named_and_left_as_it_is() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = used(&options);
        // The flash of another cache is given as the disk, a disk as the flash, and each with something
        // foreign on it.
        let ext4 = |device: &MemoryDevice| {
            let foreign = MemoryDevice::new("foreign", device.geometry().capacity_bytes);
            let mut sector = [0; 512];
            sector[56..58].copy_from_slice(b"\x53\xef");
            foreign.write(1024, &sector).unwrap();
            Arc::new(foreign)
        };
        let through = TierOptions { mode: Mode::WriteThrough, ..options.clone() };
        let (_, blank) = memory(&options, PAGES);
        let unbound = || {
            let (_, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            disk
        };
        let large = Arc::new(MemoryDevice::new("large", flash_bytes(&options).max(disk_bytes(PAGES))));
        large.write(0, &bytes_of(&*unbound())).unwrap();
        let unknown = {
            let device = MemoryDevice::new("unknown", flash_bytes(&options));
            device.write(512 << 10, &[7; 512]).unwrap();
            Arc::new(device)
        };
        let cases = [
            (ext4(&flash), unbound(), "an ext2, ext3 or ext4 file system"),
            (large, unbound(), "the disk of a database of Entresol"),
            (unknown, unbound(), "something unknown (at offset 524288)"),
            (memory(&options, PAGES).0, ext4(&disk), "an ext2, ext3 or ext4 file system"),
            (memory(&options, PAGES).0, flash.clone(), "a flash cache of Entresol"),
        ];
        for (flash, disk, sentence) in cases {
            let before = [bytes_of(&*flash), bytes_of(&*disk)];
            let told = refusal(FlashTier::create(flash.clone(), disk.clone(), options.clone()));
            assert!(told.contains(sentence), "{told}");
            if let Err(error) = FlashTier::open(flash.clone(), disk.clone(), through.clone()) {
                let told = error.to_string();
                assert!(told.contains(sentence) || told.contains("no label"), "{told}");
            } else {
                panic!("opened: {sentence}");
            }
            assert!(before == [bytes_of(&*flash), bytes_of(&*disk)], "{sentence}: something was written");
            let over = TierOptions { overwrite: true, ..options.clone() };
            if sentence != "a flash cache of Entresol" {
                FlashTier::create(flash, disk, over).unwrap_or_else(|error| panic!("{sentence}: {error}"));
            }
        }
        let told = refusal(DiskLayer::create(ext4(&disk), PAGE as u32));
        assert!(told.contains("ext4"), "{told}");
        drop(DiskLayer::create_on(ext4(&disk), PAGE as u32, true).unwrap());
        drop(DiskLayer::create(blank, PAGE as u32).unwrap());
    });
}

/// The log of a database may name groups of a cache that was detached. After a crash of the cache that
/// follows, none of them passes for one of its groups.
#[test]
fn groups_of_a_detached_cache_are_not_on_the_next_one() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Face] {
        let options = small(policy, 160);
        simulate(1, || {
            let (flash, disk) = used(&options);
            detach(flash, disk.clone()).unwrap();
            let flash = memory(&options, PAGES).0;
            let tier = open(&flash, &disk, &options);
            write_all(&*tier, 3);
            tier.checkpoint().unwrap();
            drop(tier);
            let tier = open(&flash, &disk, &options);
            let survivors = tier.survivors().expect("groups survive with log placement");
            // The epochs of this open's predecessor, and of the detached cache.
            let [own, older] = [1, 2].map(|age| {
                let epoch = survivors.epoch - age;
                (0..survivors.rear)
                    .filter(|number| survivors.have(DurableGroup { epoch, number: *number }))
                    .count()
            });
            assert!(
                own > 20 && older == 0,
                "{policy:?}: {own} groups of its own, {older} of the other cache"
            );
        });
    }
}

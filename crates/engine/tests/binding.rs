//! Which flash goes with which disk: the rules of docs/DESIGN.md §4, and what is said when they are broken.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{
    DiskLayer, DurableGroup, FlashTier, Layer, Mode, PageCache, Source, TierError, TierOptions, check,
    detach, flash_bytes, renounce,
};
use std::sync::Arc;
use support::{
    PAGE, PAGES, disk_bytes, expect_all, load, memory, open, refusal, simulate, small, used, write_all,
};

fn copy(device: &dyn Device) -> Arc<MemoryDevice> {
    let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
    device.read(0, &mut bytes).unwrap();
    let copy = MemoryDevice::new("copy", bytes.len() as u64);
    copy.write(0, &bytes).unwrap();
    Arc::new(copy)
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
            report.warm && report.dirty == 0 && report.notices[0].contains("copied to disk first"),
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

#[test]
fn a_cache_that_its_disk_renounces_is_empty_and_free() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = used(&options);
        // The owner has put other content on the disk.
        assert!(renounce(&*flash, &*disk).unwrap());
        let free = copy(&*flash);
        let (tier, report) = FlashTier::open(flash, disk.clone(), options.clone()).unwrap();
        assert!(!report.warm && report.entries == 0, "{report:?}");
        let sources = (0..PAGES).map(|page| tier.fetch(PageId(page), &mut [0; PAGE]).unwrap().source);
        assert!(sources.into_iter().all(|source| source == Source::Disk));
        tier.close().unwrap();
        // Another disk may have it, and the disk may have another cache.
        let (other_flash, other_disk) = memory(&options, PAGES);
        load(other_disk.clone(), PAGES);
        expect_all(&*FlashTier::open(free, other_disk, options.clone()).unwrap().0, 1);
        assert!(renounce(&*other_flash, &*disk).is_ok_and(|had_one| !had_one));
        FlashTier::open(other_flash.clone(), disk.clone(), options.clone()).unwrap().0.close().unwrap();
        // One that is another disk's stays what it is.
        let (needed, _) = used(&options);
        assert!(!renounce(&*needed, &*disk).unwrap());
        assert!(refusal(FlashTier::open(needed, disk, options)).contains("of another disk"));
    });
}

#[test]
fn a_renunciation_that_is_cut_off_is_made_again() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = used(&options);
        let label_before = copy(&*disk);
        assert!(renounce(&*flash, &*disk).unwrap());
        // Power failed between the two: the disk still names its cache.
        let disk = label_before;
        assert!(renounce(&*flash, &*disk).unwrap());
        let (_, report) = FlashTier::open(flash, disk, options).unwrap();
        assert_eq!((report.warm, report.entries), (false, 0));
    });
}

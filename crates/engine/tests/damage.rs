//! Damage: what is served is proved; a damaged clean page costs a disk read, a damaged dirty one is an error
//! that names it, and a failing flash device never loses a page silently.

mod support;

use entresol_core::{Directory, PageId, Placement, PolicyKind, SlotView};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{FlashTier, Layer, Mode, PageCache, Source, TierError, TierOptions, check, inspect};
use entresol_format::{checksum, segment};
use std::sync::Arc;
use support::{PAGE, build, bytes_of, device_of, disk_bytes, load, memory, simulate, small, version, victim};

const PAGES: u64 = 120;
/// Where the superblock's copies lie.
const COPIES: [u64; 4] = [0, 16 << 10, 32 << 10, 48 << 10];

fn flip(device: &MemoryDevice, offset: u64) {
    let mut sector = vec![0; 512];
    let start = offset / 512 * 512;
    device.read(start, &mut sector).unwrap();
    sector[(offset - start) as usize] ^= 0x10;
    device.write(start, &sector).unwrap();
}

/// Byte offsets on `flash` of everything that starts with a page header of `page`.
fn copies_of(flash: &MemoryDevice, page: PageId) -> Vec<u64> {
    let mut bytes = vec![0; flash.geometry().capacity_bytes as usize];
    flash.read(0, &mut bytes).unwrap();
    let is_page = |offset: &u64| {
        let page_bytes = &bytes[*offset as usize..*offset as usize + PAGE];
        entresol_format::page::verify(page_bytes, page, None).is_ok()
    };
    (0..bytes.len() as u64 / 4096).map(|block| block * 4096).filter(is_page).collect()
}

fn write(tier: &dyn Layer, pages: std::ops::Range<u64>, number: u64, dirty: bool) {
    for page in pages.map(PageId) {
        tier.evict(victim(page, number, dirty, dirty), &build(page, number)).unwrap();
    }
}

/// Brings pages `0 .. 20` to flash: those of version 1 as they come from disk, where the policy takes them
/// then.
fn bring(tier: &FlashTier, policy: PolicyKind, number: u64, dirty: bool) {
    let mut buffer = vec![0; PAGE];
    if policy.populates() {
        for page in (0..20).map(PageId) {
            tier.fetch(page, &mut buffer).unwrap();
            tier.evict(victim(page, 1, false, false), &buffer).unwrap();
            while !tier.is_on_flash(page) {
                entresol_runtime::sleep(std::time::Duration::from_micros(1));
                tier.fetch(page, &mut buffer).unwrap();
            }
        }
    }
    if number > 1 || !policy.populates() {
        write(tier, 0..20, number, dirty);
    }
}

#[test]
fn a_damaged_clean_page_is_read_from_disk_and_counted() {
    for policy in PolicyKind::ALL {
        simulate(1, move || {
            let options = small(policy, 96);
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk, options).unwrap();
            bring(&tier, policy, 1, false);
            tier.checkpoint().unwrap();
            let page = PageId(7);
            for offset in copies_of(&flash, page) {
                flip(&flash, offset + 1000);
            }
            let mut buffer = vec![0; PAGE];
            assert_eq!(tier.fetch(page, &mut buffer).unwrap().source, Source::Disk, "{policy:?}");
            assert_eq!(version(page, &buffer), 1);
            assert_eq!(tier.metrics().damaged_clean, 1);
            assert_eq!(tier.fetch(PageId(8), &mut buffer).unwrap().source, Source::Flash);
            // Dropped silently when its turn comes.
            write(&*tier, 20..PAGES, 2, true);
            write(&*tier, 20..PAGES, 3, true);
            tier.close().unwrap();
        });
    }
}

#[test]
fn a_damaged_dirty_page_is_an_error_that_names_it_and_stops_the_tier_before_it_is_lost() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.write_back()) {
        simulate(1, move || {
            let options = small(policy, 96);
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            bring(&tier, policy, 2, true);
            if policy.placement() == Placement::Slots {
                // A checkpoint would clean it; by then staging is written.
                entresol_runtime::sleep(std::time::Duration::from_millis(10));
            } else {
                tier.checkpoint().unwrap();
            }
            let page = PageId(7);
            copies_of(&flash, page).into_iter().for_each(|offset| flip(&flash, offset + 1000));
            let mut buffer = vec![0; PAGE];
            match tier.fetch(page, &mut buffer) {
                Err(TierError::Damaged { page: named, place, .. }) => {
                    assert_eq!(named, page);
                    assert!(place.starts_with("flash slot"), "{place}");
                }
                other => panic!("{policy:?}: {other:?}"),
            }
            if policy.placement() == Placement::Log {
                let report = check(&*flash, Some(disk)).unwrap();
                assert!(report.faults.len() == 1 && report.faults[0].contains("page 0:7"), "{report}");
            }
            let failure = (0..500u64).find_map(|round| {
                let page = PageId(20 + round % (PAGES - 20));
                // What is never used does not displace what is never used.
                if policy.populates() || policy.learns_from_misses() {
                    let mut read = vec![0; PAGE];
                    let _ = tier.fetch(page, &mut read);
                    entresol_runtime::sleep(std::time::Duration::from_micros(10));
                }
                tier.evict(victim(page, 3, true, true), &build(page, 3)).err()
            });
            match failure {
                Some(TierError::Poisoned { reason, dirty_pages, .. }) => {
                    assert!(reason.contains("page 0:7") && dirty_pages > 0, "{reason}, {dirty_pages}");
                }
                other => panic!("{policy:?}: {other:?}"),
            }
            assert!(matches!(tier.fetch(page, &mut buffer), Err(TierError::Poisoned { .. })));
            assert!(matches!(tier.close(), Err(TierError::Poisoned { .. })));
        });
    }
}

#[test]
fn one_whole_superblock_is_enough() {
    for survivor in 0..COPIES.len() {
        simulate(1, move || {
            let options = small(PolicyKind::FaceGsc, 96);
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            for number in 2..6 {
                write(&*tier, 0..PAGES, number, true);
                tier.checkpoint().unwrap();
            }
            drop(tier);
            for (at, offset) in COPIES.into_iter().enumerate() {
                if at != survivor {
                    flip(&flash, offset + 100);
                }
            }
            assert_eq!(inspect(&*flash).unwrap().copies.iter().filter(|copy| copy.is_err()).count(), 3);
            assert!(!check(&*flash, None).unwrap().is_sound());
            let (tier, report) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
            assert!(report.warm && report.notices.len() == 3, "{report:?}");
            let mut buffer = vec![0; PAGE];
            for page in (0..PAGES).map(PageId) {
                tier.fetch(page, &mut buffer).unwrap();
                assert_eq!(version(page, &buffer), 5);
            }
            drop(tier);
            COPIES.into_iter().for_each(|offset| flip(&flash, offset + 101));
            match FlashTier::open(flash.clone(), disk, options) {
                Err(TierError::Refused(sentence)) => {
                    assert!(sentence.contains("no superblock that can be read"), "{sentence}");
                }
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("opened without a superblock"),
            }
            assert!(matches!(inspect(&*flash), Err(TierError::Refused(_))));
        });
    }
}

#[test]
fn damaged_summaries_and_segments_are_worked_around() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGr, 96);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        write(&*tier, 0..PAGES, 2, true);
        tier.close().unwrap();
        let found = inspect(&*flash).unwrap();
        assert!(found.superblock.segment_next > 0, "{found}");
        // Both directory segments and every summary: what is left is the pages themselves.
        let mut bytes = vec![0; flash.geometry().capacity_bytes as usize];
        flash.read(0, &mut bytes).unwrap();
        let mut hit = 0;
        for block in 0..bytes.len() / 4096 {
            if [&b"ENTRSEGM"[..], b"ENTRGRUP"].contains(&&bytes[block * 4096..block * 4096 + 8]) {
                flip(&flash, block as u64 * 4096 + 50);
                hit += 1;
            }
        }
        assert!(hit > 10);
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        assert!(report.warm && report.notices.len() > 10, "{report:?}");
        let mut buffer = vec![0; PAGE];
        for page in (0..PAGES).map(PageId) {
            tier.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 2);
        }
        tier.close().unwrap();
    });
}

struct Failing {
    tier: Arc<FlashTier>,
    plan: Arc<FaultPlan>,
    disk: Arc<MemoryDevice>,
    flash: Arc<FaultyDevice>,
    options: TierOptions,
}

fn failing(policy: PolicyKind, mode: Mode) -> Failing {
    failing_with(TierOptions { mode, ..small(policy, 96) })
}

fn failing_with(options: TierOptions) -> Failing {
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
    load(disk.clone(), PAGES);
    let plan = Arc::new(FaultPlan::none());
    let medium = MemoryDevice::new("medium", entresol_engine::flash_bytes(&options));
    let flash = Arc::new(FaultyDevice::new("flash", medium, plan.clone()));
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    Failing { tier, plan, disk, flash, options }
}

impl Failing {
    fn fail(&self, fault: Fault) {
        let at = self.plan.operations() + 1;
        self.plan.inject(Injection { at, device: Some("flash".to_owned()), fault, forever: true });
    }
}

#[test]
fn a_failing_flash_without_newer_pages_is_switched_off_and_the_disk_goes_on() {
    for fault in [Fault::WriteError, Fault::SyncErrorLosingWrites, Fault::Death] {
        simulate(1, move || {
            let world = failing(PolicyKind::FaceGsc, Mode::WriteThrough);
            write(&*world.tier, 0..60, 2, true);
            world.fail(fault);
            for number in 3..8 {
                write(&*world.tier, 0..PAGES, number, true);
            }
            let notice = world.tier.notice().expect("it has switched itself off");
            assert!(notice.contains("goes on from disk"), "{notice}");
            world.tier.checkpoint().unwrap();
            let mut buffer = vec![0; PAGE];
            for page in (0..PAGES).map(PageId) {
                assert_eq!(world.tier.fetch(page, &mut buffer).unwrap().source, Source::Disk);
                assert_eq!(version(page, &buffer), 7);
            }
            world.tier.close().unwrap();
            // The flash, come back to life, is history.
            let medium = world.flash.after_crash(&entresol_device::Survival::All);
            let (tier, report) =
                FlashTier::open(Arc::new(medium), world.disk.clone(), world.options.clone()).unwrap();
            assert!(!report.warm && report.notices.iter().any(|n| n.contains("emptied")), "{report:?}");
            for page in (0..PAGES).map(PageId) {
                tier.fetch(page, &mut buffer).unwrap();
                assert_eq!(version(page, &buffer), 7);
            }
        });
    }
}

/// The disk has everything, so its owner's log need not replace the flash that is switched off.
#[test]
fn a_flash_that_is_switched_off_holds_no_horizon() {
    for fault in [Fault::WriteError, Fault::SyncErrorLosingWrites, Fault::Death] {
        simulate(1, move || {
            let world = failing_with(TierOptions { keeps_bases: true, ..small(PolicyKind::FaceGsc, 96) });
            world.tier.resume_checkpoints(0).unwrap();
            world.tier.checkpoint().unwrap();
            world.fail(fault);
            assert_eq!(world.tier.bring_to_disk_before(0).unwrap(), u64::MAX);
            assert!(world.tier.notice().expect("it has switched itself off").contains("from disk"));
            write(&*world.tier, 0..20, 2, true);
            world.tier.checkpoint().unwrap();
            assert_eq!(world.tier.bring_to_disk_before(1).unwrap(), u64::MAX);
            world.tier.checkpoint_complete(1).unwrap();
            world.tier.close().unwrap();
        });
    }
}

#[test]
fn a_copy_that_could_not_be_read_never_follows_a_newer_version_from_disk() {
    for policy in [PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        simulate(1, move || {
            let world = failing(policy, Mode::WriteThrough);
            write(&*world.tier, 0..20, 2, true);
            world.tier.checkpoint().unwrap();
            // Version 3 goes to disk at once; power fails before its group is written.
            let page = PageId(7);
            world.tier.evict(victim(page, 3, true, true), &build(page, 3)).unwrap();
            let crash = |flash: &FaultyDevice| flash.after_crash(&entresol_device::Survival::All);
            let open = |medium, plan: &Arc<FaultPlan>| {
                let flash = Arc::new(FaultyDevice::new("flash", medium, plan.clone()));
                let tier =
                    FlashTier::open(flash.clone(), world.disk.clone(), world.options.clone()).unwrap().0;
                (tier, flash)
            };
            let plan = Arc::new(FaultPlan::none());
            let (tier, flash) = open(crash(&world.flash), &plan);
            let (at, device, fault) = (plan.operations() + 1, Some("flash".to_owned()), Fault::ReadError);
            plan.inject(Injection { at, device, fault, forever: true });
            let mut buffer = vec![0; PAGE];
            assert_eq!(tier.fetch(page, &mut buffer).unwrap().source, Source::Disk);
            assert_eq!(version(page, &buffer), 3);
            // Power fails, and the flash can be read again.
            let (tier, _flash) = open(crash(&flash), &Arc::new(FaultPlan::none()));
            tier.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 3, "{policy:?}");
        });
    }
}

/// A group's write lands across two others, so that of one the summary is gone and pages of another group lie
/// in its place: that these are missing must not pass for a group that was never full.
#[test]
fn a_group_that_went_elsewhere_does_not_bring_older_versions_back() {
    const BLOCKS: usize = 5; // four pages and a summary
    for (policy, mode) in [(PolicyKind::FaceGr, Mode::WriteThrough), (PolicyKind::FaceGsc, Mode::WriteBack)] {
        let world = simulate(1, move || {
            let world = failing(policy, mode);
            for number in 2..4 {
                write(&*world.tier, 0..26, number, true); // too few for a segment
                world.tier.checkpoint().unwrap();
            }
            world
        });
        let image = bytes_of(&world.flash.after_crash(&entresol_device::Survival::All));
        let groups: Vec<usize> = (0..image.len() / 4096)
            .filter(|block| image[block * 4096..].starts_with(b"ENTRGRUP"))
            .map(|summary| (summary + 1 - BLOCKS) * 4096)
            .collect();
        assert!(groups.len() > 10);
        let mut reported = 0;
        for shift in 1..BLOCKS {
            for (from, to) in groups.iter().zip(groups.iter().skip(3)) {
                let mut bytes = image.clone();
                let there = to + shift * 4096;
                bytes[there..there + BLOCKS * 4096].copy_from_slice(&image[*from..from + BLOCKS * 4096]);
                let (flash, options) = (device_of(&bytes), world.options.clone());
                let disk = device_of(&bytes_of(&*world.disk));
                reported += simulate(1, move || {
                    let tier = match FlashTier::open(flash, disk, options) {
                        Ok((tier, _)) => tier,
                        Err(TierError::Refused(_)) if mode == Mode::WriteBack => return 1,
                        Err(error) => panic!("{policy:?} shifted by {shift}: {error}"),
                    };
                    let mut buffer = vec![0; PAGE];
                    for page in (0..26).map(PageId) {
                        match tier.fetch(page, &mut buffer) {
                            Ok(_) => {
                                assert_eq!(version(page, &buffer), 3, "{policy:?} shifted by {shift}: {page}")
                            }
                            Err(TierError::Damaged { .. }) if mode == Mode::WriteBack => return 1,
                            Err(error) => panic!("{policy:?} shifted by {shift}: {error}"),
                        }
                    }
                    0
                });
            }
        }
        assert_eq!(reported > 0, mode == Mode::WriteBack);
    }
}

/// After a crash slot placement begins with an empty directory and fills the same slots with the same pages
/// again: what it finds there must not pass for what it has written.
#[test]
fn a_lost_write_does_not_show_what_lay_in_the_slot_before_a_crash() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Slots) {
        simulate(1, move || {
            let world = failing(policy, Mode::WriteThrough);
            write(&*world.tier, 0..20, 2, true);
            let mut buffer = vec![0; PAGE];
            (0..20).for_each(|page| _ = world.tier.fetch(PageId(page), &mut buffer).unwrap());
            world.tier.checkpoint().unwrap();
            let plan = Arc::new(FaultPlan::none());
            let medium = world.flash.after_crash(&entresol_device::Survival::All);
            let flash = Arc::new(FaultyDevice::new("flash", medium, plan.clone()));
            let (tier, _) = FlashTier::open(flash, world.disk.clone(), world.options.clone()).unwrap();
            let at = plan.operations() + 1;
            let (device, fault) = (Some("flash".to_owned()), Fault::LostWrite);
            plan.inject(Injection { at, device, fault, forever: true });
            write(&*tier, 0..20, 3, true);
            for page in 0..20 {
                tier.fetch(PageId(page), &mut buffer).unwrap();
                assert_eq!(version(PageId(page), &buffer), 3, "{}: page {page}", policy.name());
            }
        });
    }
}

/// The directory of LOC and GLB survives a shutdown, and with it positions of before: what an earlier open
/// had written to a slot that is free now must not pass for what this open has.
#[test]
fn a_lost_write_does_not_show_what_lay_in_the_slot_before_a_shutdown() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.directory() == Directory::AtShutdown) {
        let mut options = small(policy, 96);
        options.mode = Mode::WriteAround;
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
        load(disk.clone(), PAGES);
        let plan = Arc::new(FaultPlan::none());
        let medium = MemoryDevice::new("medium", entresol_engine::flash_bytes(&options));
        let flash = Arc::new(FaultyDevice::new("flash", medium, plan.clone()));
        let (page, mut newest) = (PageId(7), 1);
        for round in 0..600 {
            let (flash, disk, plan, options) = (flash.clone(), disk.clone(), plan.clone(), options.clone());
            newest = simulate(round, move || {
                let tier = match round {
                    0 => FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap(),
                    _ => FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap().0,
                };
                let mut newest = newest;
                let mut buffer = vec![0; PAGE];
                // One open brings the page to the slot any number of times, the next one loses its write.
                let loses = round % 2 == 1;
                for _ in 0..if loses { 1 } else { 1 + round / 2 } {
                    // Its slot is free, and the disk has the page.
                    newest += 1;
                    tier.evict(victim(page, newest, true, true), &build(page, newest)).unwrap();
                    assert!(!tier.is_on_flash(page));
                    if loses {
                        let (at, device) = (plan.operations() + 1, Some("flash".to_owned()));
                        plan.inject(Injection { at, device, fault: Fault::LostWrite, forever: false });
                    }
                    tier.fetch(page, &mut buffer).unwrap();
                    tier.evict(victim(page, newest, false, false), &buffer).unwrap();
                    entresol_runtime::sleep(std::time::Duration::from_millis(1));
                    let fetched = tier.fetch(page, &mut buffer).unwrap();
                    assert_eq!(version(page, &buffer), newest, "{} {fetched:?}", policy.name());
                    assert!(fetched.source == Source::Flash || loses, "{fetched:?}");
                }
                // What a shutdown leaves there counts.
                tier.evict(victim(page, newest, false, false), &buffer).unwrap();
                tier.close().unwrap();
                let (tier, _) = FlashTier::open(flash, disk, options).unwrap();
                let fetched = tier.fetch(page, &mut buffer).unwrap();
                assert!(fetched.source == Source::Flash || loses, "{fetched:?}");
                assert_eq!(version(page, &buffer), newest);
                newest += 1;
                tier.evict(victim(page, newest, true, true), &build(page, newest)).unwrap();
                tier.close().unwrap();
                newest
            });
        }
        assert!(plan.struck() > 290, "{} writes were lost", plan.struck());
    }
}

/// TAC's directory on flash says which pages it has. When a newer version goes to disk, that must not be said
/// any more, or nothing goes on with this flash: a crash would bring the older version back.
#[test]
fn an_invalidation_that_does_not_reach_flash_switches_the_cache_off() {
    let faults =
        [Fault::WriteError, Fault::NoSpace, Fault::SyncError, Fault::LostWrite, Fault::MisdirectedWrite];
    for fault in faults {
        simulate(1, move || {
            let world = failing(PolicyKind::Tac, Mode::WriteAround);
            bring(&world.tier, PolicyKind::Tac, 1, false);
            let page = PageId(7);
            assert!(world.tier.is_on_flash(page));
            let (at, device) = (world.plan.operations() + 1, Some("flash".to_owned()));
            world.plan.inject(Injection { at, device, fault, forever: false });
            world.tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
            assert_eq!(world.plan.struck(), 1);
            let notice = world.tier.notice().expect("it has switched itself off");
            assert!(notice.contains("flash"), "{notice}");
            let medium = world.flash.after_crash(&entresol_device::Survival::All);
            let (tier, _) =
                FlashTier::open(Arc::new(medium), world.disk.clone(), world.options.clone()).unwrap();
            let mut buffer = vec![0; PAGE];
            for other in (0..PAGES).map(PageId) {
                tier.fetch(other, &mut buffer).unwrap();
                assert_eq!(version(other, &buffer), if other == page { 2 } else { 1 }, "{fault:?}: {other}");
            }
        });
    }
}

#[test]
fn a_failing_flash_with_newer_pages_stops_everything_and_says_what_is_on_it() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.write_back()) {
        for fault in [Fault::WriteError, Fault::NoSpace, Fault::Death] {
            simulate(1, move || {
                let world = failing(policy, Mode::WriteBack);
                bring(&world.tier, policy, 2, true);
                write(&*world.tier, 0..60, 2, true);
                world.fail(fault);
                let failure = (0..500u64).find_map(|round| {
                    let page = PageId(round % PAGES);
                    world.tier.evict(victim(page, 3, true, true), &build(page, 3)).err()
                });
                let Some(TierError::Poisoned { dirty_pages, oldest_lsn, reason, .. }) = failure else {
                    panic!("{policy:?} {fault:?}: {failure:?}");
                };
                assert!(dirty_pages > 0 && reason.starts_with("flash"), "{dirty_pages} {reason}");
                assert!([0, 2, 3].contains(&oldest_lsn.0));
                let mut buffer = vec![0; PAGE];
                assert!(matches!(world.tier.fetch(PageId(1), &mut buffer), Err(TierError::Poisoned { .. })));
                assert!(matches!(world.tier.checkpoint(), Err(TierError::Poisoned { .. })));
                assert!(world.tier.notice().is_none());
            });
        }
    }
}

/// Slot placement keeps one byte of a version in memory. What a write to another slot brings there never
/// passes for the version wanted, though that byte is the same.
#[test]
fn an_older_version_from_another_slot_is_not_served() {
    let (page, mut alike) = (PageId(7), 0);
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Slots) {
        simulate(1, || {
            let options = TierOptions { mode: Mode::WriteThrough, ..small(policy, 64) };
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk, options).unwrap();
            let mut buffer = vec![0; PAGE];
            // Where versions of the page were written, with all their bytes.
            let mut written: Vec<(u64, Vec<u8>)> = Vec::new();
            for newest in 2..120 {
                tier.evict(victim(page, newest, true, true), &build(page, newest)).unwrap();
                for _ in 0..50 {
                    tier.fetch(page, &mut buffer).unwrap();
                    tier.evict(victim(page, newest, false, false), &buffer).unwrap();
                    entresol_runtime::sleep(std::time::Duration::from_micros(10));
                }
                tier.checkpoint().unwrap();
                let image = |offset: &u64| {
                    let mut bytes = vec![0; PAGE];
                    flash.read(*offset, &mut bytes).unwrap();
                    (*offset, bytes)
                };
                let copies = copies_of(&flash, page).iter().map(image).collect::<Vec<_>>();
                let is_newest = |(_, bytes): &&(u64, Vec<u8>)| version(page, bytes) == newest;
                if let Some((offset, image)) = copies.iter().find(is_newest)
                    && tier.is_on_flash(page)
                {
                    let byte = |image: &[u8]| entresol_format::page::header(image).generation.get() as u8;
                    let is_alike = |(at, older): &&(u64, Vec<u8>)| at != offset && byte(older) == byte(image);
                    if let Some((_, older)) = written.iter().find(is_alike) {
                        flash.write(*offset, older).unwrap();
                        alike += 1;
                        let fetched = tier.fetch(page, &mut buffer).unwrap();
                        assert_eq!(version(page, &buffer), newest, "{}: {fetched:?}", policy.name());
                    }
                    written.push((*offset, image.clone()));
                }
                // The page loses its slot to others.
                let others = 20 + newest * 40 % 80..;
                for other in others.take(40).map(|other| PageId(other % PAGES)).filter(|other| *other != page)
                {
                    tier.fetch(other, &mut buffer).unwrap();
                    tier.evict(victim(other, newest, true, true), &build(other, newest)).unwrap();
                }
            }
        });
    }
    // Some policies keep such a page where it is.
    assert!(alike > 50, "{alike} older versions had the same byte");
}

#[test]
fn lost_and_misdirected_writes_are_never_served() {
    // Whatever the flash does, a fetch gives the version wanted or an error.
    let mut strikes = 0;
    for seed in 0..96 {
        let fault = [Fault::LostWrite, Fault::MisdirectedWrite, Fault::DuplicatedWrite, Fault::BitRot]
            [seed as usize % 4];
        let policy = PolicyKind::ALL[seed as usize / 4 % PolicyKind::ALL.len()];
        let struck = simulate(seed, move || {
            let world = failing(policy, Mode::WriteThrough);
            let at = world.plan.operations() + 20 + seed * 7 % 200;
            world.plan.inject(Injection { at, device: Some("flash".to_owned()), fault, forever: false });
            let mut buffer = vec![0; PAGE];
            for number in 2..8 {
                write(&*world.tier, 0..PAGES, number, true);
                for page in (0..PAGES).map(PageId) {
                    match world.tier.fetch(page, &mut buffer) {
                        Ok(_) => assert_eq!(version(page, &buffer), number, "seed {seed} page {page}"),
                        Err(error) => panic!("write-through always has the disk: {error}"),
                    }
                }
            }
            world.plan.struck()
        });
        // Policies that take pages from disk write to flash when they have the time.
        assert!(struck == 1 || policy.populates(), "seed {seed}: the fault did not strike");
        strikes += struck;
    }
    assert!(strikes > 60, "{strikes} faults struck");
}

#[test]
fn truncated_and_foreign_devices_are_refused_with_a_sentence() {
    simulate(1, || {
        let options = small(PolicyKind::Face, 96);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        write(&*tier, 0..PAGES, 2, true);
        tier.close().unwrap();
        let mut bytes = vec![0; flash.geometry().capacity_bytes as usize / 2 / 4096 * 4096];
        flash.read(0, &mut bytes).unwrap();
        let half = MemoryDevice::new("half", bytes.len() as u64);
        half.write(0, &bytes).unwrap();
        assert!(check(&half, None).unwrap().faults[0].contains("truncated"));
        assert!(inspect(&half).unwrap_err().to_string().contains("truncated"));
        let tiny = MemoryDevice::new("tiny", 8192);
        assert!(inspect(&tiny).unwrap_err().to_string().contains("truncated"));
        let noise = MemoryDevice::new("noise", 1 << 20);
        let mut rng = entresol_runtime::rng::Rng::new(3);
        let noisy: Vec<u8> = (0..1 << 20).map(|_| rng.next_u64() as u8).collect();
        noise.write(0, &noisy).unwrap();
        assert!(inspect(&noise).unwrap_err().to_string().contains("holds no cache"));
        let opened = FlashTier::open(flash, Arc::new(noise), options);
        assert!(opened.err().unwrap().to_string().contains("is it the right disk?"));
    });
}

#[test]
fn a_version_counts_again_when_what_superseded_it_is_lost() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 160);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        write(&*tier, 0..PAGES, 2, true);
        tier.checkpoint().unwrap();
        entresol_runtime::sleep(std::time::Duration::from_millis(10));
        drop(tier);
        // A segment as it would be if a group that no record calls durable had superseded page 7, and was
        // lost since.
        let layout = options.layout();
        let mut bytes = vec![0; layout.segment_bytes() as usize];
        flash.read(layout.segment_offset(0), &mut bytes).unwrap();
        let (block, rest) = bytes.split_at_mut(entresol_format::BLOCK_BYTES);
        let entry_bytes = layout.segment_entry_bytes();
        let entries = &mut rest[..options.segment_entries as usize * entry_bytes];
        let at = segment::decode_entries(entries, entry_bytes)
            .position(|view| view.is_some_and(|view| view.page == PageId(7)))
            .expect("the first segment lists it");
        let superseded = SlotView { page: PageId(7), valid: false, dirty: true, proof: 0 };
        let range = at * entry_bytes..(at + 1) * entry_bytes;
        segment::encode_entry(&mut entries[range], Some(superseded));
        let head = segment::Head::decode(block).unwrap();
        segment::Head { checksum: checksum::of(entries), ..head }.encode(block);
        flash.write(layout.segment_offset(0), &bytes).unwrap();
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        assert!(report.segments_read > 0, "{report:?}");
        let mut buffer = vec![0; PAGE];
        for page in (0..PAGES).map(PageId) {
            tier.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 2, "page {page}");
        }
    });
}

//! One damaged dirty page on flash, and no log above: it is lost, durably, until it is written again as a
//! whole. Every other page and the flash go on, and nothing older is ever served.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{
    DiskLayer, FlashTier, Layer, Mode, PageCache, ReadRoute, TierError, TierOptions, detach,
    detach_with_loss, disk_offset, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::sleep;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, disk_bytes, refusal, simulate};

/// Pages of the disk. `DIRTY` of them are newer on flash at first.
const PAGES: u64 = 200;
const DIRTY: u64 = 60;
/// The page that is damaged.
const BAD: u64 = 17;

fn options(policy: PolicyKind, slots: u32) -> TierOptions {
    let small = support::small(policy, slots);
    TierOptions { page_format: PageFormat::Raw, staging_groups: 4, segment_entries: 16, ..small }
}

fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// The version of a page that the tier serves; 0: blank. `None`: it is lost.
fn version(tier: &FlashTier, page: u64) -> Option<u64> {
    let mut found = vec![0; PAGE];
    match tier.read_pages(PageId(page), &mut found, ReadRoute::Populates) {
        Err(TierError::Lost { page: named, .. } | TierError::Damaged { page: named, .. }) => {
            assert_eq!(named, PageId(page));
            return None;
        }
        read => read.map(drop).unwrap(),
    }
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    let is_whole = found == bytes(page, number) || number == 0 && found.iter().all(|byte| *byte == 0);
    assert!(is_whole, "page {page} is mixed");
    Some(number)
}

fn write(tier: &FlashTier, page: u64, version: u64) {
    tier.write_pages(PageId(page), &bytes(page, version)).unwrap();
}

struct World {
    plan: Arc<FaultPlan>,
    flash: Arc<FaultyDevice>,
    disk: Arc<FaultyDevice>,
    options: TierOptions,
}

impl World {
    fn new(options: TierOptions, pages: u64) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let (flash, disk) = (device("flash", flash_bytes(&options)), device("disk", disk_bytes(pages)));
        Self { plan, flash, disk, options }
    }

    /// A cache with pages `0 .. DIRTY` at version 2, durably. The disk has none of them.
    fn used(&self) -> Arc<FlashTier> {
        let tier = FlashTier::create(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap();
        (0..DIRTY).for_each(|page| write(&tier, page, 2));
        tier.flush().unwrap();
        tier
    }

    /// Changes a byte of the copy of `page` on flash, durably.
    fn damage(&self, page: u64, version: u64) {
        let wanted = bytes(page, version);
        let image = support::bytes_of(&*self.flash);
        let at: Vec<usize> =
            image.chunks(PAGE).enumerate().filter(|(_, b)| *b == wanted).map(|(at, _)| at).collect();
        assert!(!at.is_empty(), "page {page} is not on flash");
        for at in at {
            let mut sector = image[at * PAGE..at * PAGE + 512].to_vec();
            sector[100] ^= 1;
            self.flash.write((at * PAGE) as u64, &sector).unwrap();
        }
        self.flash.sync().unwrap();
    }

    fn open(&self) -> (Arc<FlashTier>, Vec<String>) {
        let opened = FlashTier::open(self.flash.clone(), self.disk.clone(), self.options.clone());
        opened.map(|(tier, report)| (tier, report.notices)).unwrap()
    }

    /// After a kill of the program, or a power failure.
    fn again(&self, survival: Option<&Survival>) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let again = |device: &FaultyDevice| {
            Arc::new(match survival {
                None => device.after_kill(plan.clone()),
                Some(survival) => {
                    FaultyDevice::new(device.name(), device.after_crash(survival), plan.clone())
                }
            })
        };
        let (flash, disk) = (again(&self.flash), again(&self.disk));
        Self { plan, flash, disk, options: self.options.clone() }
    }

    /// What the disk alone has of a page.
    fn on_disk(&self, page: u64) -> Vec<u8> {
        let mut found = vec![0; PAGE];
        self.disk.read(disk_offset(PageId(page), PAGE as u32), &mut found).unwrap();
        found
    }
}

/// All pages from `DIRTY` on, more than once, so that the ring goes round.
fn go_round(tier: &FlashTier, number: u64) {
    (DIRTY..PAGES).for_each(|page| write(tier, page, number));
    tier.flush().unwrap();
}

fn expect_all_but(tier: &FlashTier, bad: Option<u64>, number: u64) {
    for page in 0..PAGES {
        let expected = if page < DIRTY { 2 } else { number };
        let found = version(tier, page);
        assert_eq!(found, (bad != Some(page)).then_some(expected), "page {page}");
    }
}

fn named(tier: &FlashTier) -> Vec<(PageId, u32)> {
    tier.missing().map_or_else(Vec::new, |missing| missing.lost)
}

#[test]
fn a_dequeue_that_meets_a_damaged_dirty_page_loses_it_alone() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        simulate(1, move || {
            let world = World::new(options(policy, 80), PAGES);
            let tier = world.used();
            world.damage(BAD, 2);
            assert_eq!(version(&tier, BAD), None);
            go_round(&tier, 3);
            expect_all_but(&tier, Some(BAD), 3);
            assert_eq!(named(&tier), [(PageId(BAD), 1)]);
            assert!(tier.notice().is_none() && tier.failure().is_none() && tier.failed_epoch().is_none());
            let written = tier.metrics().flash_writes;
            go_round(&tier, 4);
            assert!(tier.metrics().flash_writes > written, "the flash stays in use");
            drop(tier);
            for survival in [None, Some(Survival::None), Some(Survival::All)] {
                let after = world.again(survival.as_ref());
                let (tier, notices) = after.open();
                assert!(notices.concat().contains(&format!("page 0:{BAD}")), "{notices:?}");
                expect_all_but(&tier, Some(BAD), 4);
                // A part of a run is lost: so is the run.
                let mut run = vec![0; 4 * PAGE];
                let read = tier.read_pages(PageId(BAD - 2), &mut run, ReadRoute::Around);
                assert!(matches!(read, Err(TierError::Lost { .. })), "{read:?}");
                // Written as a whole, it is there, also when nothing of it is in the cache any more.
                write(&tier, BAD, 2);
                assert_eq!((version(&tier, BAD), named(&tier)), (Some(2), vec![]));
                (5..8).for_each(|number| go_round(&tier, number));
                expect_all_but(&tier, None, 7);
                tier.close().unwrap();
                let (tier, notices) = after.again(None).open();
                assert!(!notices.concat().contains("lost"), "{notices:?}");
                expect_all_but(&tier, None, 7);
            }
        });
    }
}

/// A write past the flash makes a lost page good when the disk has it, and not before.
#[test]
fn a_lost_page_stays_lost_until_the_disk_has_the_new_version() {
    // The disk fails from this request of the write on.
    for at in 1..10 {
        simulate(1, || {
            let world = World::new(options(PolicyKind::FaceGsc, 80), PAGES);
            // The disk has an older version.
            let tier = world.used();
            tier.destage(&entresol_engine::PageSet::ALL).unwrap();
            write(&tier, BAD, 3);
            tier.flush().unwrap();
            world.damage(BAD, 3);
            go_round(&tier, 3);
            assert_eq!(named(&tier), [(PageId(BAD), 1)]);
            let device = Some("disk".to_owned());
            let at = world.plan.operations() + at;
            world.plan.inject(Injection { at, device, fault: Fault::WriteError, forever: true });
            if tier.write_around(PageId(BAD), &bytes(BAD, 4)).is_ok() {
                assert_eq!(version(&tier, BAD), Some(4));
                return;
            }
            let found = version(&tier, BAD);
            assert!(matches!(found, None | Some(4)), "the disk's older version is served: {found:?}");
            drop(tier);
            let after = world.again(Some(&Survival::None));
            let (tier, _) = after.open();
            assert!(matches!(version(&tier, BAD), None | Some(4)), "and after a power failure");
            tier.write_around(PageId(BAD), &bytes(BAD, 4)).unwrap();
            assert_eq!((version(&tier, BAD), named(&tier)), (Some(4), vec![]));
            tier.close().unwrap();
        });
    }
}

/// A write that is not durable does not make a lost page good: after a crash it is lost again, and never the
/// disk's older version.
#[test]
fn power_may_fail_at_each_step_of_losing_a_page_and_writing_it_again() {
    let (mut cut_off, mut lost) = (0, 0);
    for at in 1.. {
        let world = World::new(options(PolicyKind::FaceGsc, 80), PAGES);
        let least = Mutex::new(None);
        let config = SimConfig { seed: at, random_order: true, ..SimConfig::default() };
        let lived = Simulation::new(config).run(|| {
            // The disk has version 1, so that an older one could be served.
            let tier = world.used();
            tier.destage(&entresol_engine::PageSet::ALL).unwrap();
            write(&tier, BAD, 3);
            tier.flush().unwrap();
            // Until the flush is confirmed, a damaged page looks like one that power cut off.
            sleep(Duration::from_secs(2));
            world.damage(BAD, 3);
            *least.lock() = Some(None);
            let (operations, plan) = (world.plan.operations(), &world.plan);
            plan.inject(Injection { at: operations + at, device: None, fault: Fault::Crash, forever: false });
            go_round(&tier, 3);
            assert_eq!(version(&tier, BAD), None);
            write(&tier, BAD, 4);
            tier.flush().unwrap();
            *least.lock() = Some(Some(4));
            go_round(&tier, 4);
            assert_eq!(version(&tier, BAD), Some(4));
        });
        match lived {
            Outcome::Halted => cut_off += 1,
            Outcome::Finished(()) => break,
            other => panic!("power fails at {at}: {other:?}"),
        }
        let least = least.lock().expect("it was damaged before");
        for survival in [None, Some(Survival::None), Some(Survival::All), Some(Survival::Seed(at))] {
            let after = world.again(survival.as_ref());
            let found = simulate(at, || {
                let (tier, _) = after.open();
                let found = version(&tier, BAD);
                go_round(&tier, 5);
                go_round(&tier, 6);
                assert_eq!(version(&tier, BAD), found, "at {at}, {survival:?}");
                found
            });
            let may_be = match least {
                None => found.is_none() || found == Some(4),
                Some(_) => found == Some(4),
            };
            assert!(may_be, "at {at}, {survival:?}: {found:?}, at least {least:?}");
            lost += u32::from(found.is_none());
        }
    }
    assert!(cut_off > 60 && lost > 100, "cut off {cut_off} times, lost in {lost} states");
}

#[test]
fn a_running_cache_that_is_detached_copies_what_can_be_read_and_names_the_rest() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGsc] {
        simulate(2, move || {
            let world = World::new(options(policy, 80), PAGES);
            let tier = world.used();
            world.damage(BAD, 2);
            for _ in 0..2 {
                match tier.detach() {
                    Err(TierError::Losing(lost)) => assert_eq!(lost.lost, [(PageId(BAD), 1)]),
                    other => panic!("{other:?}"),
                }
                // Everything else is on disk, and the tier goes on.
                let there = (0..DIRTY).filter(|page| world.on_disk(*page) == bytes(*page, 2));
                assert_eq!(there.count() as u64, DIRTY - 1);
                assert_eq!(version(&tier, BAD), None);
                write(&tier, DIRTY, 9);
                assert_eq!((version(&tier, DIRTY), version(&tier, BAD + 1)), (Some(9), Some(2)));
                tier.flush().unwrap();
            }
            // Once its slot was used again, too.
            go_round(&tier, 3);
            match tier.detach() {
                Err(TierError::Losing(lost)) => assert_eq!(lost.lost, [(PageId(BAD), 1)]),
                other => panic!("{other:?}"),
            }
            tier.detach_with_loss().unwrap();
            assert_eq!(world.on_disk(BAD), vec![0; PAGE], "the disk's version counts");
            (0..DIRTY)
                .filter(|page| *page != BAD)
                .for_each(|page| assert_eq!(world.on_disk(page), bytes(page, 2)));
            DiskLayer::open(world.disk.clone(), PAGE as u32).unwrap().close().unwrap();
        });
    }
}

/// The case: all but one of the pages on flash can be read.
#[test]
fn a_cache_that_nobody_serves_is_detached_up_to_what_is_lost() {
    simulate(3, || {
        let world = World::new(options(PolicyKind::FaceGsc, 80), PAGES);
        drop(world.used());
        let after = world.again(None);
        after.damage(BAD, 2);
        for _ in 0..2 {
            match detach(after.flash.clone(), after.disk.clone()) {
                Err(TierError::Losing(lost)) => assert_eq!(lost.lost, [(PageId(BAD), 1)]),
                other => panic!("{other:?}"),
            }
            let there = (0..DIRTY).filter(|page| after.on_disk(*page) == bytes(*page, 2));
            assert_eq!(there.count() as u64, DIRTY - 1);
            assert!(refusal(DiskLayer::open(after.disk.clone(), PAGE as u32)).contains("newer"));
        }
        detach_with_loss(after.flash.clone(), after.disk.clone()).unwrap();
        DiskLayer::open(after.disk.clone(), PAGE as u32).unwrap().close().unwrap();
    });
}

/// Another mode copies all dirty pages first. The damaged one stays lost, also for the disk alone.
#[test]
fn a_lost_page_stays_lost_in_write_through_mode() {
    simulate(4, || {
        let world = World::new(options(PolicyKind::FaceGsc, 80), PAGES);
        let tier = world.used();
        tier.close().unwrap();
        drop(tier);
        let mut after = world.again(None);
        after.damage(BAD, 2);
        after.options.mode = Mode::WriteThrough;
        let (tier, notices) = after.open();
        assert!(notices.concat().contains(&format!("{} dirty pages were copied", DIRTY - 1)), "{notices:?}");
        assert!(notices.concat().contains(&format!("page 0:{BAD}")), "{notices:?}");
        go_round(&tier, 3);
        expect_all_but(&tier, Some(BAD), 3);
        tier.close().unwrap();
        drop(tier);
        let disk = after.again(None).disk.clone();
        assert!(refusal(DiskLayer::open(disk, PAGE as u32)).contains("are lost"));
        // An empty cache knows of it, too.
        let mut other = after.again(None);
        let plan = other.plan.clone();
        other.flash =
            Arc::new(FaultyDevice::new("flash", MemoryDevice::new("new", flash_bytes(&other.options)), plan));
        let (tier, _) = other.open();
        expect_all_but(&tier, Some(BAD), 3);
        write(&tier, BAD, 2);
        expect_all_but(&tier, None, 3);
        tier.detach().unwrap();
        DiskLayer::open(other.disk.clone(), PAGE as u32).unwrap().close().unwrap();
    });
}

/// A flash that fails while pages are lost: the record goes on to name them.
#[test]
fn a_flash_that_fails_later_does_not_bring_older_versions_back() {
    for fails in [Fault::WriteError, Fault::Death] {
        simulate(5, move || {
            let world = World::new(options(PolicyKind::FaceGsc, 80), PAGES);
            let tier = world.used();
            world.damage(BAD, 2);
            go_round(&tier, 3);
            tier.destage(&entresol_engine::PageSet::ALL).unwrap();
            assert_eq!((tier.dirty_pages(), named(&tier)), (0, vec![(PageId(BAD), 1)]));
            let (at, device) = (world.plan.operations() + 1, Some("flash".to_owned()));
            world.plan.inject(Injection { at, device, fault: fails, forever: true });
            let _ = tier.write_pages(PageId(DIRTY), &bytes(DIRTY, 3));
            tier.flush().unwrap();
            assert!(tier.failed_epoch().is_some());
            expect_all_but(&tier, Some(BAD), 3);
            drop(tier);
            let (tier, _) = world.again(None).open();
            expect_all_but(&tier, Some(BAD), 3);
            write(&tier, BAD, 2);
            expect_all_but(&tier, None, 3);
        });
    }
}

/// More lost pages than are recorded of a flash in use: it counts as failed. More than there is room for at
/// all: the cache stops. In both cases nothing older is served.
#[test]
fn very_many_lost_pages_end_the_use_of_the_flash_before_one_is_forgotten() {
    for (dirty, stops) in [(4000, false), (5400, true)] {
        simulate(6, move || {
            let (slots, pages) = (6144, 10_000);
            let small = options(PolicyKind::FaceGsc, slots);
            let world = World::new(TierOptions { segment_entries: 1024, group_pages: 64, ..small }, pages);
            let (flash, disk) = (world.flash.clone(), world.disk.clone());
            let tier = FlashTier::create(flash, disk, world.options.clone()).unwrap();
            let run = |first: u64| (first..first + 50).flat_map(|page| bytes(page, 1)).collect::<Vec<_>>();
            let write = |first| tier.write_pages(PageId(first), &run(first));
            (0..dirty).step_by(50).for_each(|first| write(first).unwrap());
            tier.flush().unwrap();
            sleep(Duration::from_secs(2));
            let image = support::bytes_of(&*world.flash);
            for (at, found) in image.chunks(PAGE).enumerate() {
                let page = u64::from_le_bytes(found[..8].try_into().unwrap());
                if page % 2 == 1 && page < dirty && found == bytes(page, 1) {
                    let mut sector = found[..512].to_vec();
                    sector[100] ^= 1;
                    world.flash.write((at * PAGE) as u64, &sector).unwrap();
                }
            }
            let others = || (dirty..pages).step_by(50);
            let refused = others().chain(others()).find_map(|first| write(first).err());
            let expect = |tier: &FlashTier| {
                for page in (0..dirty).step_by(7) {
                    assert_eq!(version(tier, page), (page % 2 == 0).then_some(1), "page {page}");
                }
            };
            if stops {
                assert!(matches!(refused, Some(TierError::Poisoned { .. })), "{refused:?}");
            } else {
                assert!(refused.is_none() && tier.failed_epoch().is_some(), "{refused:?}");
                expect(&tier);
            }
            drop(tier);
            expect(&world.again(None).open().0);
        });
    }
}

/// The flash fails when the cache is closed, at any of its requests: the disk serves, and has everything that
/// can be read. The close says what that came to, not what the flash has said.
#[test]
fn a_flash_that_fails_at_the_end_is_no_error_of_the_close() {
    let mut failed = 0;
    for at in 1.. {
        let is_over = simulate(at, move || {
            let world = World::new(options(PolicyKind::FaceGsc, 80), PAGES);
            let tier = world.used();
            write(&tier, 3, 3);
            let (at, device) = (world.plan.operations() + at, Some("flash".to_owned()));
            let injected = Injection { at, device, fault: Fault::WriteError, forever: true };
            world.plan.inject(injected);
            tier.close().unwrap();
            let is_over = world.plan.struck() == 0;
            drop(tier);
            let (tier, _) = world.again(None).open();
            for page in 0..DIRTY {
                assert_eq!(version(&tier, page), Some(if page == 3 { 3 } else { 2 }), "page {page}");
            }
            is_over
        });
        if is_over {
            break;
        }
        failed += 1;
    }
    assert!(failed > 3, "{failed}");
}

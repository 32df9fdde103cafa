//! Slots that survive a crash, with pages whose owner has no log: what a flush promises, what a deletion
//! promises, and what is done before a page is written past the flash.

mod support;

use entresol_core::{PageId, PolicyKind, WritebackOptions};
use entresol_device::{
    Counters, Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Outage, Survival,
};
use entresol_engine::{
    Deletes, DiskErrors, DiskLayer, FlashTier, Layer, Mode, OpenReport, PageCache, ReadRoute, TierError,
    TierOptions, check, detach, disk_offset, flash_bytes, inspect,
};
use entresol_format::{BLOCK_BYTES, PageFormat, batch};
use entresol_runtime::{sleep, spawn};
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, disk_bytes, simulate};

/// Pages of the disk, of which not all fit on flash.
const PAGES: u64 = 150;
/// Slots.
const SLOTS: u32 = 96;

fn policies() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots())
}

fn options(policy: PolicyKind) -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw,
        mode: Mode::WriteBack,
        keeps_slots: true,
        staging_groups: 4,
        segment_entries: 16,
        disk_errors: DiskErrors::TryAgain,
        ..support::small(policy, SLOTS)
    }
}

/// Bytes that tell page and version.
fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// A cache with its devices.
struct World {
    options: TierOptions,
    plan: Arc<FaultPlan>,
    flash: Arc<FaultyDevice>,
    disk: Arc<FaultyDevice>,
}

impl World {
    fn new(options: TierOptions) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let (flash, disk) = (device("flash", flash_bytes(&options)), device("disk", disk_bytes(PAGES)));
        Self { options, plan, flash, disk }
    }

    fn create(&self) -> Arc<FlashTier> {
        FlashTier::create(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap()
    }

    fn open(&self) -> (Arc<FlashTier>, OpenReport) {
        FlashTier::open(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap()
    }

    /// What a power failure leaves that loses everything that was not synced.
    fn after_power(&self) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let again = |device: &FaultyDevice| {
            let left = device.after_crash(&Survival::None);
            Arc::new(FaultyDevice::new(device.name(), left, plan.clone()))
        };
        let (flash, disk) = (again(&self.flash), again(&self.disk));
        Self { options: self.options.clone(), plan, flash, disk }
    }

    /// The version of a page on the disk.
    fn on_disk(&self, page: u64) -> u64 {
        let mut found = vec![0; PAGE];
        self.disk.read(disk_offset(PageId(page), PAGE as u32), &mut found).unwrap();
        version_in(page, &found)
    }

    /// From now on the flash fails so.
    fn break_flash(&self, fault: Fault) {
        let (at, device) = (self.plan.operations() + 1, Some("flash".to_owned()));
        self.plan.inject(Injection { at, device, fault, forever: true });
    }
}

fn version_in(page: u64, found: &[u8]) -> u64 {
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    let is_whole = found == bytes(page, number) || found.iter().all(|byte| *byte == 0);
    assert!(is_whole, "page {page} is mixed");
    number
}

fn write(tier: &FlashTier, page: u64, version: u64) {
    tier.write_pages(PageId(page), &bytes(page, version)).unwrap();
}

fn read(tier: &FlashTier, page: u64) -> Result<u64, TierError> {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates)?;
    Ok(version_in(page, &found))
}

/// Blocks of summaries, and pages, that were written to flash between two looks.
fn written(before: &Counters, after: &Counters) -> u64 {
    (after.written_bytes - before.written_bytes) / BLOCK_BYTES as u64
}

#[test]
fn what_was_flushed_is_found_after_a_power_failure_and_the_rest_is_old_or_new() {
    for policy in policies() {
        simulate(1, move || {
            let world = World::new(options(policy));
            let tier = world.create();
            for number in 1..=6 {
                (0..PAGES).for_each(|page| write(&tier, page, number));
                tier.flush().unwrap();
            }
            let (flushed, begun) = (6, 7);
            (0..PAGES / 2).for_each(|page| write(&tier, page, begun));
            let after = world.after_power();
            let told = inspect(&*after.flash).unwrap();
            let occupancy = told.directory.as_ref().expect("it survives").occupancy;
            assert!(occupancy.dirty > 0 && told.to_string().contains("batches"), "{told}");
            let (tier, report) = after.open();
            assert_eq!(u64::from(occupancy.dirty), report.dirty);
            assert!(report.warm && report.dirty > 0, "{}: {report:?}", policy.name());
            for page in 0..PAGES {
                let found = read(&tier, page).unwrap();
                let newest = if page < PAGES / 2 { begun } else { flushed };
                assert!((flushed..=newest).contains(&found), "{}: page {page}: {found}", policy.name());
            }
            tier.close().unwrap();
            let report = check(&*after.flash, Some(after.disk.clone())).unwrap();
            assert!(report.is_sound() && report.pages > 0, "{}: {report}", policy.name());
            detach(after.flash.clone(), after.disk.clone()).unwrap();
            assert!((0..PAGES).all(|page| after.on_disk(page) >= flushed), "{}", policy.name());
        });
    }
}

/// A flush of `n` pages writes them and one block, and syncs once.
#[test]
fn a_flush_costs_one_summary_and_one_sync() {
    for pages in [1, 3, 4] {
        simulate(2, move || {
            let world = World::new(options(PolicyKind::Lc));
            let tier = world.create();
            (0..20).for_each(|page| write(&tier, page, 1));
            tier.flush().unwrap();
            let before = world.flash.counters();
            (0..pages).for_each(|page| write(&tier, page, 2));
            tier.flush().unwrap();
            let after = world.flash.counters();
            assert_eq!(written(&before, &after), pages + 1, "{pages} pages");
            assert_eq!(after.syncs - before.syncs, 1, "{pages} pages");
            // There is nothing to flush any more.
            tier.flush().unwrap();
            assert_eq!(written(&after, &world.flash.counters()), 0);
        });
    }
}

/// A flush need not wait for pages that are evicted after it has begun.
#[test]
fn a_flush_beside_evictions_ends() {
    for seed in 0..50 {
        simulate(seed, || {
            let world = World::new(options(PolicyKind::Lru));
            let tier = world.create();
            write(&tier, 1, 1);
            let other = tier.clone();
            let writer = spawn("writer", move || (2..60).for_each(|page| write(&other, page, 1)));
            tier.flush().unwrap();
            let after = world.after_power();
            writer.join();
            assert_eq!(read(&after.open().0, 1).unwrap(), 1);
        });
    }
}

/// The newest flush of an idle cache is confirmed within a second. From then on a damaged page of it is
/// reported, and no older version is served.
#[test]
fn damage_of_a_flush_that_is_confirmed_is_told() {
    simulate(3, || {
        let world = World::new(options(PolicyKind::ReuseSlots));
        let tier = world.create();
        (0..20).for_each(|page| write(&tier, page, 1));
        tier.flush().unwrap();
        (0..3).for_each(|page| write(&tier, page, 2));
        tier.flush().unwrap();
        sleep(Duration::from_secs(2));
        let after = world.after_power();
        let image = support::bytes_of(&*after.flash);
        let at = image.chunks(PAGE).position(|block| block == bytes(1, 2)).expect("it is on flash");
        after.flash.write((at * PAGE) as u64, &[7; 512]).unwrap();
        after.flash.sync().unwrap();
        let (tier, report) = after.open();
        assert!(report.notices.is_empty(), "{report:?}");
        let error = read(&tier, 1).unwrap_err();
        assert!(matches!(error, TierError::Damaged { .. }), "{error}");
        assert_eq!([0, 2].map(|page| read(&tier, page).unwrap()), [2, 2]);
    });
}

/// The same, at once, if a program was killed and its journal tells how far the flash was flushed.
#[test]
fn damage_of_the_newest_flush_is_told_after_a_kill() {
    simulate(4, || {
        let world = World::new(options(PolicyKind::Lc));
        let tier = world.create();
        (0..20).for_each(|page| write(&tier, page, 1));
        tier.flush().unwrap();
        (0..3).for_each(|page| write(&tier, page, 2));
        tier.flush().unwrap();
        let flushed = tier.flushed();
        assert!(flushed.is_some_and(|flushed| flushed.below.0 > 0), "{flushed:?}");
        let mut after = world.after_power();
        drop(tier);
        let image = support::bytes_of(&*after.flash);
        let at = image.chunks(PAGE).position(|block| block == bytes(1, 2)).expect("it is on flash");
        after.flash.write((at * PAGE) as u64, &[7; 512]).unwrap();
        after.flash.sync().unwrap();
        let without = after.after_power();
        assert_eq!(read(&without.open().0, 1).unwrap(), 1, "it looks cut off");
        after.options.flushed = flushed;
        let (tier, _) = after.open();
        let error = read(&tier, 1).unwrap_err();
        assert!(matches!(error, TierError::Damaged { .. }), "{error}");
    });
}

/// A page that is forgotten durably does not come back; nor does one that has left the cache otherwise.
#[test]
fn a_page_that_was_forgotten_durably_stays_forgotten() {
    for policy in policies() {
        simulate(5, move || {
            let world = World::new(options(policy));
            let tier = world.create();
            (0..40).for_each(|page| write(&tier, page, 3));
            tier.flush().unwrap();
            assert_eq!(tier.forget(PageId(0), PageId(9)).unwrap(), 10);
            tier.flush().unwrap();
            // One of these is in staging alone.
            write(&tier, 10, 4);
            assert_eq!(tier.forget_durably(PageId(10), PageId(19)).unwrap(), 10);
            let (after, _) = world.after_power().open();
            for page in 0..40 {
                let expected = if page < 20 { 0 } else { 3 };
                assert_eq!(read(&after, page).unwrap(), expected, "{}: page {page}", policy.name());
            }
        });
    }
}

/// A page whose clean copy is on flash is written past the flash. Before that write begins, a durable summary
/// says that the copy is gone: else a crash would find the older version, and serve it.
#[test]
fn a_write_past_the_flash_is_not_followed_by_an_older_version() {
    for policy in policies() {
        simulate(6, move || {
            let world = World::new(options(policy));
            let tier = world.create();
            (0..30).for_each(|page| write(&tier, page, 1));
            tier.flush().unwrap();
            tier.bring_to_disk(&mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            assert_eq!(tier.dirty_pages(), 0);
            let run: Vec<u8> = (0..8).flat_map(|page| bytes(page, 2)).collect();
            // The disk takes it at once, and the flash keeps what it was not told to drop.
            assert_eq!(tier.write_around(PageId(0), &run).unwrap(), 8, "{}", policy.name());
            tier.sync_disk().unwrap();
            assert!((0..8).all(|page| world.on_disk(page) == 2));
            let (after, _) = world.after_power().open();
            for page in 0..30 {
                let expected = if page < 8 { 2 } else { 1 };
                assert_eq!(read(&after, page).unwrap(), expected, "{}: page {page}", policy.name());
            }
        });
    }
}

/// A dirty page stays in the cache: of its version on flash there is no other copy.
#[test]
fn a_dirty_page_is_not_written_past_the_flash() {
    simulate(7, || {
        let world = World::new(options(PolicyKind::S3Fifo));
        let tier = world.create();
        write(&tier, 4, 1);
        tier.flush().unwrap();
        assert_eq!(tier.write_around(PageId(4), &bytes(4, 2)).unwrap(), 0);
        tier.flush().unwrap();
        assert_eq!(world.on_disk(4), 0);
        assert_eq!(read(&world.after_power().open().0, 4).unwrap(), 2);
    });
}

/// The disk refuses the pages of a dequeue. They stay on flash, other pages leave in their stead, and all is
/// as before when the disk takes pages again.
#[test]
fn pages_that_the_disk_refuses_stay_on_flash() {
    for policy in policies() {
        simulate(8, move || {
            let world = World::new(options(policy));
            let tier = world.create();
            (0..u64::from(SLOTS) - 20).for_each(|page| write(&tier, page, 1));
            tier.flush().unwrap();
            let (at, lasts, device) = (world.plan.operations(), Duration::from_secs(600), "disk".to_owned());
            world.plan.plan_outage(Outage { at, lasts, device, faults: vec![Fault::WriteError] });
            let mut taken = Vec::new();
            for page in u64::from(SLOTS) - 20..PAGES {
                match tier.write_pages(PageId(page), &bytes(page, 1)) {
                    Ok(()) => taken.push(page),
                    Err(error) => assert!(matches!(error, TierError::Device { .. }), "{error}"),
                }
            }
            let _ = tier.flush();
            world.plan.end_outage();
            (0..2).for_each(|_| {
                sleep(Duration::from_secs(3));
                let _ = tier.flush();
            });
            tier.flush().unwrap();
            for page in (0..u64::from(SLOTS) - 20).chain(taken) {
                assert_eq!(read(&tier, page).unwrap(), 1, "{}: page {page}", policy.name());
            }
            assert_eq!(tier.disk_state().retrying_for, None, "{}", policy.name());
        });
    }
}

/// A dirty page (the last one: a cleaner copies the first) is damaged, and its slot is needed: it is lost.
#[test]
fn a_damaged_dirty_page_is_lost_alone() {
    for policy in policies() {
        simulate(9, move || {
            let world = World::new(options(policy));
            let tier = world.create();
            (0..60).for_each(|page| write(&tier, page, 2));
            tier.flush().unwrap();
            sleep(Duration::from_secs(2));
            let image = support::bytes_of(&*world.flash);
            let at = image.chunks(PAGE).position(|block| block == bytes(59, 2)).expect("it is on flash");
            world.flash.write((at * PAGE) as u64, &[7; 512]).unwrap();
            world.flash.sync().unwrap();
            for number in 3..6 {
                (60..PAGES).for_each(|page| write(&tier, page, number));
            }
            tier.flush().unwrap();
            assert_eq!(tier.notice(), None, "{}", policy.name());
            let error = read(&tier, 59).unwrap_err();
            let is_told = matches!(error, TierError::Lost { .. } | TierError::Damaged { .. });
            assert!(is_told, "{}: {error}", policy.name());
            let (after, _) = world.after_power().open();
            assert!(read(&after, 59).is_err(), "{}", policy.name());
            assert!((0..60).filter(|page| *page != 59).all(|page| read(&after, page).unwrap() == 2));
            // Written again as a whole, it is there.
            write(&after, 59, 9);
            after.flush().unwrap();
            assert_eq!(read(&after, 59).unwrap(), 9);
        });
    }
}

/// The flash fails: the disk serves, and what only the flash has is read from there and copied.
#[test]
fn a_flash_that_fails_is_only_read() {
    simulate(10, || {
        let world = World::new(options(PolicyKind::Lc));
        let tier = world.create();
        (0..40).for_each(|page| write(&tier, page, 2));
        tier.flush().unwrap();
        world.break_flash(Fault::WriteError);
        write(&tier, 50, 1);
        let _ = tier.flush();
        sleep(Duration::from_secs(1));
        assert!(tier.notice().is_some_and(|notice| notice.contains("the flash has failed")));
        assert!((0..40).all(|page| read(&tier, page).unwrap() == 2));
        assert_eq!(read(&tier, 50).unwrap(), 1);
        sleep(Duration::from_secs(60));
        assert!((0..40).all(|page| world.on_disk(page) == 2));
    });
    // It fails in its writes and its reads, and comes back at the next open.
    simulate(11, || {
        let world = World::new(options(PolicyKind::S3Fifo));
        let tier = world.create();
        (0..40).for_each(|page| write(&tier, page, 2));
        tier.flush().unwrap();
        world.break_flash(Fault::Death);
        write(&tier, 50, 1);
        let _ = tier.flush();
        sleep(Duration::from_secs(1));
        assert!(read(&tier, 3).is_err());
        assert_eq!(read(&tier, 50).unwrap(), 1);
        let after = world.after_power();
        drop(tier);
        let (tier, report) = after.open();
        assert!(report.notices.iter().any(|notice| notice.contains("the flash has failed")), "{report:?}");
        assert!((0..40).all(|page| read(&tier, page).unwrap() == 2));
        assert_eq!(read(&tier, 50).unwrap(), 1);
    });
}

/// When the last dirty page is on disk, the label says so: the disk alone is opened. Not while a crash could
/// find a page that was forgotten.
#[test]
fn a_cache_without_dirty_pages_is_not_needed() {
    simulate(12, || {
        let writeback = Some(WritebackOptions { age_ns: 50_000_000, dirty_max: u32::MAX });
        let world = World::new(TierOptions { writeback, ..options(PolicyKind::Clock) });
        let tier = world.create();
        (0..40).for_each(|page| write(&tier, page, 2));
        tier.flush().unwrap();
        let needed = world.after_power();
        assert!(matches!(DiskLayer::open(needed.disk, PAGE as u32), Err(TierError::Refused(_))));
        sleep(Duration::from_secs(5));
        assert_eq!(tier.dirty_pages(), 0);
        assert_eq!(world.after_power().open().1.dirty, 0);
        let alone = world.after_power();
        assert!((0..40).all(|page| alone.on_disk(page) == 2));
        DiskLayer::open(alone.disk, PAGE as u32).unwrap();
        // The only dirty page is forgotten. Were it found after the label has changed, it would count as what
        // the disk has, and be gone when its slot is needed.
        write(&tier, 5, 3);
        tier.flush().unwrap();
        // The task that changes the label has seen it, and looks again when all others are at rest.
        sleep(Duration::from_millis(1));
        tier.forget(PageId(5), PageId(5)).unwrap();
        let is_clean = |left: &World| DiskLayer::open(left.after_power().disk, PAGE as u32).is_ok();
        let soon = (0..2000).map(|_| {
            sleep(Duration::from_millis(1));
            world.after_power()
        });
        let left = soon.into_iter().find(is_clean).expect("the label says it within two seconds");
        assert_eq!(read(&left.open().0, 5).unwrap(), 2);
    });
}

/// Clients write without a pause. Pages without a new write get old and are copied; those that are written
/// again and again stay dirty.
#[test]
fn old_pages_are_copied_and_hot_ones_stay() {
    simulate(13, || {
        let age = Duration::from_millis(500);
        let writeback = Some(WritebackOptions { age_ns: age.as_nanos() as u64, dirty_max: u32::MAX });
        let world = World::new(TierOptions { writeback, ..options(PolicyKind::Lru) });
        let tier = world.create();
        (0..40).for_each(|page| write(&tier, page, 1));
        tier.flush().unwrap();
        for round in 2..200 {
            (0..4).for_each(|page| write(&tier, page, round));
            tier.flush().unwrap();
            sleep(Duration::from_millis(20));
        }
        assert!((4..40).all(|page| world.on_disk(page) == 1), "old pages are on disk");
        let copied = (0..4).filter(|page| world.on_disk(*page) > 0).count();
        assert_eq!(copied, 0, "hot pages are not");
        assert_eq!(tier.dirty_pages(), 4);
    });
}

/// The summaries of full batches are less than two percent of what is written to flash.
#[test]
fn summaries_of_full_batches_are_few() {
    simulate(14, || {
        let options = TierOptions {
            group_pages: 64,
            segment_entries: 1024,
            slots: 2048,
            history: 2048,
            ..options(PolicyKind::Lc)
        };
        let world = World::new(options);
        let tier = world.create();
        let before = world.flash.counters();
        let run: Vec<u8> = (0..64).flat_map(|page| bytes(page, 1)).collect();
        for _ in 0..40 {
            tier.write_pages(PageId(0), &run).unwrap();
            tier.write_pages(PageId(64), &run).unwrap();
        }
        let blocks = written(&before, &world.flash.counters());
        let summaries = (0..world.options.layout().batch_places()).filter(|number| {
            let mut block = vec![0; BLOCK_BYTES];
            world.flash.read(world.options.layout().batch_offset(*number), &mut block).unwrap();
            batch::decode(&block).is_ok()
        });
        let summaries = summaries.count() as u64;
        assert!(summaries > 30 && summaries * 100 < blocks * 2, "{summaries} of {blocks} blocks");
    });
}

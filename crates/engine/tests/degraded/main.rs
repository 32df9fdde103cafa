//! A flash that fails while only it has the newest pages, and no log stands above: the disk goes on, what can
//! be read is read and saved, and what went to disk meanwhile never comes back in an older version.

#[path = "../support/mod.rs"]
mod support;
mod world;

use entresol_core::PageId;
use entresol_device::{Device, Fault, Injection, MemoryDevice, Outage, Survival};
use entresol_engine::{
    Deletes, DiskLayer, FlashTier, Layer, Mode, PageCache, ReadRoute, TierError, TierOptions, WholeDisk,
    detach, disk_offset, flash_bytes,
};
use entresol_format::missing::RANGES_MAX;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::{random, sleep, spawn};
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, refusal, simulate};
use world::{DIRTY, PAGES, TORN, World, bytes, died, is_saved, options, version, write};

#[test]
fn a_flash_that_can_be_read_loses_nothing() {
    let faults = [
        (Fault::WriteError, true),
        (Fault::WriteError, false),
        (Fault::NoSpace, true),
        (Fault::SyncError, true),
        (Fault::SyncErrorLosingWrites, false),
        (Fault::SyncErrorKeepingPages, false),
    ];
    for (seed, (fault, forever)) in faults.into_iter().enumerate() {
        simulate(seed as u64, move || {
            let world = World::new(options(), PAGES);
            let tier = world.used();
            world.fail(fault, forever);
            // Enough for dequeues, which read; some are written over pages that only flash has.
            for page in (0..PAGES).rev().filter(|page| page % 3 > 0) {
                write(&tier, page, 3).unwrap();
            }
            tier.flush().unwrap();
            let expect = |tier: &FlashTier| {
                for page in 0..PAGES {
                    let expected = if page % 3 > 0 { 3 } else { 2 * u64::from(page < DIRTY) };
                    assert_eq!(version(tier, page).unwrap(), expected, "page {page} after {fault:?}");
                }
            };
            expect(&tier);
            assert!(is_saved(&tier), "{fault:?}: {:?}, {:?}", tier.notice(), tier.missing());
            assert_eq!(tier.dirty_pages(), 0);
            expect(&tier);
            tier.close().unwrap();
            drop(tier);
            // The flash is back, and is made anew; so is the disk alone enough.
            let after = world.again(None);
            let disk = Arc::new(after.disk.after_kill(after.plan.clone()));
            let (tier, notices) = after.open();
            assert!(notices.concat().contains("was emptied"), "{notices:?}");
            expect(&tier);
            assert!(tier.notice().is_none());
            drop(tier);
            DiskLayer::open(disk, PAGE as u32).unwrap().close().unwrap();
        });
    }
}

/// A disk that is released from a flash that has failed does not need it, should it come back.
#[test]
fn a_flash_that_was_detached_after_it_failed_comes_back_empty() {
    simulate(8, || {
        let (world, tier) = died();
        drop(tier);
        let after = world.again(Some(&Survival::None));
        detach(after.flash.clone(), after.disk.clone()).unwrap();
        let (tier, notices) = after.open();
        assert!(notices.concat().contains("was emptied"), "{notices:?}");
        (0..DIRTY).for_each(|page| assert_eq!(version(&tier, page).unwrap(), 2, "page {page}"));
    });
}

/// A page that is forgotten when its newest version is on the failed flash alone does not come back, nor is
/// it written over what its owner puts into its place.
#[test]
fn a_forgotten_page_is_missed_no_more() {
    simulate(6, || {
        let (world, tier) = died();
        let before = tier.missing().expect("the disk lacks pages").pages;
        tier.forget(PageId(7), PageId(9)).unwrap();
        assert_eq!(tier.missing().expect("the disk lacks the others").pages, before - 3);
        assert_eq!(version(&tier, 7).unwrap(), 0);
        drop(tier);
        // The flash is back. Their places have another content since.
        let after = world.again(Some(&Survival::None));
        let at = disk_offset(PageId(7), PAGE as u32);
        after.disk.write(at, &bytes(7, 9)).unwrap();
        after.disk.sync().unwrap();
        let (tier, _) = after.open();
        assert_eq!(version(&tier, 7).unwrap(), 9);
        assert!(is_saved(&tier));
        assert_eq!((version(&tier, 7).unwrap(), version(&tier, 10).unwrap()), (9, 2));
    });
}

/// It is only read, so it need not be synced.
#[test]
fn a_failed_flash_that_cannot_be_synced_is_read() {
    simulate(7, || {
        let (world, tier) = died();
        drop(tier);
        let after = world.again(Some(&Survival::None));
        after.fail(Fault::SyncErrorKeepingPages, true);
        let (tier, _) = after.open();
        assert_eq!(version(&tier, 7).unwrap(), 2);
        assert!(is_saved(&tier));
    });
}

/// Nor is it lost if it cannot be read when the volume is opened, and can be a second later. One that stays
/// unreadable costs its pages until a later open can read it.
#[test]
fn a_failed_flash_that_cannot_be_read_for_a_while_loses_nothing() {
    let is_told = |notices: Vec<String>| notices.concat().contains("until the volume is opened again");
    for (lasts, is_blind) in [(0, false), (1, false), (300, false), (1_900, false), (2_500, true)] {
        // From the first request of the open on, and from later ones.
        for at in [0, 3, 9, 20] {
            simulate(at, move || {
                let (world, tier) = died();
                drop(tier);
                let after = world.again(Some(&Survival::None));
                let (lasts, device) = (Duration::from_millis(lasts), "flash".to_owned());
                after.plan.plan_outage(Outage { at, lasts, device, faults: vec![Fault::ReadError] });
                let (mut tier, notices) = after.open();
                assert_eq!(is_told(notices), is_blind, "{lasts:?} from request {at} on");
                if is_blind {
                    assert!(matches!(version(&tier, 7), Err(TierError::Lost { .. })));
                    drop(tier);
                    tier = world.again(Some(&Survival::None)).open().0;
                }
                sleep(lasts);
                assert!(is_saved(&tier), "{lasts:?} from request {at} on");
                assert_eq!(version(&tier, 7).unwrap(), 2);
            });
        }
    }
}

#[test]
fn a_flash_that_is_gone_costs_its_pages_and_no_others() {
    simulate(5, || {
        let world = World::new(options(), PAGES);
        let tier = world.used();
        assert!(tier.missing().is_none());
        world.fail(Fault::Death, true);
        // These are in memory when the flash dies, or come after that.
        for page in DIRTY - 10..PAGES {
            write(&tier, page, 3).unwrap();
        }
        tier.flush().unwrap();
        let read = |tier: &FlashTier| -> Vec<u64> {
            let read = |page| match version(tier, page) {
                Ok(version) => Some((page, version)),
                Err(TierError::Lost { page: named, .. }) => {
                    assert_eq!(named, PageId(page));
                    None
                }
                Err(other) => panic!("page {page}: {other}"),
            };
            let found: Vec<(u64, u64)> = (0..PAGES).filter_map(read).collect();
            for (page, version) in &found {
                assert_eq!(*version, if *page >= DIRTY - 10 { 3 } else { 2 }, "page {page}");
            }
            (0..PAGES).filter(|page| found.iter().all(|(served, _)| served != page)).collect()
        };
        let lost = read(&tier);
        assert!(lost.len() > 30 && lost.iter().all(|page| *page < DIRTY - 10), "{lost:?}");
        // A part of a run is lost: so is the run, and nothing of it is made up.
        let mut run = vec![0; 8 * PAGE];
        let refused = tier.read_pages(PageId(lost[0]), &mut run, ReadRoute::Around);
        assert!(matches!(refused, Err(TierError::Lost { .. })), "{refused:?}");
        let named = |tier: &FlashTier| -> Vec<u64> {
            let missing = tier.missing().expect("the disk lacks pages");
            let pages = |(first, pages): &(PageId, u32)| first.0..first.0 + u64::from(*pages);
            let named: Vec<u64> = missing.lost.iter().flat_map(pages).collect();
            assert_eq!(missing.pages, named.len() as u64);
            named
        };
        assert_eq!(named(&tier), lost);
        // Written as a whole, a page is there again.
        write(&tier, lost[1], 2).unwrap();
        assert_eq!(version(&tier, lost[1]).unwrap(), 2);
        assert_eq!(tier.dirty_pages(), lost.len() as u64 - 1);
        let refused = tier.detach();
        assert!(matches!(&refused, Err(TierError::Losing(lost)) if !lost.lost.is_empty()), "{refused:?}");
        drop(tier);
        // Without the flash, nothing has changed but that.
        let mut left = lost.clone();
        left.remove(1);
        let after = world.again(None);
        let home = WholeDisk::new(after.disk.clone(), PAGE as u32);
        let (tier, report) = FlashTier::open_without_flash(home, options()).unwrap();
        assert!(report.notices.concat().contains("flash has failed"), "{:?}", report.notices);
        assert_eq!(read(&tier), left);
        write(&tier, left[0], 2).unwrap();
        tier.close().unwrap();
        assert!(refusal(DiskLayer::open(after.disk.clone(), PAGE as u32)).contains("has failed"));
        // With another flash neither, and that one is not touched.
        let other = Arc::new(MemoryDevice::new("other", flash_bytes(&options())));
        let (tier, _) = FlashTier::open(other.clone(), after.disk.clone(), options()).unwrap();
        assert_eq!(read(&tier), left[1..]);
        drop(tier);
        assert!(support::bytes_of(&*other).iter().all(|byte| *byte == 0));
        // The flash comes back: its pages are saved, but for those written meanwhile.
        write_back_comes(&world.again(None), &lost);
        let (tier, _) = after.open();
        assert!(is_saved(&tier));
        assert_eq!(read(&tier), [0; 0]);
        tier.close().unwrap();
        DiskLayer::open(after.disk, PAGE as u32).unwrap().close().unwrap();
    });
}

/// A detach of the volume saves what is on the flash that came back.
fn write_back_comes(world: &World, lost: &[u64]) {
    let report = detach(world.flash.clone(), world.disk.clone()).unwrap();
    assert!(report.notices.concat().contains("flash has failed"), "{report:?}");
    DiskLayer::open(world.disk.clone(), PAGE as u32).unwrap().close().unwrap();
    for page in lost {
        let mut found = vec![0; PAGE];
        world.disk.read(entresol_engine::disk_offset(PageId(*page), PAGE as u32), &mut found).unwrap();
        assert_eq!(found, bytes(*page, 2));
    }
}

/// A page that went to disk after the flash had failed is never served from a flash that comes back, whenever
/// power fails.
#[test]
fn power_may_fail_at_each_step_of_the_change() {
    let (mut cut_off, mut failed) = (0, 0);
    for at in 1.. {
        let world = World::new(options(), PAGES);
        let acknowledged = parking_lot::Mutex::new(0);
        let config = SimConfig { seed: at, random_order: true, ..SimConfig::default() };
        let lived = Simulation::new(config).run(|| {
            let tier = world.used();
            world.fail(Fault::WriteError, true);
            let crash = Injection { at: world.plan.operations() + at, ..injected(Fault::Crash) };
            world.plan.inject(crash);
            for page in (20..DIRTY + 20).rev() {
                write(&tier, page, 3).unwrap();
            }
            tier.flush().unwrap();
            *acknowledged.lock() = 3;
            for page in (20..DIRTY + 20).rev() {
                write(&tier, page, 4).unwrap();
            }
            tier.flush().unwrap();
            *acknowledged.lock() = 4;
            assert!(is_saved(&tier));
        });
        match lived {
            Outcome::Halted => cut_off += 1,
            Outcome::Finished(()) => break,
            other => panic!("power fails at {at}: {other:?}"),
        }
        let acknowledged = *acknowledged.lock();
        for survival in [Survival::None, Survival::All, Survival::Seed(at)] {
            let after = world.again(Some(&survival));
            failed += usize::from(is_as_promised(&after, acknowledged, at, &survival));
        }
    }
    assert!(cut_off > 100 && failed > 100, "cut off {cut_off} times, {failed} of them after the change");
}

fn injected(fault: Fault) -> Injection {
    Injection { at: 0, device: None, fault, forever: false }
}

/// Opens it twice: each page is as it may be, and stays so. True: the flash had failed.
fn is_as_promised(world: &World, acknowledged: u64, at: u64, survival: &Survival) -> bool {
    let read = |world: &World| {
        simulate(at, || {
            let (tier, _) = world.open();
            let had_failed = tier.failed_epoch().is_some();
            let found: Vec<u64> = (0..PAGES).map(|page| version(&tier, page).unwrap()).collect();
            assert!(!had_failed || is_saved(&tier));
            (found, had_failed)
        })
    };
    let (found, had_failed) = read(world);
    for (page, version) in (0..).zip(&found) {
        let is_rewritten = (20..DIRTY + 20).contains(&page);
        let least = if is_rewritten { acknowledged } else { 0 }.max(if page < DIRTY { 2 } else { 0 });
        let most = if is_rewritten { 4 } else { 2 };
        // A write that was not flushed, and went straight to disk.
        let is_torn = *version == TORN && least < most;
        assert!(is_torn || (least..=most).contains(version), "page {page} at {version}, {at}, {survival:?}");
    }
    let (again, _) = read(&world.again(None));
    assert_eq!(again, found, "{at}, {survival:?}");
    had_failed
}

/// More separate pages than the list has room for: some are copied to disk first. Writes in the middle of
/// ranges are refused when it is full, and take nothing with them.
#[test]
fn a_long_list_is_made_shorter_first() {
    let pages = 4 * RANGES_MAX as u64;
    for dies in [false, true] {
        simulate(1, move || {
            let slots = 3 * RANGES_MAX as u32;
            let options = TierOptions { segment_entries: 1024, group_pages: 64, slots, ..options() };
            let world = World::new(options, pages);
            let tier = world.create();
            (0..pages).step_by(2).for_each(|page| write(&tier, page, 1).unwrap());
            tier.flush().unwrap();
            world.fail(if dies { Fault::Death } else { Fault::WriteError }, true);
            let written = (1..200).step_by(2).try_for_each(|page| write(&tier, page, 2));
            let failed = written.and_then(|()| tier.flush());
            if dies {
                // Nothing was lost silently: all is refused, as with a log above.
                assert!(matches!(failed, Err(TierError::Poisoned { .. })), "{failed:?}");
                return;
            }
            failed.unwrap();
            assert!(is_saved(&tier));
            for page in 0..pages {
                let expected = if page % 2 == 0 { 1 } else { 2 * u64::from(page < 200) };
                assert_eq!(version(&tier, page).unwrap(), expected, "page {page}");
            }
        });
    }
}

/// Without the record nobody knows which pages of the disk are old: it is not used.
#[test]
fn a_damaged_record_is_refused() {
    simulate(1, || {
        let world = World::new(options(), PAGES);
        let tier = world.used();
        world.fail(Fault::Death, true);
        (0..10).for_each(|page| write(&tier, page, 3).unwrap());
        tier.flush().unwrap();
        drop(tier);
        let after = world.again(None);
        let damage = |copy| after.disk.write(copy, &[7; 512]).unwrap();
        // An open writes the copy again.
        for copy in [4096, 36 << 10] {
            damage(copy);
            assert!(after.open().0.missing().is_some());
        }
        [4096, 36 << 10].into_iter().for_each(damage);
        let refused = FlashTier::open(after.flash.clone(), after.disk.clone(), after.options.clone());
        let why = refusal(refused.map(drop));
        assert!(why.contains("damaged"), "{why}");
    });
}

/// Nothing is lost in write-through mode, and the tier is switched off as ever.
#[test]
fn a_write_through_cache_is_switched_off() {
    simulate(1, || {
        let world = World::new(TierOptions { mode: Mode::WriteThrough, ..options() }, PAGES);
        let tier = world.used();
        world.fail(Fault::WriteError, true);
        (0..DIRTY).for_each(|page| write(&tier, page, 3).unwrap());
        assert!(tier.notice().is_some() && tier.missing().is_none() && tier.failed_epoch().is_none());
        (0..DIRTY).for_each(|page| assert_eq!(version(&tier, page).unwrap(), 3));
    });
}

/// The flash fails while dirty pages are being forgotten, for a disk write that comes later. Until that write
/// a crash finds the pages as they were, whether the cache has become degraded meanwhile or has stopped.
#[test]
fn a_page_that_is_about_to_be_dead_is_not_lost_with_the_flash() {
    let (mut degraded, mut forgotten) = (0, 0);
    for seed in 0..300 {
        let config = SimConfig { seed, random_order: true, preempt_one_of: 3, ..SimConfig::default() };
        let ended = Simulation::new(config).run(|| {
            let world = World::new(options(), PAGES);
            let tier = world.used();
            let writer = {
                let tier = tier.clone();
                spawn("writer", move || {
                    let _ = write(&tier, PAGES - 1, 3).and_then(|()| tier.flush());
                })
            };
            world.fail(Fault::WriteError, true);
            sleep(Duration::from_nanos(random() % 30_000));
            let (mut is_degraded, mut is_forgotten) = (false, false);
            let made = tier.forget_for(PageId(0), PageId(3), || {
                is_degraded = tier.missing().is_some();
                is_forgotten = version(&tier, 0).is_ok_and(|found| found < 2);
                let after = world.again(Some(&Survival::None));
                let (later, _) = after.open();
                let found = (0..4).map(|page| version(&later, page).unwrap());
                assert!(
                    found.clone().all(|found| found == 2),
                    "seed {seed}: {:?}",
                    found.collect::<Vec<_>>()
                );
                Ok::<(), TierError>(())
            });
            // Why it has stopped, if it has.
            assert!(made.is_ok() || matches!(made, Err(TierError::Poisoned { .. })), "{made:?}");
            writer.join();
            (is_degraded, is_forgotten)
        });
        let (is_degraded, is_forgotten) = ended.unwrap();
        degraded += u32::from(is_degraded);
        forgotten += u32::from(is_forgotten);
    }
    assert!(degraded > 10 && forgotten > 10, "{degraded} {forgotten}");
}

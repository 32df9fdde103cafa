//! Power fails while a cache is opened or made, once or twice in a row: the next open finishes what was
//! begun.

mod support;

use entresol_core::PolicyKind;
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{FlashTier, FragmentOptions, FragmentTier, TierError, TierOptions, detach};
use entresol_format::label::{COPIES, COPY_STRIDE};
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use std::sync::Arc;
use support::{PAGE, PAGES, expect_all, load, memory, open, simulate, small, used};

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

/// An open of copies of these devices, cut off at operation `at`; what is left, and whether it was cut off.
fn cut_open(
    at: u64,
    [flash, disk]: [&MemoryDevice; 2],
    options: &TierOptions,
) -> ([Arc<MemoryDevice>; 2], bool) {
    let plan = Arc::new(FaultPlan::crash_at(at));
    let device = |name: &str, memory: &MemoryDevice| {
        Arc::new(FaultyDevice::new(name, memory.fork(name), plan.clone()))
    };
    let (flash, disk) = (device("flash", flash), device("disk", disk));
    let simulation = Simulation::new(SimConfig { seed: at, ..SimConfig::default() });
    let outcome =
        simulation.run(|| drop(FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap()));
    let left = [&flash, &disk].map(|cut| Arc::new(cut.after_crash(&Survival::All)));
    (left, !matches!(outcome, Outcome::Finished(())))
}

/// A copy of `disk` on which copy `copy` of the label cannot be read.
fn without_label(disk: &MemoryDevice, copy: u64) -> Arc<MemoryDevice> {
    let disk = disk.fork("disk");
    disk.mark_unreadable(copy * COPY_STRIDE, 512);
    Arc::new(disk)
}

/// Two opens in a row are cut off, each anywhere. One copy of the label cannot be read by the second open,
/// and can again by the third, or is lost before the third.
#[test]
fn two_opens_that_were_cut_off_are_completed_with_either_label() {
    let options = small(PolicyKind::FaceGsc, 96);
    let (flash, disk) = simulate(1, || used(&options));
    let finish = |flash: &MemoryDevice, disk: &MemoryDevice, what: &str| {
        let (flash, disk) = (Arc::new(flash.fork("flash")), Arc::new(disk.fork("disk")));
        simulate(3, || match FlashTier::open(flash, disk, options.clone()) {
            Ok((tier, _)) => drop(expect_all(&*tier, 2)),
            Err(error) => panic!("{what}: {error}"),
        });
    };
    let mut opens = 0;
    for first in 1.. {
        let ([flash, disk], was_cut) = cut_open(first, [&flash, &disk], &options);
        if !was_cut {
            break;
        }
        for hidden in [None, Some(0), Some(1)] {
            let seen = hidden.map_or_else(|| disk.clone(), |copy| without_label(&disk, copy));
            for second in 1.. {
                let what = format!("cut off at {first} and {second}, label {hidden:?} hidden");
                let ([flash, left], was_cut) = cut_open(second, [&flash, &seen], &options);
                if !was_cut {
                    break;
                }
                opens += 1;
                let mut block = [0; 4096];
                if let Some(copy) = hidden
                    && left.read(copy * COPY_STRIDE, &mut block).is_err()
                {
                    // Nothing was written there meanwhile.
                    disk.read(copy * COPY_STRIDE, &mut block).unwrap();
                    left.write(copy * COPY_STRIDE, &block).unwrap();
                    finish(&flash, &left, &what);
                    continue;
                }
                for lost in 0..COPIES {
                    finish(&flash, &without_label(&left, lost), &format!("{what}, label {lost} lost"));
                }
            }
        }
    }
    assert!(opens > 500, "{opens}");
}

/// 1. A cache is detached, and the program killed at one of the last operations, which release the disk; the
///    machine goes on.
/// 2. A cache is made on the same devices, and power fails at any operation.
/// 3. The next open, or the next try to make one, has every page.
#[test]
fn a_cache_made_after_a_killed_detach_belongs_to_its_disk() {
    let options = small(PolicyKind::FaceGsc, 96);
    let (flash, disk) = simulate(1, || used(&options));
    let plan = |at| Arc::new(FaultPlan::crash_at(at));
    let counted = Arc::new(FaultPlan::none());
    let device = |name: &str, memory: &MemoryDevice| {
        Arc::new(FaultyDevice::new(name, memory.fork(name), counted.clone()))
    };
    simulate(2, || drop(detach(device("flash", &flash), device("disk", &disk)).unwrap()));
    let all = counted.operations();
    let mut made = 0;
    for killed in all.saturating_sub(30)..=all + 1 {
        let plan_of_detach = plan(killed);
        let device = |name: &str, memory: &MemoryDevice| {
            Arc::new(FaultyDevice::new(name, memory.fork(name), plan_of_detach.clone()))
        };
        let left = (device("flash", &flash), device("disk", &disk));
        let simulation = Simulation::new(SimConfig { seed: killed, ..SimConfig::default() });
        simulation.run(|| drop(detach(left.0.clone(), left.1.clone()).unwrap()));
        for cut in 1.. {
            let plan = plan(cut);
            let flash = Arc::new(left.0.after_kill(plan.clone()));
            let disk = Arc::new(left.1.after_kill(plan));
            let simulation = Simulation::new(SimConfig { seed: cut, ..SimConfig::default() });
            let outcome = simulation
                .run(|| FlashTier::create(flash.clone(), disk.clone(), options.clone()).map(drop).is_ok());
            for survival in [Survival::None, Survival::Seed(cut)] {
                let flash = Arc::new(flash.after_crash(&survival));
                let disk = Arc::new(disk.after_crash(&survival));
                simulate(3, || {
                    let opened = FlashTier::open(flash.clone(), disk.clone(), options.clone());
                    let tier = opened.map(|(tier, _)| tier);
                    let tier = tier.or_else(|_| FlashTier::create(flash, disk, options.clone()));
                    match tier {
                        Ok(tier) => drop(expect_all(&*tier, 2)),
                        Err(error) => panic!("killed at {killed}, cut off at {cut}, {survival:?}: {error}"),
                    }
                });
            }
            made += u32::from(matches!(outcome, Outcome::Finished(true)));
            if matches!(outcome, Outcome::Finished(_)) {
                break;
            }
        }
    }
    assert!(made > 5, "{made}");
}

//! Pages that are forgotten for something that is not durable yet: a crash finds them on flash until it is,
//! and never after.

mod support;

use entresol_core::{Mode, PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{FlashTier, Layer, TierError, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use std::sync::Arc;
use support::{PAGE, build, bytes_of, device_of, load, memory, open, simulate, small, version, victim};

/// The pages that are forgotten, and others that fill groups meanwhile.
const DEAD: [u64; 2] = [5, 6];
const OTHERS: std::ops::Range<u64> = 20..90;

fn put(tier: &FlashTier, page: u64, number: u64) {
    tier.evict(victim(PageId(page), number, true, true), &build(PageId(page), number)).unwrap();
}

/// The versions that a cache finds whose machine stops now.
fn after_a_crash(flash: &dyn Device, disk: &dyn Device, options: &TierOptions) -> [u64; 2] {
    let (flash, disk) = (device_of(&bytes_of(flash)), device_of(&bytes_of(disk)));
    let tier = open(&flash, &disk, options);
    let mut buffer = vec![0; PAGE];
    let found = DEAD.map(|page| {
        tier.fetch(PageId(page), &mut buffer).unwrap();
        version(PageId(page), &buffer)
    });
    tier.close().unwrap();
    found
}

/// Writes the pages to disk as their owner does, past the tier.
fn write_past(disk: &dyn Device, number: u64) {
    for page in DEAD.map(PageId) {
        let mut bytes = build(page, number);
        PageFormat::Native.seal_for_disk(&mut bytes, page);
        disk.write(entresol_engine::disk_offset(page, PAGE as u32), &bytes).unwrap();
    }
}

#[test]
fn a_forgotten_page_is_found_until_what_makes_it_dead_is_durable() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        simulate(1, || {
            let options = small(policy, 96);
            let (flash, disk) = memory(&options, support::PAGES);
            load(disk.clone(), support::PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            DEAD.iter().for_each(|page| put(&tier, *page, 2));
            tier.checkpoint().unwrap();
            let (first, last) = (PageId(DEAD[0]), PageId(DEAD[1]));
            let done = tier.forget_for(first, last, || {
                let mut buffer = vec![0; PAGE];
                tier.fetch(first, &mut buffer)?;
                assert_eq!(version(first, &buffer), 1, "{policy:?}: forgotten in memory");
                // Groups that could name the forgotten pages, and directory segments.
                OTHERS.for_each(|page| put(&tier, page, 2));
                assert_eq!(after_a_crash(&*flash, &*disk, &options), [2, 2], "{policy:?}");
                write_past(&*disk, 3);
                Ok::<(), TierError>(())
            });
            done.unwrap();
            tier.checkpoint().unwrap();
            assert_eq!(after_a_crash(&*flash, &*disk, &options), [3, 3], "{policy:?}");
            // What would make them dead fails: a restart finds them.
            DEAD.iter().for_each(|page| put(&tier, *page, 4));
            tier.checkpoint().unwrap();
            let failed = tier.forget_for(first, last, || Err(TierError::Interrupted));
            assert!(matches!(failed, Err(TierError::Interrupted)), "{failed:?}");
            let told = tier.fetch(first, &mut vec![0; PAGE]).err();
            assert!(matches!(told, Some(TierError::Poisoned { .. })), "{policy:?}: {told:?}");
            drop(tier);
            assert_eq!(after_a_crash(&*flash, &*disk, &options), [4, 4], "{policy:?}");
        });
    }
}

/// The flash fails while nothing in the cache is dirty, but a page is only about to be dead. The cache does
/// not leave the flash behind: the page's newest version is there.
#[test]
fn a_flash_that_fails_is_needed_until_what_makes_pages_dead_is_durable() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (_, disk) = memory(&options, support::PAGES);
        load(disk.clone(), support::PAGES);
        let plan = Arc::new(FaultPlan::none());
        let flash = MemoryDevice::new("flash", flash_bytes(&options));
        let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        DEAD.iter().for_each(|page| put(&tier, *page, 2));
        tier.checkpoint().unwrap();
        let failed = tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || {
            let (at, fault) = (plan.operations() + 1, Fault::WriteError);
            plan.inject(Injection { at, device: None, fault, forever: true });
            let clean =
                |page| tier.evict(victim(PageId(page), 1, false, true), &build(PageId(page), 1)).map(drop);
            OTHERS.clone().try_for_each(clean)?;
            panic!("the flash has failed: {:?}", tier.notice());
        });
        assert!(matches!(failed, Err(TierError::Poisoned { .. })), "{failed:?}");
        assert_eq!(after_a_crash(&*flash, &*disk, &options), [2, 2]);
    });
}

/// What makes pages dead cannot be made durable: the checkpoint that meets this says so, and the cache has
/// failed. (Were it not, a task of the cache that makes checkpoints would repeat them for ever.)
#[test]
fn a_checkpoint_that_cannot_make_pages_dead_fails_the_cache() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        simulate(1, || {
            let options =
                TierOptions { mode, page_format: PageFormat::Raw, ..small(PolicyKind::FaceGsc, 96) };
            let (flash, _) = memory(&options, support::PAGES);
            let plan = Arc::new(FaultPlan::none());
            let bytes = entresol_engine::disk_offset(PageId(support::PAGES), PAGE as u32);
            let disk = MemoryDevice::new("disk", bytes);
            let disk = Arc::new(FaultyDevice::new("disk", disk, plan.clone()));
            let tier = FlashTier::create(flash, disk, options).unwrap();
            DEAD.iter().for_each(|page| put(&tier, *page, 2));
            tier.checkpoint().unwrap();
            tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || Ok::<(), TierError>(())).unwrap();
            let (at, fault) = (plan.operations() + 1, Fault::SyncError);
            plan.inject(Injection { at, device: Some("disk".to_owned()), fault, forever: true });
            let failed = tier.checkpoint();
            assert!(matches!(failed, Err(TierError::Device { role: "disk", .. })), "{mode:?}: {failed:?}");
            assert!(tier.failure().is_some(), "{mode:?}: it goes on as if nothing had happened");
        });
    }
}

#[test]
fn slots_forget_only_what_is_dead() {
    let options = small(PolicyKind::Lc, 96);
    let (flash, disk) = memory(&options, support::PAGES);
    load(disk.clone(), support::PAGES);
    let tier = FlashTier::create(flash, disk, options).unwrap();
    let refused = tier.forget_for(PageId(1), PageId(2), || -> Result<(), TierError> { panic!("not called") });
    assert!(matches!(refused, Err(TierError::Config(why)) if why.contains("slot placement")));
    tier.close().unwrap();
}

//! Sectors that cannot be read: redundancy is used. What has a copy elsewhere costs a read of it; a page that
//! only flash has is an error that names it.

mod support;

use entresol_core::{PageId, Placement, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{FlashTier, Layer, Mode, PageCache, TierError, TierOptions, detach};
use std::sync::Arc;
use support::{PAGE, build, load, memory, simulate, small, version, victim};

const PAGES: u64 = 120;

fn write_all(layer: &dyn Layer, number: u64, dirty: bool) {
    for page in (0..PAGES).map(PageId) {
        layer.evict(victim(page, number, dirty, true), &build(page, number)).unwrap();
    }
}

fn expect_all(layer: &dyn Layer, number: u64) {
    let mut buffer = vec![0; PAGE];
    for page in (0..PAGES).map(PageId) {
        layer.fetch(page, &mut buffer).unwrap();
        assert_eq!(version(page, &buffer), number, "page {page}");
    }
}

/// A cache that power left, with all pages at version 2, and its disk.
fn used(options: &TierOptions) -> (MemoryDevice, MemoryDevice) {
    simulate(1, || {
        let (flash, disk) = memory(options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        write_all(&*tier, 2, true);
        tier.checkpoint().unwrap();
        entresol_runtime::sleep(std::time::Duration::from_millis(10));
        drop(tier);
        (flash.fork("flash"), disk.fork("disk"))
    })
}

/// Opens it with `[offset, offset + 512)` of one device unreadable, reads all, writes all, and reads all.
fn go_on(options: &TierOptions, media: &(MemoryDevice, MemoryDevice), of_flash: bool, offset: u64) {
    simulate(offset, || {
        let (flash, disk) = (Arc::new(media.0.fork("flash")), Arc::new(media.1.fork("disk")));
        (if of_flash { &flash } else { &disk }).mark_unreadable(offset, 512);
        let (tier, _) = FlashTier::open(flash.clone(), disk.clone(), options.clone())
            .unwrap_or_else(|error| panic!("offset {offset} of flash {of_flash}: {error}"));
        expect_all(&*tier, 2);
        for number in [3, 4] {
            write_all(&*tier, number, true);
        }
        tier.close().unwrap_or_else(|error| panic!("offset {offset} of flash {of_flash}: {error}"));
        let (tier, _) = FlashTier::open(flash, disk, options.clone()).unwrap();
        expect_all(&*tier, 4);
    });
}

#[test]
fn one_unreadable_copy_of_what_is_redundant_stops_nobody() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Face] {
        let options = small(policy, 160);
        let media = used(&options);
        let layout = options.layout();
        (0..4).for_each(|copy| go_on(&options, &media, true, copy * (16 << 10)));
        (0..2).for_each(|copy| go_on(&options, &media, false, copy * (32 << 10)));
        (0..2).for_each(|place| go_on(&options, &media, true, layout.segment_offset(place) + 4096));
        // A summary can be told from the pages of its group.
        for (group, copy) in
            (0..PAGES / 4).flat_map(|group| (0..layout.summary_copies()).map(move |copy| (group, copy)))
        {
            go_on(&options, &media, true, layout.summary_offset(group, copy));
        }
    }
}

#[test]
fn unreadable_pages_that_the_disk_has_come_from_disk() {
    for policy in PolicyKind::ALL {
        let mut options = small(policy, 96);
        if policy.placement() == Placement::Log {
            options.mode = Mode::WriteThrough;
        }
        let (flash, disk) = used(&options);
        // Every page on flash is clean, or will be copied before it is lost: the disk has all.
        let layout = options.layout();
        simulate(1, || {
            let (flash, disk) = (Arc::new(flash.fork("flash")), Arc::new(disk.fork("disk")));
            let (tier, _) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
            tier.checkpoint().unwrap();
            (0..96).step_by(3).for_each(|slot| {
                flash.mark_unreadable(layout.slot_offset(entresol_core::SlotId(slot)) + 1024, 512);
            });
            expect_all(&*tier, 2);
            for number in [3, 4] {
                write_all(&*tier, number, true);
            }
            expect_all(&*tier, 4);
            tier.close().unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        });
    }
}

/// Clean pages that cannot be read, due for a second chance, in groups that have a dirty page, too. They are
/// dropped, and the cache goes on: it neither stops nor switches itself off.
#[test]
fn unreadable_clean_pages_are_dropped_when_their_group_is_dequeued() {
    let systems = [PolicyKind::FaceGsc, PolicyKind::FaceGr];
    for (policy, mode) in systems
        .into_iter()
        .flat_map(|policy| [Mode::WriteBack, Mode::WriteThrough].map(|mode| (policy, mode)))
    {
        let options = TierOptions { mode, ..small(policy, 96) };
        simulate(1, || {
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            let mut buffer = vec![0; PAGE];
            let is_dirty = |page: PageId| page.0 % 4 == 3;
            for page in (0..60).map(PageId) {
                if is_dirty(page) {
                    tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
                } else {
                    tier.fetch(page, &mut buffer).unwrap();
                    tier.evict(victim(page, 1, false, true), &buffer).unwrap();
                }
            }
            tier.checkpoint().unwrap();
            entresol_runtime::sleep(std::time::Duration::from_millis(10));
            // All are wanted again.
            for page in (0..60).map(PageId) {
                tier.fetch(page, &mut buffer).unwrap();
            }
            let layout = options.layout();
            for slot in (0..60).filter(|slot| slot % 4 == 1) {
                let offset = layout.slot_offset(entresol_core::SlotId(slot));
                flash.read(offset, &mut buffer).unwrap();
                assert_eq!(version(PageId(slot.into()), &buffer), 1, "the clean page that is meant");
                flash.mark_unreadable(offset + 1024, 512);
            }
            for page in (60..PAGES).map(PageId) {
                tier.evict(victim(page, 3, true, true), &build(page, 3))
                    .unwrap_or_else(|error| panic!("{policy:?} {mode:?}: evicting page {page}: {error}"));
            }
            for page in (0..PAGES).map(PageId) {
                tier.fetch(page, &mut buffer)
                    .unwrap_or_else(|error| panic!("{policy:?} {mode:?}: page {page}: {error}"));
                let expected = match page.0 {
                    60.. => 3,
                    _ if is_dirty(page) => 2,
                    _ => 1,
                };
                assert_eq!(version(page, &buffer), expected, "{policy:?} {mode:?}: page {page}");
            }
            assert_eq!(tier.notice(), None, "{policy:?} {mode:?}");
            tier.close().unwrap_or_else(|error| panic!("{policy:?} {mode:?}: {error}"));
        });
    }
}

/// From some read on the flash gives nothing back, until it is plugged in again. Its newest groups do not
/// pass for torn ones.
#[test]
fn a_flash_that_cannot_be_read_for_a_while_loses_nothing() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::FaceGr, PolicyKind::Face] {
        let options = small(policy, 160);
        // No superblock says yet that these groups are durable.
        let (flash, disk) = simulate(1, || {
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            write_all(&*tier, 2, true);
            entresol_runtime::sleep(std::time::Duration::from_millis(10));
            drop(tier);
            (flash.fork("flash"), disk.fork("disk"))
        });
        let newest = |flash: MemoryDevice, disk: MemoryDevice| {
            simulate(3, || {
                let (tier, _) = FlashTier::open(Arc::new(flash), Arc::new(disk), options.clone()).unwrap();
                let mut buffer = vec![0; PAGE];
                (0..PAGES)
                    .map(PageId)
                    .map(|page| {
                        tier.fetch(page, &mut buffer).unwrap();
                        version(page, &buffer)
                    })
                    .collect::<Vec<_>>()
            })
        };
        let expected = newest(flash.fork("flash"), disk.fork("disk"));
        assert!(expected.iter().filter(|version| **version == 2).count() > 60, "{expected:?}");
        let mut refused = 0;
        for at in 1.. {
            let plan = Arc::new(FaultPlan::none());
            let [flash, disk] = [("flash", &flash), ("disk", &disk)]
                .map(|(name, medium)| Arc::new(FaultyDevice::new(name, medium.fork(name), plan.clone())));
            let device = Some("flash".to_owned());
            plan.inject(Injection { at, device, fault: Fault::ReadError, forever: true });
            simulate(at, || {
                if let Err(error) = FlashTier::open(flash.clone(), disk.clone(), options.clone()) {
                    assert!(matches!(error, TierError::Device { role: "flash", .. }), "read {at}: {error}");
                    refused += 1;
                }
            });
            let found = newest(flash.after_crash(&Survival::All), disk.after_crash(&Survival::All));
            assert_eq!(found, expected, "{policy:?}: nothing could be read from operation {at} on");
            if plan.struck() == 0 {
                break;
            }
        }
        assert!(refused > 3, "{policy:?}: {refused} opens were refused");
    }
}

#[test]
fn a_detach_passes_by_what_it_does_not_need_and_names_what_it_does() {
    let options = small(PolicyKind::FaceGsc, 160);
    let (flash, disk) = simulate(2, || {
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        // Clean ones, and then dirty ones in the second half.
        let mut buffer = vec![0; PAGE];
        for page in (0..60).map(PageId) {
            tier.fetch(page, &mut buffer).unwrap();
            tier.evict(victim(page, 1, false, true), &buffer).unwrap();
        }
        for page in (60..PAGES).map(PageId) {
            tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
        }
        tier.checkpoint().unwrap();
        drop(tier);
        (flash.fork("flash"), disk.fork("disk"))
    });
    let slot_of = |page: u64| options.layout().slot_offset(entresol_core::SlotId(page as u32));
    simulate(3, || {
        let (flash, disk) = (Arc::new(flash.fork("flash")), Arc::new(disk.fork("disk")));
        (0..60).step_by(7).for_each(|page| flash.mark_unreadable(slot_of(page), 512));
        detach(flash, disk.clone()).unwrap();
        let layer = entresol_engine::DiskLayer::open(disk, PAGE as u32).unwrap();
        let mut buffer = vec![0; PAGE];
        for page in (0..PAGES).map(PageId) {
            layer.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), if page.0 < 60 { 1 } else { 2 });
        }
    });
    simulate(4, || {
        let (flash, disk) = (Arc::new(flash.fork("flash")), Arc::new(disk.fork("disk")));
        flash.mark_unreadable(slot_of(77), 512);
        let told = detach(flash, disk).expect_err("page 77 is on flash alone").to_string();
        assert!(told.contains("page 0:77") && told.contains("cannot be read"), "{told}");
    });
}

#[test]
fn a_page_that_the_disk_cannot_give_back_is_named() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash, disk.clone(), options).unwrap();
        disk.mark_unreadable(entresol_engine::disk_offset(PageId(5), PAGE as u32) + 512, 512);
        let mut buffer = vec![0; PAGE];
        match tier.fetch(PageId(5), &mut buffer) {
            Err(TierError::Unreadable { page, .. }) => assert_eq!(page, PageId(5)),
            other => panic!("{other:?}"),
        }
        tier.fetch(PageId(6), &mut buffer).unwrap();
        // What is written there again can be read again.
        tier.evict(victim(PageId(5), 2, true, true), &build(PageId(5), 2)).unwrap();
        tier.detach().unwrap();
        let layer = entresol_engine::DiskLayer::open(disk, PAGE as u32).unwrap();
        layer.fetch(PageId(5), &mut buffer).unwrap();
        assert_eq!(version(PageId(5), &buffer), 2);
    });
}

//! Pages that are written to disk past the flash, by an owner without a log.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{
    Deletes, DiskLayer, FlashTier, Layer, Mode, PageCache, PageSet, ReadRoute, TierOptions, disk_offset,
    flash_bytes,
};
use entresol_format::PageFormat;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use support::{Moody, PAGE, disk_bytes, open, simulate};

const PAGES: u64 = 8;

/// The bytes of a page.
fn filled(version: u8) -> Vec<u8> {
    vec![version; PAGE]
}

/// The program is killed after the write, before any flush: its older copy on flash does not come back.
#[test]
fn an_older_copy_is_forgotten_durably_before_the_disk_is_written() {
    for (policy, mode) in [PolicyKind::Face, PolicyKind::FaceGsc]
        .into_iter()
        .flat_map(|policy| [Mode::WriteThrough, Mode::WriteBack].map(|mode| (policy, mode)))
    {
        simulate(1, || {
            let options = TierOptions { page_format: PageFormat::Raw, mode, ..support::small(policy, 64) };
            let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
            DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            (0..PAGES).for_each(|page| tier.write_pages(PageId(page), &filled(1)).unwrap());
            tier.checkpoint().unwrap();
            tier.destage(&PageSet::ALL).unwrap();
            assert_eq!(tier.write_around(PageId(3), &filled(2)).unwrap(), 1, "{policy:?} {mode:?}");
            drop(tier);
            let tier = open(&flash, &disk, &options);
            let mut buffer = vec![0; PAGE];
            for page in 0..PAGES {
                tier.read_pages(PageId(page), &mut buffer, ReadRoute::Populates).unwrap();
                let expected = if page == 3 { 2 } else { 1 };
                assert_eq!(buffer[0], expected, "{policy:?} {mode:?}: page {page}");
            }
            tier.close().unwrap();
        });
    }
}

/// 1. A page is written past the flash; the disk is not synced.
/// 2. It is read, and enters the flash as a clean page. Its group is durable.
/// 3. Power fails, and the disk loses what was not synced.
/// 4. What is served then stays, also when the page has left the flash.
#[test]
fn a_page_written_past_the_flash_enters_it_when_the_disk_has_it_durably() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        simulate(2, || {
            let options = TierOptions { page_format: PageFormat::Raw, ..support::small(policy, 64) };
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
            DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
            let disk = Arc::into_inner(disk).expect("the layer is through with it");
            let device =
                |name, medium| Arc::new(FaultyDevice::new(name, medium, Arc::new(FaultPlan::none())));
            let flash = device("flash", MemoryDevice::new("flash", flash_bytes(&options)));
            let disk = device("disk", disk);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            tier.write_around(PageId(5), &filled(1)).unwrap();
            tier.flush().unwrap();
            tier.write_around(PageId(5), &filled(2)).unwrap();
            let mut buffer = vec![0; PAGE];
            tier.read_pages(PageId(5), &mut buffer, ReadRoute::Populates).unwrap();
            assert!(tier.is_on_flash(PageId(5)), "{policy:?}");
            (0..3).for_each(|page| tier.write_pages(PageId(page), &filled(9)).unwrap());
            // The group is full, and written after a while.
            entresol_runtime::sleep(std::time::Duration::from_millis(100));
            let [flash, disk] = [&flash, &disk].map(|device| Arc::new(device.after_crash(&Survival::None)));
            drop(tier);
            let tier = open(&flash, &disk, &options);
            tier.read_pages(PageId(5), &mut buffer, ReadRoute::Populates).unwrap();
            let served = buffer[0];
            tier.detach().unwrap();
            drop(tier);
            disk.read(disk_offset(PageId(5), PAGE as u32), &mut buffer).unwrap();
            assert_eq!((served, buffer[0]), (2, 2), "{policy:?}");
        });
    }
}

/// 1. A write past the flash is carried out, but its answer comes too late: it failed, as far as anybody
///    knows. The disk has not synced it.
/// 2. The page is read, and perhaps enters the flash as a clean page. A flush is acknowledged; or the group
///    of the page is full, and written.
/// 3. Power fails, and the disk loses what was not synced.
/// 4. What was read is read again, and stays.
#[test]
fn a_failed_write_that_was_carried_out_is_durable_before_the_page_is_on_flash() {
    let readings = [ReadRoute::StaysOut, ReadRoute::Around, ReadRoute::Populates];
    for (mode, reading) in [Mode::WriteBack, Mode::WriteThrough]
        .into_iter()
        .flat_map(|mode| readings.map(|reading| (mode, reading)))
    {
        for pages in [1, 3] {
            simulate(3, || failed_write_is_durable(mode, reading, pages, true));
        }
    }
    simulate(4, || failed_write_is_durable(Mode::WriteBack, ReadRoute::Populates, 1, false));
}

fn failed_write_is_durable(mode: Mode, reading: ReadRoute, pages: u64, flushes: bool) {
    let options =
        TierOptions { page_format: PageFormat::Raw, mode, ..support::small(PolicyKind::FaceGsc, 64) };
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
    DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
    let disk = Arc::into_inner(disk).expect("the layer is through with it");
    let device = |name, medium| FaultyDevice::new(name, medium, Arc::new(FaultPlan::none()));
    let flash = Arc::new(device("flash", MemoryDevice::new("flash", flash_bytes(&options))));
    let disk = Arc::new(Moody::new(device("disk", disk)));
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    let mut buffer = vec![0; PAGE * pages as usize];
    let version = |number| vec![number; PAGE * pages as usize];
    tier.write_around(PageId(5), &version(1)).unwrap();
    tier.flush().unwrap();
    disk.fails_late.store(true, SeqCst);
    tier.write_around(PageId(5), &version(2)).unwrap_err();
    tier.read_pages(PageId(5), &mut buffer, reading).unwrap();
    assert!(buffer == version(2), "the disk has carried it out");
    if flushes {
        tier.flush().unwrap();
    } else {
        (0..3).for_each(|page| tier.write_pages(PageId(page), &filled(9)).unwrap());
        entresol_runtime::sleep(std::time::Duration::from_millis(100));
    }
    let flash = Arc::new(flash.after_crash(&Survival::None));
    let disk = Arc::new(disk.device.after_crash(&Survival::None));
    drop(tier);
    let tier = open(&flash, &disk, &options);
    tier.read_pages(PageId(5), &mut buffer, reading).unwrap();
    assert!(buffer == version(2), "{mode:?} {reading:?} {flushes}: {} is served", buffer[0]);
    tier.detach().unwrap();
    drop(tier);
    disk.read(disk_offset(PageId(5), PAGE as u32), &mut buffer).unwrap();
    assert!(buffer == version(2), "{mode:?} {reading:?} {flushes}: {} is on disk", buffer[0]);
}

/// A caller carries out a write only of a page of which no crash finds an older copy: one in the cache is
/// forgotten first, durably. Meanwhile no read brings the page in.
#[test]
fn a_caller_writes_no_page_of_which_a_crash_finds_a_copy() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        simulate(3, || {
            let options =
                TierOptions { page_format: PageFormat::Raw, mode, ..support::small(PolicyKind::FaceGsc, 64) };
            let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
            DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            (0..PAGES).for_each(|page| tier.write_pages(PageId(page), &filled(1)).unwrap());
            let begin = |pages| tier.clone().begin_around(PageId(3), pages);
            if mode == Mode::WriteBack {
                assert!(begin(1).is_none(), "it is dirty");
            }
            tier.checkpoint().unwrap();
            tier.destage(&PageSet::ALL).unwrap();
            assert!(begin(1).is_none(), "a crash finds it");
            tier.forget(PageId(3), PageId(3)).unwrap();
            assert!(begin(1).is_none(), "its record is not durable");
            tier.flush().unwrap();
            assert!(begin(2).is_none(), "the next page is in the cache");
            let around = begin(1).expect("no crash finds it");
            assert!(begin(1).is_none(), "it is being written");
            let mut buffer = vec![0; PAGE];
            tier.read_pages(PageId(3), &mut buffer, ReadRoute::Populates).unwrap();
            around.write_now(&filled(2)).unwrap();
            around.end(&filled(2), true).unwrap();
            assert!(!tier.is_on_flash(PageId(3)), "the read has met the older version");
            drop(tier);
            let tier = open(&flash, &disk, &options);
            tier.read_pages(PageId(3), &mut buffer, ReadRoute::Populates).unwrap();
            assert_eq!(buffer[0], 2);
            tier.close().unwrap();
        });
    }
}

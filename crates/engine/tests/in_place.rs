//! Disks that are used in place, with their labels in files beside them.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{
    Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Outage, RedoDevice, Survival,
};
use entresol_engine::{
    FlashTier, InPlaceDisk, Layer, Mode, PageCache, ReadRoute, Source, TierOptions, detach, disk_offset,
    flash_bytes,
};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_runtime::sleep;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use support::{Moody, PAGE, PAGES, bytes_of, device_of, refusal, simulate, victim};

fn options(mode: Mode) -> TierOptions {
    TierOptions { page_format: PageFormat::Raw, mode, ..support::small(PolicyKind::FaceGsc, 64) }
}

/// What the owner had on the disk before: no byte of ours.
fn owners_bytes() -> Vec<u8> {
    (0..PAGES as usize * PAGE).map(|at| (at / 100) as u8 ^ 0x5a).collect()
}

fn page_of(number: u64) -> Vec<u8> {
    vec![number as u8 | 0x80; PAGE]
}

fn file() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new("label file", LABEL_FILE_BYTES))
}

type Parts = (Arc<MemoryDevice>, Arc<MemoryDevice>, Arc<MemoryDevice>);

/// A disk, its label file and its flash, closed after some pages were written.
fn used(mode: Mode) -> Parts {
    let options = options(mode);
    let (disk, file) = (device_of(&owners_bytes()), file());
    let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
    let home = InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
    assert_eq!(bytes_of(&*disk), owners_bytes(), "nothing on the disk is changed");
    let tier = FlashTier::create(flash.clone(), home, options).unwrap();
    let mut buffer = vec![0; PAGE];
    tier.fetch(PageId(7), &mut buffer).unwrap();
    assert_eq!(buffer, owners_bytes()[7 * PAGE..8 * PAGE]);
    for page in (0..PAGES).step_by(3) {
        tier.evict(victim(PageId(page), 0, true, true), &page_of(page)).unwrap();
    }
    tier.close().unwrap();
    (disk, file, flash)
}

/// A label or a fingerprint with the last number that there is: the next one would have none. It counts as
/// damaged.
#[test]
fn a_forged_number_is_damage_and_no_overflow() {
    for (at, stride) in [(64 << 10, 16 << 10), (0, 32 << 10)] {
        for copies in 1..=2 {
            let (disk, file) = (Arc::new(MemoryDevice::new("disk", 1 << 20)), file());
            InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
            for copy in 0..copies {
                let mut block = vec![0; 4096];
                file.read(at + copy * stride, &mut block).unwrap();
                let magic: [u8; 8] = block[..8].try_into().unwrap();
                entresol_format::block::seal(&mut block, magic, u64::MAX - copy);
                file.write(at + copy * stride, &block).unwrap();
            }
            let opened = InPlaceDisk::open(disk, file);
            if copies == 2 {
                let why = refusal(opened.map(drop));
                assert!(why.contains("`sequence` holds"), "{why}");
                continue;
            }
            let (home, _) = opened.unwrap();
            for number in 1..4 {
                home.write(disk_offset(PageId(0), PAGE as u32), &page_of(number)).unwrap();
            }
            home.sync().unwrap();
        }
    }
}

#[test]
fn the_disk_is_its_owners_from_the_first_byte_on() {
    simulate(1, || {
        let (disk, file, flash) = used(Mode::WriteBack);
        let (home, notice) = InPlaceDisk::open(disk.clone(), file).unwrap();
        assert_eq!(notice, None);
        detach(flash, home).unwrap();
        let mut expected = owners_bytes();
        for page in (0..PAGES).step_by(3) {
            expected[page as usize * PAGE..][..PAGE].copy_from_slice(&page_of(page));
        }
        assert!(bytes_of(&*disk) == expected, "all pages, and nothing else, are on the disk");
    });
}

#[test]
fn a_disk_that_others_have_written_is_refused_or_its_cache_emptied() {
    simulate(2, || {
        let (disk, file, flash) = used(Mode::WriteBack);
        let before = (bytes_of(&*disk), bytes_of(&*file), bytes_of(&*flash));
        disk.write(4 << 10, &[1; 512]).unwrap();
        let told = refusal(InPlaceDisk::open(disk.clone(), file.clone()));
        assert!(told.contains("sector 8") && told.contains("restore the disk"), "{told}");
        assert!(bytes_of(&*file) == before.1 && bytes_of(&*flash) == before.2, "nothing was written");
        disk.write(0, &before.0).unwrap();
        assert_eq!(InPlaceDisk::open(disk, file).unwrap().1, None);
    });
    simulate(3, || {
        let (disk, file, flash) = used(Mode::WriteThrough);
        disk.write(0, &[9; PAGE]).unwrap();
        let (home, notice) = InPlaceDisk::open(disk, file.clone()).unwrap();
        assert!(notice.unwrap().contains("emptied"));
        let (tier, report) = FlashTier::open(flash, home, options(Mode::WriteThrough)).unwrap();
        assert_eq!(report.entries, 0, "{report:?}");
        let mut buffer = vec![0; PAGE];
        let fetched = tier.fetch(PageId(0), &mut buffer).unwrap();
        assert_eq!((fetched.source, &buffer[..]), (Source::Disk, &[9; PAGE][..]));
        tier.close().unwrap();
    });
}

#[test]
fn label_files_that_cannot_be_used_are_refused() {
    simulate(4, || {
        let (disk, file, _) = used(Mode::WriteBack);
        let again = refusal(InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32));
        assert!(again.contains("name a new file"), "{again}");
        let blank = refusal(InPlaceDisk::open(disk.clone(), self::file()));
        assert!(blank.contains("blank") && blank.contains("backup"), "{blank}");
        let short = Arc::new(MemoryDevice::new("label file", 64 << 10));
        let short = refusal(InPlaceDisk::open(disk.clone(), short));
        assert!(short.contains("65536") && short.contains("98304"), "{short}");
        let bytes = (PAGES as usize - 1) * PAGE;
        let told = refusal(InPlaceDisk::open(device_of(&bytes_of(&*disk)[..bytes]), file.clone()));
        assert!(told.contains(&bytes.to_string()) && told.contains("shrunk"), "{told}");
        // One copy of each is enough.
        for damaged in [0, 64 << 10, 80 << 10, 32 << 10] {
            let mut bytes = bytes_of(&*file);
            bytes[damaged + 40] ^= 1;
            InPlaceDisk::open(disk.clone(), device_of(&bytes)).unwrap();
        }
        let mut bytes = bytes_of(&*file);
        bytes[(64 << 10) + 40] ^= 1;
        bytes[(80 << 10) + 40] ^= 1;
        let told = refusal(InPlaceDisk::open(disk.clone(), device_of(&bytes)));
        assert!(told.contains("fingerprint") && told.contains("copy 1"), "{told}");
    });
}

/// A disk that has grown is the same one, if its old part is. From then on its new end is looked at, too.
#[test]
fn a_disk_that_has_grown_opens_with_its_cache() {
    simulate(6, || {
        let (disk, file, flash) = used(Mode::WriteBack);
        let mut larger = bytes_of(&*disk);
        larger.resize((PAGES as usize + 100) * PAGE, 0);
        let mut changed = larger.clone();
        changed[0] ^= 1;
        let told = refusal(InPlaceDisk::open(device_of(&changed), file.clone()));
        assert!(told.contains("another program"), "{told}");
        let disk = device_of(&larger);
        let (home, notice) = InPlaceDisk::open(disk.clone(), file.clone()).unwrap();
        assert!(notice.is_some_and(|told| told.contains("has grown from")));
        assert_eq!(home.geometry().capacity_bytes, disk.geometry().capacity_bytes + LABEL_AREA_BYTES);
        let (tier, report) = FlashTier::open(flash, home, options(Mode::WriteBack)).unwrap();
        assert!(report.entries > 0, "{report:?}");
        assert_eq!(tier.capacity_pages(), PAGES + 100);
        tier.close().unwrap();
        drop(tier);
        assert_eq!(InPlaceDisk::open(disk.clone(), file.clone()).unwrap().1, None, "it is known now");
        // In the last sector, which the fingerprint knows since.
        let end = disk.geometry().capacity_bytes;
        disk.write(end - 512, &[3; 512]).unwrap();
        let told = refusal(InPlaceDisk::open(disk, file));
        assert!(told.contains("another program"), "{told}");
    });
}

/// A disk that may fail, used in place, with its first page in version 1, durably; and its label file.
fn faulty() -> (Arc<FaultyDevice>, Arc<MemoryDevice>, Arc<FaultPlan>, Arc<InPlaceDisk>) {
    let plan = Arc::new(FaultPlan::none());
    let disk = MemoryDevice::new("disk", PAGES * PAGE as u64);
    let (disk, file) = (Arc::new(FaultyDevice::new("disk", disk, plan.clone())), file());
    let home = InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
    put(&*home, 1).unwrap();
    home.sync().unwrap();
    (disk, file, plan, home)
}

/// Writes the first page, which has sectors of the fingerprint.
fn put(home: &dyn Device, version: u64) -> Result<(), entresol_device::DeviceError> {
    home.write(disk_offset(PageId(0), PAGE as u32), &page_of(version))
}

fn fail_next(plan: &FaultPlan, fault: Fault) {
    plan.inject(Injection { at: plan.operations() + 1, device: None, fault, forever: false });
}

/// Power fails: what was not synced is lost, or all of it survives. Nobody else has written to the disk.
fn expect_no_foreign_write(disk: &FaultyDevice, file: &MemoryDevice) {
    for survival in [Survival::None, Survival::All] {
        let (disk, file) = (disk.after_crash(&survival), device_of(&bytes_of(file)));
        let (_, notice) = InPlaceDisk::open(Arc::new(disk), file).unwrap();
        assert_eq!(notice, None, "{survival:?}");
    }
}

/// 1. The disk has version 1. The write of version 2 fails, and its owner goes on.
/// 2. Version 3 is written, and the power fails before a sync: the disk has version 1, or 3.
#[test]
fn a_write_that_fails_leaves_either_content_possible() {
    let (disk, file, plan, home) = faulty();
    fail_next(&plan, Fault::WriteError);
    put(&*home, 2).unwrap_err();
    put(&*home, 3).unwrap();
    expect_no_foreign_write(&disk, &file);
    home.sync().unwrap();
    put(&*home, 4).unwrap();
    expect_no_foreign_write(&disk, &file);
}

/// 1. The label file fails a write, or a sync: so does the write to the disk, and nothing is written.
/// 2. It is repeated, and durable.
#[test]
fn a_fingerprint_that_could_not_be_written_is_written_before_the_next_try() {
    for fault in [Fault::WriteError, Fault::SyncError] {
        let plan = Arc::new(FaultPlan::none());
        let disk = Arc::new(MemoryDevice::new("disk", PAGES * PAGE as u64));
        let file = MemoryDevice::new("label file", LABEL_FILE_BYTES);
        let file = Arc::new(FaultyDevice::new("label file", file, plan.clone()));
        let home = InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
        put(&*home, 1).unwrap();
        home.sync().unwrap();
        let at = plan.operations() + if fault == Fault::WriteError { 1 } else { 2 };
        plan.inject(Injection { at, device: None, fault, forever: false });
        put(&*home, 2).unwrap_err();
        put(&*home, 2).unwrap();
        home.sync().unwrap();
        let file = Arc::new(file.after_crash(&Survival::None));
        let (_, notice) = InPlaceDisk::open(device_of(&bytes_of(&*disk)), file).unwrap();
        assert_eq!(notice, None, "{fault:?}");
    }
}

/// 1. The disk has version 1. The label file fails a write, or a sync, so version 2 is not written.
/// 2. Version 3 is written, and the power fails before a sync: the disk has version 1, or 3.
#[test]
fn what_was_not_written_since_the_label_file_failed_is_not_in_the_fingerprint() {
    for (fault, later) in [(Fault::WriteError, 1), (Fault::SyncError, 2), (Fault::NoSpace, 1)] {
        let (disk_plan, plan) = (Arc::new(FaultPlan::none()), Arc::new(FaultPlan::none()));
        let disk = MemoryDevice::new("disk", PAGES * PAGE as u64);
        let disk = Arc::new(FaultyDevice::new("disk", disk, disk_plan));
        let file = MemoryDevice::new("label file", LABEL_FILE_BYTES);
        let file = Arc::new(FaultyDevice::new("label file", file, plan.clone()));
        let home = InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
        put(&*home, 1).unwrap();
        home.sync().unwrap();
        plan.inject(Injection { at: plan.operations() + later, device: None, fault, forever: false });
        put(&*home, 2).unwrap_err();
        put(&*home, 3).unwrap();
        expect_no_foreign_write(&disk, &device_of(&bytes_of(&*file)));
    }
}

/// Either copy of the fingerprint may be damaged: the other one may be older, and proves nothing then.
#[test]
fn a_damaged_copy_of_the_fingerprint_is_no_foreign_write() {
    let (disk, file, _, home) = faulty();
    for version in 2..8 {
        put(&*home, version).unwrap();
        home.sync().unwrap();
        for copy in [64 << 10, 80 << 10] {
            let mut bytes = bytes_of(&*file);
            bytes[copy + 40] ^= 1;
            expect_no_foreign_write(&disk, &device_of(&bytes));
        }
    }
}

/// 1. A sync fails; version 2 can be read, and is never durable. The program ends, the machine goes on.
/// 2. The disk is opened again: it has version 1. Version 3 is written, and the power fails before a sync.
#[test]
fn what_a_failed_sync_leaves_in_memory_is_not_in_the_fingerprint() {
    let (disk, file, plan, home) = faulty();
    put(&*home, 2).unwrap();
    // After the file's.
    fail_next(&plan, Fault::SyncErrorKeepingPages);
    home.sync().unwrap_err();
    drop(home);
    let disk = Arc::new(disk.after_kill(Arc::new(FaultPlan::none())));
    let (home, notice) = InPlaceDisk::open(disk.clone(), file.clone()).unwrap();
    assert_eq!(notice, None);
    home.drop_cached().unwrap();
    put(&*home, 3).unwrap();
    expect_no_foreign_write(&disk, &file);
}

/// 1. The disk has version 1. The write of version 2 fails, and leaves sectors that cannot be read.
/// 2. Version 3 is written, and the power fails before a sync: the disk has version 1, 2 or 3, and can be
///    read again.
///
/// The program may be another one in step 2; and the sectors may not have been readable at first.
#[test]
fn a_sector_that_could_not_be_read_may_have_any_content() {
    for (is_opened_again, fails_late) in [(false, false), (false, true), (true, false), (true, true)] {
        let plan = Arc::new(FaultPlan::none());
        let disk = FaultyDevice::new("disk", MemoryDevice::new("disk", PAGES * PAGE as u64), plan.clone());
        let (disk, file) = (Arc::new(Moody::new(disk)), file());
        let mut home = InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
        put(&*home, 1).unwrap();
        home.sync().unwrap();
        match fails_late {
            true => disk.fails_late.store(true, SeqCst),
            false => fail_next(&plan, Fault::WriteError),
        }
        put(&*home, 2).unwrap_err();
        disk.hides.store(true, SeqCst);
        if is_opened_again {
            home = InPlaceDisk::open(disk.clone(), file.clone()).unwrap().0;
        }
        for version in 3..6 {
            put(&*home, version).unwrap();
            expect_no_foreign_write(&disk.device, &file);
        }
        // What is durable and can be read is known again.
        disk.hides.store(false, SeqCst);
        home.sync().unwrap();
        put(&*home, 6).unwrap();
        home.sync().unwrap();
        put(&*home, 7).unwrap();
        home.sync().unwrap();
        disk.device.write(0, &[9; 512]).unwrap();
        disk.device.sync().unwrap();
        let disk = Arc::new(disk.device.after_crash(&Survival::None));
        let told = InPlaceDisk::open(disk, file).unwrap().1.expect("another program has written");
        assert!(told.contains("sector 0"), "{told}");
    }
}

/// 1. The disk's syncs fail, its writes do not: the first page is written again and again.
/// 2. Power fails: the disk has any of these versions.
/// 3. Or the disk can be synced again: the fingerprint knows its sectors as before.
#[test]
fn a_disk_that_cannot_be_synced_takes_writes_to_the_fingerprints_sectors() {
    let fault = Fault::SyncErrorLosingWrites;
    let outage = |plan: &FaultPlan| {
        let lasts = Duration::from_secs(1 << 20);
        plan.plan_outage(Outage { at: 0, lasts, device: "disk".to_owned(), faults: vec![fault] });
    };
    simulate(1, move || {
        let plan = Arc::new(FaultPlan::none());
        let disk = MemoryDevice::new("disk", PAGES * PAGE as u64);
        let (disk, file) = (Arc::new(FaultyDevice::new("disk", disk, plan.clone())), file());
        let redoing = Arc::new(RedoDevice::new(disk.clone() as Arc<dyn Device>));
        let label = Arc::new(RedoDevice::new(file.clone() as Arc<dyn Device>));
        let home = InPlaceDisk::create(redoing, label, PAGE as u32).unwrap();
        put(&*home, 1).unwrap();
        home.sync().unwrap();
        outage(&plan);
        for version in 2..12 {
            put(&*home, version).unwrap();
            expect_no_foreign_write(&disk, &file);
            if version % 4 == 0 {
                home.sync().unwrap_err();
                sleep(Duration::from_secs(2));
            }
        }
        plan.end_outage();
        home.sync().unwrap();
        for version in 12..15 {
            put(&*home, version).unwrap();
            expect_no_foreign_write(&disk, &file);
            home.sync().unwrap();
        }
        disk.write(0, &[9; 512]).unwrap();
        disk.sync().unwrap();
        let told = InPlaceDisk::open(Arc::new(disk.after_crash(&Survival::None)), file).unwrap().1;
        assert!(told.is_some_and(|told| told.contains("sector 0")));
    });
}

#[test]
fn a_sector_that_could_not_be_read_at_first_is_no_foreign_write_later() {
    let (disk, file) = (Arc::new(Moody::new(MemoryDevice::new("disk", PAGES * PAGE as u64))), file());
    disk.hides.store(true, SeqCst);
    let home = InPlaceDisk::create(disk.clone(), file.clone(), PAGE as u32).unwrap();
    drop(home);
    disk.hides.store(false, SeqCst);
    disk.device.write(0, &[7; PAGE]).unwrap();
    assert_eq!(InPlaceDisk::open(disk.clone(), file.clone()).unwrap().1, None);
    // From then on it is known.
    disk.device.write(0, &[8; PAGE]).unwrap();
    assert!(InPlaceDisk::open(disk, file).unwrap().1.is_some());
}

/// The disk is synced before a sector of the fingerprint gets a third content. That sync fails, and loses a
/// page that was written past the cache: it is not read in its older version.
#[test]
fn a_sync_that_the_disk_makes_by_itself_counts_for_the_cache() {
    simulate(1, || {
        const DISK_PAGES: u64 = 2000;
        let plan = Arc::new(FaultPlan::none());
        let medium = MemoryDevice::new("disk", DISK_PAGES * PAGE as u64);
        let disk = Arc::new(FaultyDevice::new("disk", medium, plan.clone()));
        let home = InPlaceDisk::create(disk, file(), PAGE as u32).unwrap();
        let options = options(Mode::WriteThrough);
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let tier = FlashTier::create(flash, home, options).unwrap();
        let page = PageId(DISK_PAGES / 2 + 7);
        tier.write_around(page, &page_of(1)).unwrap();
        tier.flush().unwrap();
        tier.write_around(page, &page_of(2)).unwrap();
        let (at, device) = (plan.operations() + 1, Some("disk".to_owned()));
        plan.inject(Injection { at, device, fault: Fault::SyncErrorLosingWrites, forever: false });
        let failed = (3..9).find_map(|number| tier.write_around(PageId(0), &page_of(number)).err());
        assert!(failed.is_some() && plan.struck() == 1, "{failed:?}");
        let mut found = vec![0; PAGE];
        for how in [ReadRoute::Around, ReadRoute::StaysOut] {
            let read = tier.read_pages(page, &mut found, how);
            assert!(read.is_err() || found == page_of(2), "an older version is read, {how:?}");
        }
    });
}

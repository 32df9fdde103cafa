//! What a new cache or database is put on: a wrong path destroys nothing.

mod support;

use entresol_core::PolicyKind;
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, FragmentOptions, FragmentTier, Mode, TierOptions, flash_bytes};
use entresol_format::fragments::MARK_OFFSETS;
use std::sync::Arc;
use support::{
    PAGE, PAGES, bytes_of, device_of, disk_bytes, fragments, load, memory, refusal, simulate, small, used,
};

/// Puts the beginning of an ext4 file system on `device`.
fn make_ext4(device: &MemoryDevice) {
    let mut sector = [0; 512];
    sector[56..58].copy_from_slice(b"\x53\xef");
    device.write(1024, &sector).unwrap();
}

#[test]
fn what_is_not_ours_is_named_and_left_as_it_is() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (flash, disk) = used(&options);
        // The flash of another cache is given as the disk, a disk as the flash, and each with something
        // foreign on it.
        let ext4 = |device: &MemoryDevice| {
            let foreign = MemoryDevice::new("foreign", device.geometry().capacity_bytes);
            make_ext4(&foreign);
            Arc::new(foreign)
        };
        let through = TierOptions { mode: Mode::WriteThrough, ..options.clone() };
        let (_, blank) = memory(&options, PAGES);
        let unbound = || {
            let (_, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            disk
        };
        let large = Arc::new(MemoryDevice::new("large", flash_bytes(&options).max(disk_bytes(PAGES))));
        large.write(0, &bytes_of(&*unbound())).unwrap();
        let unknown = {
            let device = MemoryDevice::new("unknown", flash_bytes(&options));
            device.write(512 << 10, &[7; 512]).unwrap();
            Arc::new(device)
        };
        let cases = [
            (ext4(&flash), unbound(), "an ext2, ext3 or ext4 file system"),
            (large, unbound(), "the disk of a database of Entresol"),
            (unknown, unbound(), "something unknown (at offset 524288)"),
            (memory(&options, PAGES).0, ext4(&disk), "an ext2, ext3 or ext4 file system"),
            (memory(&options, PAGES).0, flash.clone(), "a flash cache of Entresol"),
        ];
        for (flash, disk, sentence) in cases {
            let before = [bytes_of(&*flash), bytes_of(&*disk)];
            let told = refusal(FlashTier::create(flash.clone(), disk.clone(), options.clone()));
            assert!(told.contains(sentence), "{told}");
            if let Err(error) = FlashTier::open(flash.clone(), disk.clone(), through.clone()) {
                let told = error.to_string();
                assert!(told.contains(sentence) || told.contains("no label"), "{told}");
            } else {
                panic!("opened: {sentence}");
            }
            assert!(before == [bytes_of(&*flash), bytes_of(&*disk)], "{sentence}: something was written");
            let over = TierOptions { overwrite: true, ..options.clone() };
            if sentence != "a flash cache of Entresol" {
                FlashTier::create(flash, disk, over).unwrap_or_else(|error| panic!("{sentence}: {error}"));
            }
        }
        let told = refusal(DiskLayer::create(ext4(&disk), PAGE as u32));
        assert!(told.contains("ext4"), "{told}");
        drop(DiskLayer::create_on(ext4(&disk), PAGE as u32, true).unwrap());
        drop(DiskLayer::create(blank, PAGE as u32).unwrap());
    });
}

/// Devices that were ours, and that a file system has been made on since, as programs do it that leave most
/// of what lies there: a copy of our label, our superblock or our mark that is still whole proves nothing.
#[test]
fn what_another_program_has_taken_over_is_not_ours_any_more() {
    simulate(1, || {
        let options = TierOptions { mode: Mode::WriteThrough, ..small(PolicyKind::FaceGsc, 96) };
        let over = TierOptions { overwrite: true, ..options.clone() };
        let taken = |device: &MemoryDevice| {
            let device = device_of(&bytes_of(device));
            make_ext4(&device);
            device
        };
        let (flash, disk) = used(&options);
        let (was_flash, was_disk) = (taken(&flash), taken(&disk));
        let before = [bytes_of(&*was_flash), bytes_of(&*was_disk)];
        let told = [
            refusal(FlashTier::open(was_flash.clone(), disk.clone(), options.clone())),
            refusal(FlashTier::create(was_flash.clone(), disk.clone(), options.clone())),
            refusal(FlashTier::open(flash.clone(), was_disk.clone(), options.clone())),
            refusal(FlashTier::create(flash.clone(), was_disk.clone(), options.clone())),
            refusal(DiskLayer::open(was_disk.clone(), PAGE as u32)),
            refusal(DiskLayer::create(was_disk.clone(), PAGE as u32)),
        ];
        for told in told {
            assert!(told.contains("ext4"), "{told}");
        }
        assert!(before == [bytes_of(&*was_flash), bytes_of(&*was_disk)], "something was written");
        drop(FlashTier::open(was_flash, disk.clone(), over).unwrap());
        drop(DiskLayer::create_on(was_disk, PAGE as u32, true).unwrap());

        let options = fragments(8, 8);
        let flash = Arc::new(MemoryDevice::new("flash", options.flash_bytes()));
        drop(FragmentTier::open(flash.clone(), disk.clone(), options).unwrap());
        let was_flash = taken(&flash);
        let told = refusal(FragmentTier::open(was_flash.clone(), disk.clone(), options));
        assert!(told.contains("ext4"), "{told}");
        let over = FragmentOptions { overwrite: true, ..options };
        drop(FragmentTier::open(was_flash, disk, over).unwrap());
    });
}

/// A write that the device has sent to a wrong place covers one copy of the mark, or its middle, and not the
/// other.
#[test]
fn a_cache_of_fragments_is_known_by_either_of_its_marks() {
    simulate(1, || {
        let options = fragments(8, 8);
        let flash = MemoryDevice::new("flash", options.flash_bytes());
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
        load(disk.clone(), PAGES);
        let flash = Arc::new(flash);
        drop(FragmentTier::open(flash.clone(), disk.clone(), options).unwrap());
        let image = bytes_of(&*flash);
        let length = 8 * PAGE;
        let around = |place: usize| (place.saturating_sub(length)..place + 2 * PAGE).step_by(512);
        for offset in MARK_OFFSETS.into_iter().flat_map(|place| around(place as usize)) {
            let flash = device_of(&image);
            flash.write(offset as u64, &vec![7; length]).unwrap();
            if let Err(error) = FragmentTier::open(flash, disk.clone(), options) {
                panic!("overwritten at {offset}: {error}");
            }
        }
    });
}

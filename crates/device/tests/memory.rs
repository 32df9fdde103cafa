//! Memory devices: their content, the memory that it takes, and sharing.

use entresol_device::memory::Reference;
use entresol_device::{BaseImage, Device, ImageDevice, MemoryDevice};
use entresol_runtime::rng::Rng;
use std::sync::Arc;

const PAGE: usize = 4096;
const PAGES: u64 = 2048;

fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..PAGE / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn read(device: &MemoryDevice, page: u64) -> Vec<u8> {
    let mut buffer = vec![0; PAGE];
    device.read(page * PAGE as u64, &mut buffer).expect("memory does not fail");
    buffer
}

fn write(device: &MemoryDevice, page: u64, data: &[u8]) {
    device.write(page * PAGE as u64, data).expect("memory does not fail");
}

fn load(device: &dyn Device) {
    (0..PAGES).for_each(|page| device.write(page * PAGE as u64, &noise(page)).expect("memory does not fail"));
}

fn loaded() -> MemoryDevice {
    let device = MemoryDevice::new("database", PAGES * PAGE as u64);
    load(&device);
    device
}

/// The same image, made in both ways.
fn images() -> [Arc<BaseImage>; 2] {
    let device = ImageDevice::new("image", PAGES * PAGE as u64);
    load(&device);
    [loaded().freeze(), device.freeze()]
}

#[test]
fn devices_over_one_base_are_independent_and_small() {
    images().into_iter().for_each(check_that_devices_over_it_are_independent_and_small);
}

fn check_that_devices_over_it_are_independent_and_small(base: Arc<BaseImage>) {
    assert_eq!(base.resident_bytes(), PAGES * PAGE as u64);
    let devices: Vec<_> = (0..6).map(|_| MemoryDevice::over("system", base.clone())).collect();
    let mut rng = Rng::new(5);
    for (index, device) in devices.iter().enumerate() {
        assert_eq!(device.resident_bytes(), 0);
        for page in 0..PAGES {
            let mut data = noise(page);
            // As a database does: an LSN, a checksum, and a row.
            data[..16].copy_from_slice(&[index as u8 + 1; 16]);
            let row = 64 + rng.below(3900) as usize;
            data[row..row + 40].fill(index as u8 + 1);
            write(device, page, &data);
            assert!(read(device, page) == data);
        }
    }
    for (index, device) in devices.iter().enumerate() {
        for page in 0..PAGES {
            assert_eq!(read(device, page)[..16], [index as u8 + 1; 16]);
        }
        let bytes_a_page = device.resident_bytes() / PAGES;
        assert!(bytes_a_page < 150, "a page with a small change takes {bytes_a_page} bytes");
    }
}

#[test]
fn writing_the_base_back_takes_no_memory() {
    let base = loaded().freeze();
    let device = MemoryDevice::over("system", base);
    (0..PAGES).for_each(|page| write(&device, page, &noise(page + 1)));
    let full = device.resident_bytes();
    assert!(full > PAGES * PAGE as u64);
    (0..PAGES).for_each(|page| write(&device, page, &noise(page)));
    assert!(device.resident_bytes() < full / 50, "{} of {full}", device.resident_bytes());
    assert!(read(&device, 7) == noise(7));
}

#[test]
fn a_frozen_overlay_holds_what_the_device_held() {
    images().into_iter().for_each(check_a_frozen_overlay_of);
}

fn check_a_frozen_overlay_of(base: Arc<BaseImage>) {
    let device = MemoryDevice::over("system", base);
    write(&device, 3, &noise(9999));
    device.write(5 * PAGE as u64 + 512, &[1; 512]).expect("memory does not fail");
    device.discard(6 * PAGE as u64, 2 * PAGE as u64).expect("memory does not fail");
    let expected: Vec<_> = (0..PAGES).map(|page| read(&device, page)).collect();
    assert!(expected[6].iter().all(|&byte| byte == 0));
    let second = MemoryDevice::over("second", device.freeze());
    for (page, expected) in expected.iter().enumerate() {
        assert!(read(&second, page as u64) == *expected, "page {page} changed when it was frozen");
    }
}

#[test]
fn a_fork_shares_until_one_side_writes() {
    let device = loaded();
    let fork = device.fork("fork");
    write(&device, 1, &noise(70));
    write(&fork, 2, &noise(71));
    fork.write(512, &[9; 512]).expect("memory does not fail");
    assert!(read(&device, 1) == noise(70) && read(&fork, 1) == noise(1));
    assert!(read(&device, 2) == noise(2) && read(&fork, 2) == noise(71));
    assert!(read(&device, 0) == noise(0) && read(&fork, 0)[512..1024] == [9; 512]);
}

#[test]
fn discarding_frees_memory() {
    let device = loaded();
    let full = device.resident_bytes();
    device.discard(0, PAGES * PAGE as u64 / 2).expect("memory does not fail");
    assert!(device.resident_bytes() <= full / 2 + full / 50);
    assert!(read(&device, PAGES / 2) == noise(PAGES / 2));
}

#[test]
fn versions_of_another_devices_pages_are_stored_as_differences() {
    let base = loaded().freeze();
    // The first 8 bytes of each page's noise identify the page; here the test keeps its own directory.
    let directory: Vec<_> = (0..PAGES).map(|page| noise(page)[8..16].to_vec()).collect();
    let locate = move |page: &[u8]| {
        directory.iter().position(|key| *key == page[8..16]).map(|index| (index * PAGE) as u64)
    };
    let reference = Reference { image: base, locate: Arc::new(locate) };
    let flash = MemoryDevice::new("flash", 256 * PAGE as u64).with_reference(reference);
    for round in 0..3u64 {
        for slot in 0..256u64 {
            let page = (slot * 7 + round * 131) % PAGES;
            let mut data = noise(page);
            data[100..140].fill(round as u8 + 1);
            write(&flash, slot, &data);
            assert!(read(&flash, slot) == data);
        }
        let bytes_a_page = flash.resident_bytes() / 256;
        assert!(bytes_a_page < 160, "a slot takes {bytes_a_page} bytes");
    }
    // A page without a similar one is stored whole. A page that looks similar to another but is not is read
    // back as written.
    write(&flash, 0, &noise(1_000_000));
    let mut liar = noise(1_000_001);
    liar[8..16].copy_from_slice(&noise(5)[8..16]);
    write(&flash, 1, &liar);
    assert!(read(&flash, 0) == noise(1_000_000) && read(&flash, 1) == liar);
}

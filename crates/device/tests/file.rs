//! Properties of files: locking, growing, space, reopening, memory across devices.

use entresol_device::{Device, DeviceError, FileDevice, FileOptions, Io, UringDevice};

const CAPACITY: u64 = 1 << 20;

#[test]
fn a_file_is_open_once() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("flash");
    let first = FileDevice::open(&path, FileOptions::create(CAPACITY)).expect("the file can be made");
    let error = FileDevice::open(&path, FileOptions::existing()).expect_err("the file is locked");
    assert!(error.to_string().contains("has it open"), "{error}");
    drop(first);
    FileDevice::open(&path, FileOptions::existing()).expect("the lock ends with its owner");
}

#[test]
fn content_and_capacity_outlive_the_device() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("flash");
    let device = FileDevice::open(&path, FileOptions::create(CAPACITY)).expect("the file can be made");
    device.write(4096, &[7; 4096]).expect("a write in range succeeds");
    device.sync().expect("a sync succeeds");
    drop(device);
    let device = FileDevice::open(&path, FileOptions::create(2 * CAPACITY)).expect("the file can be grown");
    assert_eq!(device.geometry().capacity_bytes, 2 * CAPACITY);
    let mut page = [0; 4096];
    device.read(4096, &mut page).expect("a read in range succeeds");
    assert_eq!(page, [7; 4096]);
    device.read(2 * CAPACITY - 4096, &mut page).expect("a read in range succeeds");
    assert_eq!(page, [0; 4096]);
    drop(device);
    let device = FileDevice::open(&path, FileOptions::existing()).expect("the file exists");
    assert_eq!(device.geometry().capacity_bytes, 2 * CAPACITY);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("flash");
    let reason =
        |options| FileDevice::open(&path, options).expect_err("the file cannot be opened").to_string();
    let missing = reason(FileOptions::existing());
    assert!(missing.contains("flash: open") && missing.contains("No such file"), "{missing}");
    let odd = reason(FileOptions::create(CAPACITY + 1));
    assert!(odd.contains("multiple of the sector size") && odd.contains("1048577"), "{odd}");
    let huge = reason(FileOptions::create(1 << 60));
    assert!(huge.contains("no space") && huge.contains("are free"), "{huge}");
}

#[test]
fn both_devices_see_one_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("flash");
    let device = FileDevice::open(&path, FileOptions::create(CAPACITY)).expect("the file can be made");
    let pattern: Vec<u8> = (0..8192u32).map(|index| (index / 7) as u8).collect();
    device.write(512, &pattern).expect("a write in range succeeds");
    drop(device);
    let device = match UringDevice::open(&path, FileOptions::existing()) {
        Ok(device) => device,
        Err(DeviceError::Io { reason, .. }) if reason.contains("not available") => {
            println!("skipped: {reason}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut found = vec![0; 8192];
    device.read(512, &mut found).expect("a read in range succeeds");
    assert!(found == pattern);
    assert!(device.counters().busy > std::time::Duration::ZERO);
}

#[test]
fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("flash");
    drop(FileDevice::open(&path, FileOptions::create(CAPACITY)).expect("the file can be made"));
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[test]
fn what_is_in_memory_can_be_dropped_and_comes_from_the_medium_again() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("flash");
    for is_direct_wanted in [true, false] {
        let options = FileOptions { is_direct_wanted, ..FileOptions::create(CAPACITY) };
        let device = FileDevice::open(&path, options).expect("the file can be made");
        let geometry = device.geometry();
        assert!(geometry.physical_bytes >= geometry.sector_bytes, "{geometry:?}");
        assert!(geometry.physical_bytes.is_power_of_two(), "{geometry:?}");
        device.write(0, &[9; 4096]).expect("a write in range succeeds");
        device.sync().expect("a sync succeeds");
        device.drop_cached().expect("memory can be dropped");
        let mut page = [0; 4096];
        device.read(0, &mut page).expect("a read in range succeeds");
        assert_eq!(page, [9; 4096]);
    }
}

#[test]
fn adjacent_writes_of_a_batch_arrive_as_single_ones_do() {
    for direct in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let options = FileOptions { is_direct_wanted: direct, ..FileOptions::create(CAPACITY) };
        let device = FileDevice::open(folder.path().join("disk"), options).expect("the file can be made");
        let mut expected = vec![0; CAPACITY as usize];
        // The first of four has an address that direct I/O does not take.
        for skipped in [1, 0] {
            let pages: Vec<u8> = (0..5 * 4096 + skipped).map(|at| (at / 512 % 251) as u8 + 1).collect();
            let pages: Vec<&[u8]> = pages[skipped..].chunks_exact(4096).collect();
            let at = |page: usize| (8 + page + 16 * skipped) as u64 * 4096;
            let places = [0, 1, 2, 6, 3];
            let mut batch: Vec<Io<'_>> =
                places.iter().zip(&pages).map(|(page, data)| Io::Write { offset: at(*page), data }).collect();
            device.run(&mut batch).expect("writes in range succeed");
            for (page, data) in places.iter().zip(&pages) {
                expected[at(*page) as usize..][..4096].copy_from_slice(data);
            }
        }
        let mut found = vec![0; CAPACITY as usize];
        device.read(0, &mut found).expect("a read in range succeeds");
        assert!(found == expected, "direct: {direct}");
    }
}

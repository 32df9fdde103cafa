//! The conformance suite: the contract that all devices must fulfil.
//!
//! Call [`check`] in a test with a fresh device whose content is not needed.

use entresol_device::{Device, DeviceError, Io};
use entresol_runtime::rng::Rng;
use entresol_runtime::spawn;
use std::sync::Arc;

/// Capacity that the suite needs, in bytes.
pub const CAPACITY_BYTES_MIN: u64 = 4 << 20;

/// Runs the whole suite. The device's content is overwritten.
///
/// # Panics
/// If the device breaks the contract of [`Device`].
pub fn check(device: &Arc<dyn Device>) {
    assert!(device.geometry().capacity_bytes >= CAPACITY_BYTES_MIN, "the suite needs 4 MiB");
    refuses_bad_ranges(device.as_ref());
    reads_what_was_written(device.as_ref());
    keeps_what_is_not_written(device.as_ref());
    runs_batches(device.as_ref());
    takes_any_memory(device.as_ref());
    agrees_with_an_array(device.as_ref());
    discards_only_the_range(device.as_ref());
    counts(device.as_ref());
    serves_many_tasks(device);
}

fn sector(device: &dyn Device) -> u64 {
    u64::from(device.geometry().sector_bytes)
}

/// `length` bytes that depend on `seed` and their place.
fn pattern(seed: u64, length: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

fn read(device: &dyn Device, offset: u64, length: u64) -> Vec<u8> {
    let mut buffer = vec![0xEE; length as usize];
    device.read(offset, &mut buffer).expect("a read in range succeeds");
    buffer
}

fn write(device: &dyn Device, offset: u64, data: &[u8]) {
    device.write(offset, data).expect("a write in range succeeds");
}

fn refuses_bad_ranges(device: &dyn Device) {
    let geometry = device.geometry();
    let (capacity, sector) = (geometry.capacity_bytes, sector(device));
    assert!(sector.is_power_of_two() && sector >= 512);
    assert_eq!(capacity % sector, 0, "the capacity is a whole number of sectors");
    let mut buffer = vec![0; sector as usize];
    for offset in [capacity, capacity + sector, u64::MAX - sector + 1] {
        let past = |error: &DeviceError| matches!(error, DeviceError::OutOfRange { .. });
        assert!(device.read(offset, &mut buffer).is_err_and(|error| past(&error)), "read at {offset}");
        assert!(device.write(offset, &buffer).is_err_and(|error| past(&error)), "write at {offset}");
        assert!(device.discard(offset, sector).is_err_and(|error| past(&error)), "discard at {offset}");
    }
    let misaligned = |error: &DeviceError| matches!(error, DeviceError::Misaligned { .. });
    assert!(device.read(1, &mut buffer).is_err_and(|error| misaligned(&error)));
    assert!(device.write(sector / 2, &buffer).is_err_and(|error| misaligned(&error)));
    assert!(device.read(0, &mut buffer[1..]).is_err_and(|error| misaligned(&error)));
    assert!(device.discard(0, 1).is_err_and(|error| misaligned(&error)));
    // A batch with one bad request is refused as a whole.
    write(device, 0, &pattern(1, sector));
    let other = pattern(2, sector);
    let mut batch = [Io::Write { offset: 0, data: &other }, Io::Write { offset: capacity, data: &other }];
    assert!(device.run(&mut batch).is_err());
    assert_eq!(read(device, 0, sector), pattern(1, sector), "a refused batch was carried out in part");
}

fn reads_what_was_written(device: &dyn Device) {
    let (capacity, sector) = (device.geometry().capacity_bytes, sector(device));
    for (seed, length) in [sector, 4096, 8 * sector, 64 << 10, 256 << 10].into_iter().enumerate() {
        let data = pattern(seed as u64, length);
        for offset in [0, sector, (1 << 20) - sector, capacity - length] {
            write(device, offset, &data);
            assert!(read(device, offset, length) == data, "{length} bytes at {offset} came back changed");
        }
    }
    device.sync().expect("a sync succeeds");
    device.sync().expect("a sync with nothing to do succeeds");
    let length = 256 << 10;
    assert!(read(device, capacity - length, length) == pattern(4, length), "a sync changed the content");
    device.run(&mut []).expect("an empty batch succeeds");
}

fn keeps_what_is_not_written(device: &dyn Device) {
    let sector = sector(device);
    let whole = pattern(5, 16 * sector);
    write(device, 1 << 20, &whole);
    let part = pattern(6, sector);
    for index in [0, 7, 15] {
        write(device, (1 << 20) + index * sector, &part);
    }
    let found = read(device, 1 << 20, 16 * sector);
    for (index, (found, old)) in
        found.chunks_exact(sector as usize).zip(whole.chunks_exact(sector as usize)).enumerate()
    {
        let expected = if [0, 7, 15].contains(&index) { &part[..] } else { old };
        assert!(found == expected, "sector {index} is not what was written last");
    }
}

fn runs_batches(device: &dyn Device) {
    const REQUESTS: u64 = 300;
    let pages: Vec<_> = (0..REQUESTS).map(|index| pattern(1000 + index, 4096)).collect();
    let mut batch: Vec<_> = pages
        .iter()
        .enumerate()
        .map(|(index, data)| Io::Write { offset: index as u64 * 8192, data })
        .collect();
    device.run(&mut batch).expect("a large batch of writes succeeds");
    let mut found = vec![vec![0; 4096]; REQUESTS as usize];
    let last = pattern(7, 4096);
    let mut batch: Vec<_> = found
        .iter_mut()
        .enumerate()
        .map(|(index, buffer)| Io::Read { offset: index as u64 * 8192, buffer })
        .chain([Io::Write { offset: 4096, data: &last }])
        .collect();
    device.run(&mut batch).expect("a mixed batch succeeds");
    assert!(found == pages, "a batch of reads does not return what a batch of writes wrote");
    assert!(read(device, 4096, 4096) == last);
}

/// Buffers at odd addresses.
fn takes_any_memory(device: &dyn Device) {
    let length = 3 * sector(device) as usize;
    let mut memory = vec![0; 2 * length + 3];
    for shift in 1..3 {
        let data = pattern(8 + shift as u64, length as u64);
        memory[shift..shift + length].copy_from_slice(&data);
        write(device, 2 << 20, &memory[shift..shift + length]);
        let mut others = [pattern(3, 4096), pattern(4, 4096)];
        let (first, second) = others.split_at_mut(1);
        let mut batch = [
            Io::Read { offset: 2 << 20, buffer: &mut memory[length + shift..2 * length + shift] },
            Io::Write { offset: 3 << 20, data: &first[0] },
            Io::Read { offset: 2 << 20, buffer: &mut second[0][..length] },
        ];
        device.run(&mut batch).expect("a batch with odd addresses succeeds");
        assert!(memory[length + shift..2 * length + shift] == data[..]);
        assert!(second[0][..length] == data[..]);
    }
}

/// Random reads and writes against a plain array.
fn agrees_with_an_array(device: &dyn Device) {
    const SPAN: u64 = 1 << 20;
    let sector = sector(device);
    let mut rng = Rng::new(99);
    let mut array = pattern(9, SPAN);
    write(device, 0, &array);
    for round in 0..400 {
        let first = rng.below(SPAN / sector);
        let sectors = 1 + rng.below((SPAN / sector - first).min(24));
        let (from, length) = (first * sector, sectors * sector);
        let range = from as usize..(from + length) as usize;
        match rng.below(8) {
            0..4 => {
                assert!(read(device, from, length) == array[range], "round {round}: {length} bytes at {from}")
            }
            4 => {
                array[range.clone()].fill(0);
                write(device, from, &array[range]);
            }
            5 => {
                array[range.start] ^= 0x55;
                write(device, from, &array[range]);
            }
            6 => device.sync().expect("a sync succeeds"),
            _ => {
                array[range.clone()].copy_from_slice(&pattern(rng.next_u64(), length));
                write(device, from, &array[range]);
            }
        }
    }
    assert!(read(device, 0, SPAN) == array);
}

fn discards_only_the_range(device: &dyn Device) {
    let data = pattern(10, 64 << 10);
    write(device, 0, &data);
    device.discard(16 << 10, 16 << 10).expect("a discard in range succeeds");
    assert!(read(device, 0, 16 << 10) == data[..16 << 10], "a discard reached before its range");
    assert!(read(device, 32 << 10, 32 << 10) == data[32 << 10..], "a discard reached past its range");
    read(device, 16 << 10, 16 << 10);
    write(device, 16 << 10, &data[16 << 10..32 << 10]);
    assert!(read(device, 0, 64 << 10) == data, "a discarded range cannot be written again");
    device.discard(0, 0).expect("an empty discard succeeds");
}

fn counts(device: &dyn Device) {
    let before = device.counters();
    let data = pattern(11, 8192);
    write(device, 0, &data);
    read(device, 0, 4096);
    read(device, 4096, 4096);
    device.sync().expect("a sync succeeds");
    let after = device.counters();
    assert_eq!(after.writes - before.writes, 1);
    assert_eq!(after.written_bytes - before.written_bytes, 8192);
    assert_eq!(after.reads - before.reads, 2);
    assert_eq!(after.read_bytes - before.read_bytes, 8192);
    assert_eq!(after.syncs - before.syncs, 1);
    assert!(after.busy >= before.busy);
}

fn serves_many_tasks(device: &Arc<dyn Device>) {
    let tasks: Vec<_> = (0..8u64)
        .map(|task| {
            let device = device.clone();
            spawn("conformance", move || {
                let (span, mut rng) = (256 << 10, Rng::new(task));
                let base = task * span;
                let mut expected = pattern(task, span);
                write(device.as_ref(), base, &expected);
                for _ in 0..60 {
                    let page = rng.below(span / 4096) as usize * 4096;
                    let data = pattern(rng.next_u64(), 4096);
                    write(device.as_ref(), base + page as u64, &data);
                    expected[page..page + 4096].copy_from_slice(&data);
                    let page = rng.below(span / 4096) as usize * 4096;
                    assert!(
                        read(device.as_ref(), base + page as u64, 4096) == expected[page..page + 4096],
                        "task {task} reads what another one wrote, or lost a write"
                    );
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
}

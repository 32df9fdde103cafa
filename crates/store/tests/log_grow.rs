//! A log that is full opens again on a larger device, which it then uses.

mod support;

use entresol_device::{Device, Fault, MemoryDevice, Survival};
use entresol_runtime::sim::Outcome;
use entresol_store::{LogReport, StoreError, examine_log};
use support::devices::Devices;
use support::{ledger, simulate};

const DISK_BYTES: u64 = 24 << 20;
const AREA: u64 = 1 << 20;
const LOG_BYTES: u64 = AREA + 8192;

/// What `device` holds, on a larger one.
fn larger(device: &MemoryDevice, bytes: u64) -> MemoryDevice {
    let larger = MemoryDevice::new("log", bytes);
    let mut content = vec![0; device.geometry().capacity_bytes as usize];
    device.read(0, &mut content).unwrap();
    larger.write(0, &content).unwrap();
    larger
}

/// A store whose log has become full, after a crash, and its rows. The log wraps if `wraps`.
fn full(wraps: bool) -> (MemoryDevice, MemoryDevice, u32) {
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    let rows = simulate(1, || {
        let store = ledger::create(devices.disk.clone(), devices.log.clone()).unwrap();
        let rows = if wraps { 1200 } else { 50 };
        ledger::commit(&store, rows).unwrap();
        store.checkpoint().unwrap();
        let mut holder = store.begin();
        let table = store.table("ledger").unwrap().unwrap();
        holder.update(table, &0u32.to_be_bytes(), &[99; 300]).unwrap();
        let mut number = 0;
        let full = loop {
            number += 1;
            if let Err(error) = store.create_table(&format!("table {number}")) {
                break error;
            }
        };
        assert!(matches!(full, StoreError::LogFull { .. }), "{full}");
        rows
    })
    .unwrap();
    let devices = devices.after_crash(&Survival::None);
    let survivor = |device: &entresol_device::FaultyDevice| device.after_crash(&Survival::None);
    (survivor(&devices.disk.device), survivor(&devices.log.device), rows)
}

fn check(devices: &Devices, rows: u32, more: u32) {
    simulate(2, || {
        let store = ledger::open(devices.disk.clone(), devices.log.clone()).unwrap();
        store.verify().unwrap();
        assert_eq!(ledger::count(&store).unwrap(), rows);
        assert!(store.tables().unwrap().len() > 50);
        ledger::commit(&store, more).unwrap();
    })
    .unwrap();
}

fn report(devices: &Devices) -> LogReport {
    simulate(3, || examine_log(&*devices.log).unwrap()).unwrap()
}

#[test]
fn a_full_log_opens_on_a_larger_device_and_goes_on() {
    for wraps in [false, true] {
        let (disk, log, mut rows) = full(wraps);
        let sizes = [2 * AREA, 4 * AREA + 512, 4 * AREA + 512, 16 * AREA];
        let (mut disk, mut log) = (disk, log);
        for area in sizes {
            let devices = Devices::over(disk, larger(&log, area.next_multiple_of(4096) + 8192));
            // Enough to go around the area several times.
            check(&devices, rows, rows + 3000);
            rows += 3000;
            assert_eq!(report(&devices).area, area.next_multiple_of(4096));
            (disk, log) = (
                devices.disk.device.after_crash(&Survival::None),
                devices.log.device.after_crash(&Survival::None),
            );
        }
        check(&Devices::over(disk, log), rows, rows + 100);
    }
}

/// Power fails at each operation of the log in the restart that moves it, and then at another one of the
/// restart after.
#[test]
fn a_move_that_was_cut_off_is_done_again() {
    let (disk, log, rows) = full(true);
    let (mut halted, mut at) = (0, 0);
    loop {
        let mut reached = 0;
        for seed in 0..4 {
            let mut devices = Devices::over(disk.fork("disk"), larger(&log, 2 * AREA + 8192));
            for ahead in [at + 1, at / (seed + 2) + 1] {
                devices.inject_at(ahead, Some("log"), Fault::Crash, false);
                let cut = simulate(at, || {
                    drop(ledger::open(devices.disk.clone(), devices.log.clone()).unwrap());
                });
                let was_cut = matches!(cut, Outcome::Halted);
                halted += u32::from(was_cut);
                if was_cut && ahead == at + 1 {
                    reached = devices.plan.operations();
                }
                devices = devices.after_crash(&Survival::Seed(at * 8 + seed));
            }
            check(&devices, rows, rows + 20);
            assert_eq!(report(&devices).area, 2 * AREA);
            check(&devices.after_crash(&Survival::Seed(seed)), rows + 20, rows + 21);
        }
        if reached == 0 {
            break;
        }
        at = reached;
    }
    assert!(halted > 100, "{halted}");
}

#[test]
fn a_device_that_is_a_little_larger_is_used_once_it_suffices() {
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    simulate(1, || {
        let store = ledger::create(devices.disk.clone(), devices.log.clone()).unwrap();
        ledger::commit(&store, 100).unwrap();
    })
    .unwrap();
    let log = devices.log.device.after_crash(&Survival::None);
    let devices =
        Devices::over(devices.disk.device.after_crash(&Survival::None), larger(&log, LOG_BYTES + 8192));
    for area in [AREA, AREA + 8192] {
        simulate(1, || {
            let store = ledger::open(devices.disk.clone(), devices.log.clone()).unwrap();
            assert_eq!(ledger::count(&store).unwrap(), 100);
            store.shutdown().unwrap();
        })
        .unwrap();
        assert_eq!(report(&devices).area, area);
    }
}

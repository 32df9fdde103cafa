//! Disks and logs in every combination: each is opened with all its rows, or refused with a sentence that
//! says what to do. Before the log and the disk named each other, 21 of these combinations opened silently
//! with wrong rows.

mod support;

use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::DiskLayer;
use entresol_runtime::sim::Outcome;
use entresol_store::{Parts, Store, StoreError};
use std::sync::Arc;
use support::devices::Devices;
use support::shaped::Shaped;
use support::{ledger, simulate};

const DISK_BYTES: u64 = 8 << 20;
const LOG_BYTES: u64 = (1 << 20) + 8192;

/// What a disk or a log device holds: a name, and the rows of its database, if it is of the database at all.
struct DeviceCopy {
    name: &'static str,
    state: Option<u32>,
    memory: MemoryDevice,
    /// Offsets of unreadable sectors.
    unreadable: Vec<u64>,
}

fn copy(name: &'static str, state: Option<u32>, memory: &MemoryDevice) -> DeviceCopy {
    DeviceCopy { name, state, memory: memory.fork(name), unreadable: Vec::new() }
}

/// A copy with changed bytes.
fn damaged(name: &'static str, state: Option<u32>, of: &MemoryDevice, offsets: &[u64]) -> DeviceCopy {
    let damaged = copy(name, state, of);
    for offset in offsets {
        let mut sector = [0; 512];
        damaged.memory.read(*offset, &mut sector).unwrap();
        sector[100] ^= 1;
        sector[20] ^= 4;
        damaged.memory.write(*offset, &sector).unwrap();
    }
    damaged
}

fn unreadable(name: &'static str, state: Option<u32>, of: &MemoryDevice, offsets: &[u64]) -> DeviceCopy {
    DeviceCopy { unreadable: offsets.to_vec(), ..copy(name, state, of) }
}

/// Disk and log after `rows` commits in one session more, and a crash.
fn session(devices: &Devices, rows: u32, new: bool) -> (MemoryDevice, MemoryDevice) {
    simulate(rows.into(), || {
        let store = match new {
            true => ledger::create(devices.disk.clone(), devices.log.clone()).unwrap(),
            false => ledger::open(devices.disk.clone(), devices.log.clone()).unwrap(),
        };
        ledger::commit(&store, rows).unwrap();
        // Some sessions end with a checkpoint, others with rows that are in the log alone.
        if rows.is_multiple_of(4) {
            store.checkpoint().unwrap();
        }
    })
    .unwrap();
    let survivor = |device: &FaultyDevice| device.after_crash(&Survival::None);
    (survivor(&devices.disk.device), survivor(&devices.log.device))
}

fn devices_of((disk, log): &(MemoryDevice, MemoryDevice)) -> Devices {
    Devices::over(disk.fork("disk"), log.fork("log"))
}

/// Opens a combination: its rows, or why not.
fn opened(disk: &DeviceCopy, log: &DeviceCopy) -> Result<u32, String> {
    let device = |copy: &DeviceCopy| {
        let faulty = FaultyDevice::new("device", copy.memory.fork("device"), Arc::new(FaultPlan::none()));
        let shaped = Shaped::new(Arc::new(faulty), 512, 512);
        copy.unreadable.iter().for_each(|offset| shaped.make_unreadable(*offset));
        shaped
    };
    let (disk, log) = (device(disk), device(log));
    simulate(1, move || {
        let store = ledger::open(disk, log).map_err(|error| error.to_string())?;
        store.verify().map_err(|error| error.to_string())?;
        let rows = ledger::count(&store).map_err(|error| error.to_string())?;
        ledger::commit(&store, rows + 3).map_err(|error| error.to_string())?;
        Ok(rows)
    })
    .unwrap()
}

#[test]
fn each_combination_is_opened_rightly_or_refused() {
    let oldest = session(&Devices::blank(DISK_BYTES, LOG_BYTES), 10, true);
    let older = session(&devices_of(&oldest), 20, false);
    let yesterday = session(&devices_of(&older), 41, false);
    let today = session(&devices_of(&yesterday), 52, false);
    // A copy of yesterday's that was opened, too.
    let branch = session(&devices_of(&yesterday), 55, false);
    let other = session(&Devices::blank(DISK_BYTES, LOG_BYTES), 33, true);
    let disks = [
        copy("today's", Some(52), &today.0),
        copy("yesterday's", Some(41), &yesterday.0),
        copy("an older", Some(20), &older.0),
        copy("the first", Some(10), &oldest.0),
        copy("a branch's", Some(55), &branch.0),
        copy("another's", Some(33), &other.0),
        copy("a blank", None, &MemoryDevice::new("blank", DISK_BYTES)),
        damaged("one label damaged", Some(52), &today.0, &[0]),
        damaged("other label damaged", Some(52), &today.0, &[32768]),
        damaged("both labels damaged", None, &today.0, &[0, 32768]),
    ];
    let logs = [
        copy("today's", Some(52), &today.1),
        copy("yesterday's", Some(41), &yesterday.1),
        copy("an older", Some(20), &older.1),
        copy("the first", Some(10), &oldest.1),
        copy("a branch's", Some(55), &branch.1),
        copy("another's", Some(33), &other.1),
        copy("a blank", None, &MemoryDevice::new("blank", LOG_BYTES)),
        damaged("one block damaged", Some(52), &today.1, &[0]),
        damaged("other block damaged", Some(52), &today.1, &[4096]),
        damaged("both blocks damaged", None, &today.1, &[0, 4096]),
        unreadable("one block unreadable", Some(52), &today.1, &[0]),
        unreadable("other block unreadable", Some(52), &today.1, &[4096]),
        unreadable("both blocks unreadable", None, &today.1, &[0, 4096]),
    ];
    let mut good = 0;
    for disk in &disks {
        for log in &logs {
            let which = format!("{} disk, {} log", disk.name, log.name);
            match opened(disk, log) {
                Ok(rows) => {
                    assert!(disk.state == Some(rows) && log.state == Some(rows), "{which}: {rows} rows");
                    good += 1;
                }
                Err(why) => {
                    let is_pair = disk.state.is_some() && disk.state == log.state;
                    assert!(!is_pair, "{which}: {why}");
                    let told = ["give ", "restore ", "create ", "restart ", "is it the right disk"];
                    assert!(told.iter().any(|what| why.contains(what)), "{which}: no advice: {why}");
                }
            }
        }
    }
    assert!(good >= 14, "only {good} combinations open");
}

/// An open is cut off at each of its operations. What is left opens; with the disk or the log of the session
/// before, it opens with all rows or is refused.
#[test]
fn an_open_that_was_cut_off_is_told_from_an_older_disk() {
    let yesterday = session(&Devices::blank(DISK_BYTES, LOG_BYTES), 20, true);
    let mut unfinished = 0;
    for at in 1.. {
        let devices = devices_of(&yesterday);
        devices.inject_at(at, None, Fault::Crash, false);
        let halted = matches!(
            simulate(at, || drop(ledger::open(devices.disk.clone(), devices.log.clone()).unwrap())),
            Outcome::Halted
        );
        if !halted {
            break;
        }
        for survival in [Survival::None, Survival::All] {
            let disk = copy("cut off", Some(20), &devices.disk.device.after_crash(&survival));
            let log = copy("cut off", Some(20), &devices.log.device.after_crash(&survival));
            assert_eq!(opened(&disk, &log), Ok(20), "cut off at {at}, {survival:?}");
            // The open is done again and goes on: what was copied in between does not go with what follows.
            let next = session(&Devices::over(disk.memory.fork("disk"), log.memory.fork("log")), 31, false);
            let (disk_after, log_after) = (copy("next", Some(31), &next.0), copy("next", Some(31), &next.1));
            assert_eq!(opened(&disk_after, &log_after), Ok(31), "cut off at {at}, {survival:?}");
            for (old_disk, new_log) in [(&disk, &log_after), (&copy("old", None, &yesterday.0), &log_after)] {
                let why = opened(old_disk, new_log).expect_err("an older disk is refused");
                assert!(why.contains("the disk is an older state than the log"), "{why}");
            }
            for old_log in [&log, &copy("old", None, &yesterday.1)] {
                let why = opened(&disk_after, old_log).expect_err("an older log is refused");
                assert!(why.contains("the log is an older state than the disk"), "{why}");
            }
            let on_older = opened(&copy("old", Some(20), &yesterday.0), &log);
            unfinished += u32::from(on_older.is_ok());
            assert!(on_older.as_ref().is_ok_and(|rows| *rows == 20) || on_older.is_err(), "{on_older:?}");
        }
    }
    assert!(unfinished > 0);
}

#[test]
fn a_log_of_the_same_disk_from_before_its_database_was_created_anew_is_refused() {
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    let old_log = Arc::new(MemoryDevice::new("old", LOG_BYTES));
    let refused = simulate(1, || {
        let disk: Arc<dyn Device> = devices.disk.clone();
        let layer = DiskLayer::create(disk.clone(), 4096).unwrap();
        Store::create(Parts { layer: layer.clone(), log: old_log.clone() }, ledger::options())
            .unwrap()
            .shutdown()
            .unwrap();
        let layer = DiskLayer::open(disk.clone(), 4096).unwrap();
        let over = entresol_store::Options { overwrite: true, ..ledger::options() };
        Store::create(Parts { layer, log: devices.log.clone() }, over).unwrap().shutdown().unwrap();
        ledger::open(disk, old_log.clone()).err().map(|error| error.to_string())
    })
    .unwrap();
    assert!(refused.as_ref().is_some_and(|why| why.contains("now goes with log")), "{refused:?}");
}

#[test]
fn a_new_store_overwrites_only_what_it_may() {
    let (disk, log) = session(&Devices::blank(DISK_BYTES, LOG_BYTES), 10, true);
    let scribbled = MemoryDevice::new("scribbled", LOG_BYTES);
    scribbled.write(512 * 1024, &[1; 512]).unwrap();
    drop(disk);
    for (held, memory) in
        [("of another database", &log), ("something unknown (at offset 524288)", &scribbled)]
    {
        let memory = Arc::new(memory.fork("log"));
        simulate(1, || {
            let new = |overwrite| {
                let layer = DiskLayer::create(Arc::new(MemoryDevice::new("new", DISK_BYTES)), 4096).unwrap();
                let options = entresol_store::Options { overwrite, ..ledger::options() };
                Store::create(Parts { layer, log: memory.clone() }, options)
            };
            let before = contents(&memory);
            match new(false) {
                Err(StoreError::Config(why)) => assert!(why.contains(held), "{why}"),
                other => panic!("{:?}", other.err()),
            }
            assert!(contents(&memory) == before, "the refused device was written to");
            new(true).unwrap().shutdown().unwrap();
        })
        .unwrap();
    }
}

fn contents(device: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

//! A damaged log is refused, or the damage is harmless: no damage makes a shorter database of it.

mod support;

use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::DiskLayer;
use entresol_store::{Lock, Parts, Store, StoreError, examine_log};
use std::sync::Arc;
use support::devices::Devices;
use support::shaped::Shaped;
use support::{Rng, ledger, simulate};

const DISK_BYTES: u64 = 8 << 20;
const LOG_BYTES: u64 = (2 << 20) + 8192;
const LOG_START: u64 = 8192;
const ROWS: u32 = 60;
const UNREADABLE: &str = "an unreadable sector";

/// A database after a crash, its log since the checkpoint, and where the last commit's flush begins.
struct Crashed {
    disk: MemoryDevice,
    log: MemoryDevice,
    needed: std::ops::Range<u64>,
    last_flush: u64,
}

fn crashed() -> Crashed {
    crashed_on(512)
}

fn crashed_on(sector_bytes: u32) -> Crashed {
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    let (needed, last_flush) = simulate(1, || {
        let log = Shaped::new(devices.log.clone(), sector_bytes, sector_bytes);
        let store = ledger::create(devices.disk.clone(), log).unwrap();
        ledger::commit(&store, 10).unwrap();
        store.checkpoint().unwrap();
        ledger::commit(&store, ROWS - 1).unwrap();
        let last_flush = store.log_needed().end.0;
        ledger::commit(&store, ROWS).unwrap();
        (store.log_needed(), last_flush)
    })
    .unwrap();
    let survivor = |device: &FaultyDevice| device.after_crash(&Survival::None);
    let (disk, log) = (survivor(&devices.disk.device), survivor(&devices.log.device));
    Crashed { disk, log, needed: needed.start.0..needed.end.0, last_flush }
}

fn faulty(memory: &MemoryDevice) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new("device", memory.fork("device"), Arc::new(FaultPlan::none())))
}

fn rows(disk: &MemoryDevice, log: Arc<dyn Device>) -> Result<u32, StoreError> {
    let disk = faulty(disk);
    simulate(1, || {
        let store = ledger::open(disk.clone(), log)?;
        let rows = ledger::count(&store)?;
        ledger::commit(&store, rows + 1)?;
        store.verify()?;
        Ok(rows)
    })
    .unwrap()
}

impl Crashed {
    /// Judges what became of a log that was damaged at `lsn`; says whether it was refused.
    fn judge(&self, lsn: u64, how: &str, log: Arc<dyn Device>) -> bool {
        let examined = examine_log(&*log).map(|report| report.end.0);
        match rows(&self.disk, log) {
            Ok(rows) => {
                let least = if lsn < self.last_flush { ROWS } else { ROWS - 1 };
                assert!((least..=ROWS).contains(&rows), "{how} at LSN {lsn}: {rows} of {ROWS} rows");
                assert!(examined.is_ok(), "{how} at LSN {lsn}: {examined:?}");
                false
            }
            Err(error @ StoreError::Corrupt { .. }) => {
                let told = error.to_string();
                assert!(told.contains("LSN") && told.contains("restore it from a backup"), "{told}");
                assert!(examined.is_err(), "{how} at LSN {lsn}: examined, and then: {told}");
                true
            }
            // The checkpoint's record: there is nothing to begin with.
            Err(StoreError::Log(_)) if how == UNREADABLE => true,
            Err(error) => panic!("{how} at LSN {lsn}: {error}"),
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_log_is_refused_or_harmless() {
    let crashed = crashed();
    let mut rng = Rng(5);
    let (mut refused, mut tried) = (0, 0);
    for sector in (crashed.needed.start / 512 * 512..crashed.needed.end).step_by(512) {
        for bit in [rng.below(4096), rng.below(4096), rng.below(64)] {
            let log = faulty(&crashed.log);
            log.flip_bit((LOG_START + sector) * 8 + bit);
            refused += u32::from(crashed.judge(sector, "a flipped bit", log));
            tried += 1;
        }
    }
    assert!(refused * 2 > tried, "{refused} of {tried} refused");
}

/// What is left of the sector may look like padding.
#[test]
fn a_piece_of_a_sector_that_turned_to_zeros_is_refused_or_harmless() {
    for sector_bytes in [512, 4096] {
        let crashed = crashed_on(sector_bytes);
        let (mut refused, mut tried) = (0, 0);
        for piece in (crashed.needed.start / 512 * 512..crashed.last_flush).step_by(512) {
            let log = faulty(&crashed.log);
            let mut before = [0; 512];
            log.read(LOG_START + piece, &mut before).unwrap();
            log.write(LOG_START + piece, &[0; 512]).unwrap();
            let was_refused = crashed.judge(piece, "zeros", log);
            let held_records = before.iter().any(|byte| *byte != before[511]);
            // In padding, too: nobody can tell that nothing was there.
            assert!(was_refused || !held_records, "sectors of {sector_bytes}, at LSN {piece}");
            refused += u32::from(was_refused);
            tried += 1;
        }
        assert!(refused > 50, "{refused} of {tried} refused");
    }
}

#[test]
fn an_unreadable_sector_of_the_log_is_refused_or_its_end() {
    let crashed = crashed();
    let (mut refused, mut noticed) = (0, 0);
    let behind = crashed.needed.end + 4096;
    for sector in (crashed.needed.start / 512 * 512..behind).step_by(512) {
        let log = Shaped::new(faulty(&crashed.log), 512, 512);
        log.make_unreadable(LOG_START + sector);
        let was_refused = crashed.judge(sector, UNREADABLE, log.clone());
        if !was_refused && sector < crashed.needed.end.next_multiple_of(512) {
            assert!(notice(&crashed.disk, &crashed.log, sector).is_some(), "at LSN {sector}");
            noticed += 1;
        }
        assert_eq!(was_refused, sector < crashed.last_flush, "at LSN {sector}");
        refused += u32::from(was_refused);
        if sector >= crashed.needed.end {
            // Behind the last record: written again, and readable since.
            assert_eq!(rows(&crashed.disk, Shaped::new(faulty(&crashed.log), 512, 512)).unwrap(), ROWS);
        }
    }
    assert!(refused > 50 && noticed > 0, "{refused} refused, {noticed} noticed");
}

/// What a restart says whose log has an unreadable sector at `lsn`.
fn notice(disk: &MemoryDevice, log: &MemoryDevice, lsn: u64) -> Option<String> {
    let log = Shaped::new(faulty(log), 512, 512);
    log.make_unreadable(LOG_START + lsn);
    let opened = simulate(1, || {
        let layer = DiskLayer::open(faulty(disk), 4096).unwrap();
        Store::open(Parts { layer, log }, ledger::options()).unwrap().1
    });
    opened.unwrap().notice()
}

#[test]
fn an_unreadable_block_of_the_master_record_stops_nobody() {
    let crashed = crashed();
    for block in [0, 4096] {
        let log = Shaped::new(faulty(&crashed.log), 512, 512);
        log.make_unreadable(block);
        let found = rows(&crashed.disk, log).unwrap_or_else(|error| panic!("block at {block}: {error}"));
        assert_eq!(found, ROWS, "block at {block}");
    }
}

/// The log device fails to read once, or from some read on, and works again after the next power failure.
#[test]
fn a_log_device_that_fails_to_read_for_a_while_loses_nothing() {
    let crashed = crashed();
    for forever in [false, true] {
        let mut failed = 0;
        for at in 1.. {
            let devices = Devices::over(crashed.disk.fork("disk"), crashed.log.fork("log"));
            devices.inject_at(at, Some("log"), Fault::ReadError, forever);
            let opened = simulate(at, || {
                ledger::open(devices.disk.clone(), devices.log.clone()).map(|store| drop(store.shutdown()))
            })
            .unwrap();
            if let Err(error) = opened {
                assert!(matches!(error, StoreError::Log(_)), "read {at}: {error}");
                failed += 1;
            }
            if devices.plan.struck() == 0 {
                break;
            }
            for survival in [Survival::None, Survival::All] {
                let devices = devices.after_crash(&survival);
                let disk = devices.disk.device.after_crash(&Survival::None);
                assert_eq!(rows(&disk, devices.log.clone()).unwrap(), ROWS, "read {at}, {survival:?}");
            }
        }
        assert_eq!(failed > 3, forever, "{failed} opens failed");
    }
}

/// A write of the log that the device acknowledges and loses, sends elsewhere or carries out twice.
#[test]
fn a_write_of_the_log_that_goes_wrong_silently_is_refused_or_harmless() {
    let (mut refused, mut struck) = (0, 0);
    for fault in [Fault::LostWrite, Fault::MisdirectedWrite, Fault::DuplicatedWrite] {
        for at in 1..120 {
            let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
            let (committed, last) = simulate(at, || {
                let store = ledger::create(devices.disk.clone(), devices.log.clone()).unwrap();
                ledger::commit(&store, 10).unwrap();
                store.checkpoint().unwrap();
                devices.inject_at(at, Some("log"), fault, false);
                let (mut committed, mut last) = (10, 10);
                while committed < 40 && ledger::commit(&store, committed + 1).is_ok() {
                    committed += 1;
                    if devices.plan.struck() == 0 {
                        last = committed;
                    }
                }
                (committed, last)
            })
            .unwrap();
            if devices.plan.struck() == 0 {
                continue;
            }
            struck += 1;
            let devices = devices.after_crash(&Survival::None);
            match rows(&devices.disk.device.after_crash(&Survival::None), devices.log.clone()) {
                // If the very last flush was lost, nothing can tell.
                Ok(rows) => assert!(
                    rows == committed || last + 1 == committed && rows == last,
                    "{fault:?} at {at}: {rows} of {committed} rows"
                ),
                Err(StoreError::Corrupt { .. }) => refused += 1,
                Err(error) => panic!("{fault:?} at {at}: {error}"),
            }
        }
    }
    assert!(refused > 20 && struck > 60, "{refused} of {struck} refused");
}

/// A log that lost its newest part within one session: the disk's pages tell.
#[test]
fn a_page_from_beyond_the_end_of_the_log_is_refused() {
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    let log = simulate(1, || {
        let store = ledger::create(devices.disk.clone(), devices.log.clone()).unwrap();
        ledger::commit(&store, 20).unwrap();
        store.checkpoint().unwrap();
        let log = devices.log.device.after_crash(&Survival::None);
        ledger::commit(&store, 60).unwrap();
        store.checkpoint().unwrap();
        log
    })
    .unwrap();
    let disk = devices.disk.device.after_crash(&Survival::None);
    let why = rows(&disk, faulty(&log)).unwrap_err().to_string();
    assert!(why.contains("the log has lost its end, or is not the one of this disk"), "{why}");
}

/// The same, if no page of the lost part is met before the log has grown past it.
#[test]
fn a_page_from_beyond_the_end_is_refused_after_the_log_has_grown_past_it() {
    const KEY: [u8; 4] = [0xff; 4];
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    let log = simulate(1, || {
        let store = ledger::create(devices.disk.clone(), devices.log.clone()).unwrap();
        let table = store.create_table("far").unwrap();
        let put = |value: u8| {
            let mut txn = store.begin();
            match value {
                1 => txn.insert(table, &KEY, &[value; 100]).unwrap(),
                _ => assert!(txn.update(table, &KEY, &[value; 100]).unwrap()),
            }
            txn.commit().unwrap();
            store.checkpoint().unwrap();
        };
        put(1);
        let log = devices.log.device.after_crash(&Survival::None);
        put(2);
        log
    })
    .unwrap();
    let disk = faulty(&devices.disk.device.after_crash(&Survival::None));
    simulate(1, || {
        let store = ledger::open(disk, faulty(&log)).unwrap();
        // All frames are used anew, and these pages are this session's own.
        for rows in [300, 600] {
            ledger::commit(&store, rows).unwrap();
            assert_eq!(ledger::count(&store).unwrap(), rows);
        }
        let far = store.table("far").unwrap().unwrap();
        let read = store.begin().get(far, &KEY, Lock::None, &mut Vec::new());
        let Err(StoreError::Corrupt { expected, found, .. }) = read else {
            panic!("what is in no log was served: {read:?}")
        };
        assert!(found.contains("the log has lost its end"), "{expected}, {found}");
    })
    .unwrap();
}

#[test]
fn a_master_record_that_the_device_loses_is_written_again_or_refused() {
    let devices = Devices::blank(DISK_BYTES, LOG_BYTES);
    simulate(1, || {
        let store = ledger::create(devices.disk.clone(), devices.log.clone()).unwrap();
        let mut struck = 0;
        for at in 1..40 {
            ledger::commit(&store, at).unwrap();
            devices.inject_at(u64::from(at), Some("log"), Fault::LostWrite, false);
            store.checkpoint().unwrap();
            store.checkpoint().unwrap();
            struck += u32::from(devices.plan.struck() > 0);
        }
        assert!(struck > 0);
        devices.inject(Some("log"), Fault::LostWrite, true);
        let why = store.checkpoint().unwrap_err().to_string();
        assert!(why.contains("write of the master record"), "{why}");
    })
    .unwrap();
}

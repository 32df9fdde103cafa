//! Devices that fail without a crash: what clients see, what stays usable, and what a restart finds.

mod support;

use entresol_device::{Fault, Survival};
use entresol_engine::DiskLayer;
use entresol_runtime::sim::Outcome;
use entresol_runtime::spawn;
use entresol_store::{Direction, Lock, Options, Parts, Store, StoreError, Table};
use std::sync::atomic::Ordering::SeqCst;
use support::devices::Devices;
use support::{Kind, World, simulate};

const ROWS: u32 = 4000;

fn options() -> Options {
    Options { frames: 64, ..Options::default() }
}

/// A table of several times the pool.
fn load(store: &Store) -> Table {
    let table = store.create_table("t").unwrap();
    let mut row = 0u32;
    store
        .bulk_load(table, 0.9, &mut |key, value| {
            key.extend_from_slice(&row.to_be_bytes());
            value.extend_from_slice(&[row as u8; 200]);
            row += 1;
            row <= ROWS
        })
        .unwrap();
    table
}

fn read_all(store: &Store, table: Table) -> Result<u32, StoreError> {
    let mut count = 0;
    let mut txn = store.begin();
    txn.scan(table, &[], &[0xff], Direction::Forward, Lock::None, &mut |_, value| {
        assert_eq!(value.len(), 200);
        count += 1;
        true
    })?;
    txn.commit()?;
    Ok(count)
}

#[test]
fn a_failed_read_fails_its_readers_and_nobody_else() {
    simulate(1, || {
        let devices = Devices::blank(64 << 20, 8 << 20);
        let store = devices.create(options());
        let table = load(&store);
        for _ in 0..20 {
            devices.inject(Some("disk"), Fault::ReadError, false);
            // Several clients want the same pages.
            let readers: Vec<_> = (0..8)
                .map(|_| {
                    let store = store.clone();
                    spawn("reader", move || match read_all(&store, table) {
                        Ok(count) => assert_eq!(count, ROWS),
                        Err(StoreError::Layer(_)) => {}
                        Err(error) => panic!("{error}"),
                    })
                })
                .collect();
            readers.into_iter().for_each(|reader| reader.join());
        }
        assert_eq!(devices.plan.struck(), 20);
        // No frame is lost: all of the pool can still be used.
        assert_eq!(read_all(&store, table).unwrap(), ROWS);
        store.verify().unwrap();
    })
    .unwrap();
}

#[test]
fn a_failed_read_in_the_middle_of_a_split_leaves_no_trace() {
    let world = World::new(Kind::Flash, 64 << 20, 2000);
    simulate(8, || {
        let store = Store::create(world.parts(), options()).unwrap();
        let table = load(&store);
        let (mut failures, mut rows) = (0, ROWS);
        for step in 0..6000u32 {
            world.layer.failing_fetch.store(3, SeqCst);
            // Full leaves in random places, each with cold neighbours.
            let row = step.wrapping_mul(2_654_435_761) % ROWS;
            let mut txn = store.begin();
            let key = [row.to_be_bytes().as_slice(), &step.to_be_bytes()].concat();
            let inserted = txn.insert(table, &key, &[row as u8; 200]);
            world.layer.failing_fetch.store(0, SeqCst);
            match inserted {
                Ok(()) => {
                    txn.commit().unwrap();
                    rows += 1;
                }
                Err(StoreError::Layer(_)) => {
                    failures += 1;
                    txn.abort().unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(failures > 1000, "only {failures} inserts failed");
        assert_eq!(read_all(&store, table).unwrap(), rows);
        assert_eq!(store.verify().unwrap().rows, u64::from(rows));
    })
    .unwrap();
}

#[test]
fn after_a_failed_log_sync_no_commit_succeeds_until_a_restart() {
    let devices = Devices::blank(64 << 20, 8 << 20);
    let table = simulate(2, || {
        let store = devices.create(options());
        let table = load(&store);
        let mut txn = store.begin();
        txn.update(table, &1u32.to_be_bytes(), &[1; 200]).unwrap();
        txn.commit().unwrap();
        devices.inject(Some("log"), Fault::SyncErrorLosingWrites, false);
        let mut txn = store.begin();
        txn.update(table, &1u32.to_be_bytes(), &[2; 200]).unwrap();
        assert!(matches!(txn.commit(), Err(StoreError::Log(_))));
        // The device works again, but the log has a hole: nothing may become durable behind it.
        let mut txn = store.begin();
        txn.update(table, &2u32.to_be_bytes(), &[3; 200]).unwrap();
        assert!(matches!(txn.commit(), Err(StoreError::Log(_))));
        assert!(store.checkpoint().is_err());
        table
    })
    .unwrap();
    let devices = devices.after_crash(&Survival::None);
    simulate(3, || {
        let store = devices.open(options()).unwrap();
        let (mut txn, mut value) = (store.begin(), Vec::new());
        for (row, expected) in [(1u32, 1), (2, 2)] {
            assert!(txn.get(table, &row.to_be_bytes(), Lock::Shared, &mut value).unwrap());
            assert_eq!(value, [expected; 200]);
        }
        txn.commit().unwrap();
        assert_eq!(read_all(&store, table).unwrap(), ROWS);
    })
    .unwrap();
}

/// A commit and a checkpoint use the log device at the same time; the sync that fails loses what both have
/// written, and the next one succeeds.
#[test]
fn what_one_failed_sync_of_the_log_has_lost_is_acknowledged_to_nobody() {
    for seed in 0..100 {
        let devices = Devices::blank(8 << 20, 2 << 20);
        let (table, acknowledged) = simulate(seed, || {
            let store = devices.create(options());
            let table = store.create_table("t").unwrap();
            let fault = Fault::SyncErrorLosingWrites;
            devices.inject_at(1 + seed, Some("log"), fault, false);
            let checkpoints = {
                let store = store.clone();
                spawn("checkpoints", move || while store.checkpoint().is_ok() {})
            };
            let commit = |row: u32| {
                let mut txn = store.begin();
                txn.insert(table, &row.to_be_bytes(), b"value")?;
                txn.commit()
            };
            let acknowledged = (0..).find(|row| commit(*row).is_err()).unwrap();
            checkpoints.join();
            (table, acknowledged)
        })
        .unwrap();
        assert_eq!(devices.plan.struck(), 1);
        let devices = devices.after_crash(&Survival::None);
        simulate(seed, || {
            let store = devices.open(options()).unwrap();
            let (mut txn, mut value) = (store.begin(), Vec::new());
            let lost = (0..acknowledged)
                .find(|row| !txn.get(table, &row.to_be_bytes(), Lock::None, &mut value).unwrap());
            assert_eq!(lost, None, "seed {seed}: {acknowledged} rows were committed");
        })
        .unwrap();
    }
}

#[test]
fn a_failed_write_of_a_page_is_reported_and_a_restart_loses_nothing() {
    let devices = Devices::blank(64 << 20, 8 << 20);
    let (table, committed) = simulate(4, || {
        let store = devices.create(options());
        let table = load(&store);
        // All rows of a transaction get its number.
        for round in 0..200u8 {
            if round == 5 {
                devices.inject(Some("disk"), Fault::WriteError, false);
            }
            let mut txn = store.begin();
            for row in (0..ROWS).step_by(40) {
                match txn.update(table, &row.to_be_bytes(), &[round; 200]) {
                    Ok(found) => assert!(found),
                    Err(StoreError::Layer(_)) => return (table, round - 1),
                    Err(error) => panic!("{error}"),
                }
            }
            txn.commit().unwrap();
        }
        panic!("no client was told");
    })
    .unwrap();
    let devices = devices.after_crash(&Survival::None);
    simulate(5, || {
        let store = devices.open(options()).unwrap();
        let (mut txn, mut value) = (store.begin(), Vec::new());
        for row in (0..ROWS).step_by(40) {
            assert!(txn.get(table, &row.to_be_bytes(), Lock::Shared, &mut value).unwrap());
            assert_eq!(value, [committed; 200]);
        }
        txn.commit().unwrap();
        assert_eq!(read_all(&store, table).unwrap(), ROWS);
        store.verify().unwrap();
    })
    .unwrap();
}

#[test]
fn a_transaction_too_long_for_the_log_is_told_so_and_can_be_undone() {
    let devices = Devices::blank(64 << 20, 8 << 20);
    simulate(5, || {
        let store = devices.create(options());
        let table = load(&store);
        let mut long = store.begin();
        let refused = (0..200_000u32).find_map(|step| {
            long.update(table, &(step % ROWS).to_be_bytes(), &[step as u8 ^ 0x55; 200]).err()
        });
        assert!(matches!(refused, Some(StoreError::LogFull { .. })));
        long.abort().unwrap();
        // With the long transaction gone, there is room again.
        for step in 0..40_000u32 {
            let mut txn = store.begin();
            txn.update(table, &(step % ROWS).to_be_bytes(), &[(step % ROWS) as u8; 200]).unwrap();
            txn.commit().unwrap();
        }
        assert!(store.metrics().checkpoints > 2);
    })
    .unwrap();
    let devices = devices.after_crash(&Survival::None);
    simulate(6, || {
        let store = devices.open(options()).unwrap();
        let table = store.table("t").unwrap().unwrap();
        let mut rows = 0u32;
        let mut txn = store.begin();
        txn.scan(table, &[], &[0xff], Direction::Forward, Lock::None, &mut |key, value| {
            assert_eq!(key, rows.to_be_bytes());
            assert_eq!(value, [rows as u8; 200]);
            rows += 1;
            true
        })
        .unwrap();
        assert_eq!(rows, ROWS);
    })
    .unwrap();
}

#[test]
fn what_is_not_a_store_is_refused_with_what_to_do() {
    let devices = Devices::blank(64 << 20, 8 << 20);
    simulate(7, || {
        let layer = DiskLayer::create(devices.disk.clone(), 4096).unwrap();
        let parts = Parts { layer, log: devices.log.clone() };
        let refused = Store::open(parts.clone(), options()).err().unwrap().to_string();
        assert!(refused.contains("create the store first"), "{refused}");
        for options in [
            Options { frames: 63, ..options() },
            Options { page_bytes: 2048, ..options() },
            Options { page_bytes: 5000, ..options() },
        ] {
            assert!(matches!(Store::create(parts.clone(), options), Err(StoreError::Config(_))));
        }
        drop(devices.create(options()));
        let layer = DiskLayer::open(devices.disk.clone(), 4096).unwrap();
        let parts = Parts { layer, log: devices.log.clone() };
        let refused =
            Store::open(parts, Options { page_bytes: 8192, ..options() }).err().unwrap().to_string();
        assert!(refused.contains("4096") && refused.contains("8192"), "{refused}");
    })
    .unwrap();
}

/// The program is killed while the log's last write is not durable yet, though it can be read; the next
/// restart must not bring pages to disk that are ahead of what a power failure leaves of the log.
#[test]
fn what_a_restart_reads_from_the_log_is_durable_before_it_evicts_pages() {
    let mut halted = 0;
    for crash in 1..60 {
        let devices = Devices::blank(8 << 20, 8 << 20);
        let table = simulate(crash, || {
            let layer = DiskLayer::create(devices.disk.clone(), 4096).unwrap();
            let options = Options { frames: 1024, ..Options::default() };
            let store = Store::create(Parts { layer, log: devices.log.clone() }, options).unwrap();
            let table = load(&store);
            store.checkpoint().unwrap();
            let mut txn = store.begin();
            for row in 0..ROWS {
                txn.update(table, &row.to_be_bytes(), &[0; 201]).unwrap();
            }
            devices.inject(Some("log"), Fault::SyncError, false);
            assert!(txn.commit().is_err());
            table
        })
        .unwrap();
        devices.inject_at(crash * 5, None, Fault::Crash, false);
        halted +=
            u32::from(matches!(simulate(crash, || drop(devices.open(options()).unwrap())), Outcome::Halted));
        let devices = Devices::over(
            devices.disk.device.after_crash(&Survival::All),
            devices.log.device.after_crash(&Survival::None),
        );
        simulate(crash, || {
            let store = devices.open(options()).unwrap();
            let mut changed = 0;
            let mut txn = store.begin();
            txn.scan(table, &[], &[0xff], Direction::Forward, Lock::None, &mut |_, value| {
                changed += u32::from(value.len() == 201);
                true
            })
            .unwrap();
            assert!([0, ROWS].contains(&changed), "cut off at {crash}: {changed} of {ROWS} rows");
        })
        .unwrap();
    }
    assert!(halted > 0);
}

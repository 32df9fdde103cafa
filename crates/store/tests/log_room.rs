//! The log never runs so full that what is active could not be rolled back: not in this life, and not in
//! restarts after it, however often these are cut off.

mod support;

use entresol_device::{Fault, Survival};
use entresol_runtime::sim::Outcome;
use entresol_store::{Lock, Options, Store, StoreError, Table, Txn};
use support::devices::Devices;
use support::{Rng, load_zeros, simulate};

/// The smallest log; behind its master record.
const LOG_BYTES: u64 = (1 << 20) + 8192;
const ROWS: u32 = 4000;
/// Rows so far apart that each is in a leaf of its own.
const STEP: u32 = 40;

fn blank() -> Devices {
    Devices::blank(8 << 20, LOG_BYTES)
}

/// A store of [`ROWS`] rows of zeros.
fn create(devices: &Devices) -> (Store, Table) {
    let store = devices.create(options());
    let table = store.create_table("t").unwrap();
    load_zeros(&store, table, ROWS);
    (store, table)
}

/// Opens the store after a crash: all rows must be as loaded but for these.
fn check(devices: &Devices, changed: &[u32]) {
    let devices = devices.after_crash(&Survival::None);
    simulate(9, || {
        let store = devices.open(options()).unwrap();
        let table = store.table("t").unwrap().unwrap();
        store.verify().unwrap();
        let mut txn = store.begin();
        let mut value = Vec::new();
        for row in 0..ROWS {
            assert!(txn.get(table, &row.to_be_bytes(), Lock::None, &mut value).unwrap());
            assert_eq!(value.iter().any(|byte| *byte != 0), changed.contains(&row), "row {row}");
        }
        txn.abort().unwrap();
        // There is room again.
        for row in 0..ROWS {
            let mut txn = store.begin();
            assert!(txn.update(table, &row.to_be_bytes(), &[7; 300]).unwrap());
            txn.commit().unwrap();
        }
    })
    .unwrap();
}

fn options() -> Options {
    Options { frames: 64, ..Options::default() }
}

fn needed(store: &Store) -> u64 {
    let needed = store.log_needed();
    needed.end.0 - needed.start.0
}

#[test]
fn while_a_transaction_holds_the_log_no_checkpoint_fills_it() {
    let devices = blank();
    let committed = simulate(1, || {
        let (store, table) = create(&devices);
        let mut holder = store.begin();
        assert!(holder.update(table, &0u32.to_be_bytes(), &[1; 200]).unwrap());
        let mut committed = Vec::new();
        for row in (1..ROWS).cycle() {
            let mut txn = store.begin();
            match txn.update(table, &row.to_be_bytes(), &[row as u8 | 1; 200]) {
                Ok(found) => assert!(found),
                Err(StoreError::LogFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            txn.commit().unwrap();
            committed.push(row);
        }
        let at_most = needed(&store) + 4096;
        assert!(at_most < LOG_BYTES / 8 * 5);
        for row in 1..3000u32 {
            let mut txn = store.begin();
            let refused = txn.update(table, &row.to_be_bytes(), &[2; 200]).err();
            assert!(matches!(refused, Some(StoreError::LogFull { .. })), "{refused:?}");
            txn.abort().unwrap();
            assert!(matches!(store.checkpoint(), Err(StoreError::LogFull { .. })));
        }
        assert!(needed(&store) < at_most, "{} bytes of log are needed", needed(&store));
        std::mem::forget(holder);
        committed
    })
    .unwrap();
    check(&devices, &committed);
}

/// A transaction that changes one byte of every `step`th row, again and again, as far as the log lets it,
/// with checkpoints that make each leaf need an image once more. Returns how often it has changed something.
fn change_far_and_wide(store: &Store, table: Table, txn: &mut Txn, step: u32) -> u32 {
    for change in 0u32.. {
        let row = change * step % ROWS;
        let mut value = [0; 200];
        value[0] = (change * step / ROWS) as u8 + 1;
        match txn.update(table, &row.to_be_bytes(), &value) {
            Ok(found) => assert!(found),
            Err(StoreError::LogFull { .. }) => return change,
            Err(error) => panic!("{error}"),
        }
        if change % 25 == 0 {
            let _ = store.checkpoint();
        }
    }
    unreachable!("the log is full some time")
}

/// A transaction that changes each leaf just after others have made it need no image, so that its own log is
/// short; then the leaves need images again.
fn change_what_has_images(store: &Store, table: Table, txn: &mut Txn) {
    let change = |txn: &mut Txn, row: u32| txn.update(table, &row.to_be_bytes(), &[9; 200]);
    let leaves: Vec<u32> = (0..ROWS).step_by(20).collect();
    let others = |row: u32| {
        let mut other = store.begin();
        for byte in [1, 0] {
            other.update(table, &(row + 1).to_be_bytes(), &[byte; 200])?;
        }
        other.commit()
    };
    let (first, rest) = leaves.split_at(64);
    first.iter().for_each(|row| assert!(others(*row).is_ok()));
    let mut refused = first.iter().find_map(|row| change(txn, *row).err());
    for some in rest.chunks(10) {
        let _ = store.checkpoint();
        refused = refused.or_else(|| some.iter().find_map(|row| others(*row).and(change(txn, *row)).err()));
    }
    assert!(matches!(refused, Some(StoreError::LogFull { .. })), "{refused:?}");
}

#[test]
fn what_was_changed_far_and_wide_can_be_rolled_back() {
    for crash in [false, true] {
        for way in 0..4 {
            let devices = blank();
            simulate(2, || {
                let (store, table) = create(&devices);
                let mut txn = store.begin();
                match [1, 7, STEP].get(way) {
                    Some(step) => assert!(change_far_and_wide(&store, table, &mut txn, *step) > 50),
                    None => change_what_has_images(&store, table, &mut txn),
                }
                if crash {
                    std::mem::forget(txn);
                } else {
                    txn.abort().unwrap();
                    store.checkpoint().unwrap();
                }
            })
            .unwrap();
            check(&devices, &[]);
        }
    }
}

#[test]
fn restarts_that_are_cut_off_again_and_again_do_not_fill_the_log() {
    let mut rng = Rng(3);
    for step in [1, 7, STEP] {
        let mut devices = blank();
        simulate(3, || {
            let (store, table) = create(&devices);
            let mut txn = store.begin();
            change_far_and_wide(&store, table, &mut txn, step);
            std::mem::forget(txn);
        })
        .unwrap();
        let mut halted = 0;
        loop {
            devices = devices.after_crash(&Survival::All);
            devices.inject_at(1 + rng.below(40 + halted), None, Fault::Crash, false);
            match simulate(3, || devices.open(options()).map(drop)) {
                Outcome::Halted => halted += 1,
                opened => break opened.unwrap().unwrap(),
            }
        }
        assert!(halted > 10, "{halted} restarts were cut off");
        check(&devices, &[]);
    }
}

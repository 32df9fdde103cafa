//! One client: rows, order, rollback, reopening.

mod support;

use entresol_store::{Direction, Lock, Options, Store, StoreError, Table};
use std::collections::BTreeMap;
use std::time::Duration;
use support::bank::Site;
use support::{Kind, Rng, World, plain_store, small};

fn all(store: &Store, table: Table, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut txn = store.begin();
    txn.scan(table, &[], &[0xff; 9], direction, Lock::None, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    rows
}

#[test]
fn rows_come_and_go() {
    let store = plain_store(Options::default());
    let table = store.create_table("t").unwrap();
    assert!(matches!(store.create_table("t"), Err(StoreError::TableExists(_))));
    assert_eq!(store.table("t").unwrap(), Some(table));
    assert_eq!(store.table("u").unwrap(), None);
    let mut value = Vec::new();
    let mut txn = store.begin();
    txn.insert(table, b"a", b"1").unwrap();
    assert!(matches!(txn.insert(table, b"a", b"2"), Err(StoreError::DuplicateKey)));
    assert!(txn.get(table, b"a", Lock::Shared, &mut value).unwrap());
    assert_eq!(value, b"1");
    assert!(txn.update(table, b"a", b"longer").unwrap());
    assert!(!txn.update(table, b"b", b"x").unwrap());
    assert!(!txn.delete(table, b"b").unwrap());
    assert!(matches!(txn.insert(table, b"c", &[0; 2000]), Err(StoreError::RowTooLarge { .. })));
    txn.commit().unwrap();
    let mut txn = store.begin();
    assert!(txn.delete(table, b"a").unwrap());
    assert!(!txn.get(table, b"a", Lock::None, &mut value).unwrap());
    txn.abort().unwrap();
    assert_eq!(all(&store, table, Direction::Forward), [(b"a".to_vec(), b"longer".to_vec())]);
    let metrics = store.metrics();
    // The scan above was dropped without an end: an abort.
    assert_eq!((metrics.commits, metrics.aborts, metrics.log_syncs > 1), (1, 2, true));
}

#[test]
fn behaves_as_an_ordered_map_through_splits_rollbacks_and_restarts() {
    for kind in [Kind::Disk, Kind::Flash] {
        let mut world = World::new(kind, 8 << 20, 1);
        let mut store = Store::create(world.parts(), small()).unwrap();
        let table = store.create_table("t").unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut rng = Rng(kind as u64);
        for round in 0..120 {
            let mut txn = store.begin();
            let mut after = model.clone();
            for _ in 0..rng.below(120) {
                let key = (rng.below(3000) as u32).to_be_bytes().repeat(1 + rng.below(2) as usize * 12);
                let value = vec![rng.next() as u8; rng.below(300) as usize];
                match rng.below(if round / 30 % 2 == 0 { 4 } else { 6 }) {
                    0 | 1 => match txn.insert(table, &key, &value) {
                        Ok(()) => assert_eq!(after.insert(key, value), None),
                        Err(StoreError::DuplicateKey) => assert!(after.contains_key(&key)),
                        Err(error) => panic!("{error}"),
                    },
                    2 => {
                        let found = txn.update(table, &key, &value).unwrap();
                        assert_eq!(found, after.contains_key(&key));
                        if found {
                            after.insert(key, value);
                        }
                    }
                    _ => assert_eq!(txn.delete(table, &key).unwrap(), after.remove(&key).is_some()),
                }
            }
            if rng.below(3) == 0 {
                txn.abort().unwrap();
            } else {
                txn.commit().unwrap();
                model = after;
            }
            if round % 10 == 9 {
                let rows: Vec<_> = model.clone().into_iter().collect();
                assert_eq!(all(&store, table, Direction::Forward), rows);
                assert!(all(&store, table, Direction::Backward).iter().rev().eq(rows.iter()));
                let report = store.verify().unwrap();
                assert_eq!(report.rows, rows.len() as u64);
            }
            if round % 20 == 19 {
                match rng.below(3) {
                    0 => store.shutdown().unwrap(),
                    1 => drop(store.checkpoint().unwrap()),
                    _ => drop(store),
                }
                world = world.after_crash(&mut rng);
                store = Store::open(world.parts(), small()).unwrap().0;
            }
        }
        assert!(model.len() > 300, "the test kept {} rows", model.len());
    }
}

#[test]
fn bulk_load_equals_inserting() {
    let store = plain_store(small());
    for (name, count, fill) in
        [("none", 0u32, 0.9), ("one", 1, 0.5), ("page", 30, 1.0), ("many", 70_000, 0.9)]
    {
        let table = store.create_table(name).unwrap();
        let mut next = 0u32;
        let loaded = store
            .bulk_load(table, fill, &mut |key, value| {
                key.extend_from_slice(&(next * 2).to_be_bytes());
                value.extend_from_slice(&[next as u8; 100]);
                next += 1;
                next <= count
            })
            .unwrap();
        assert_eq!(loaded, u64::from(count));
        let rows = all(&store, table, Direction::Forward);
        assert_eq!(rows.len(), count as usize);
        assert!(rows.iter().enumerate().all(|(i, (key, _))| *key == (i as u32 * 2).to_be_bytes()));
        store.verify().unwrap();
        let mut txn = store.begin();
        for odd in [1u32, 7, 60_001, 140_001] {
            txn.insert(table, &odd.to_be_bytes(), b"new").unwrap();
        }
        txn.commit().unwrap();
        store.verify().unwrap();
    }
    let table = store.table("one").unwrap().unwrap();
    assert!(matches!(store.bulk_load(table, 0.9, &mut |_, _| false), Err(StoreError::BulkLoad { .. })));
    let table = store.create_table("disorder").unwrap();
    let mut next = 9u8;
    let result = store.bulk_load(table, 0.9, &mut |key, _| {
        key.push(next);
        next -= 1;
        true
    });
    assert!(matches!(result, Err(StoreError::BulkLoad { .. })));
}

#[test]
fn a_queue_keeps_its_size() {
    let store = plain_store(small());
    let table = store.create_table("queue").unwrap();
    let mut pages = 0;
    for round in 0..60u32 {
        let mut txn = store.begin();
        for i in 0..500u32 {
            txn.insert(table, &(round * 500 + i).to_be_bytes(), &[7; 50]).unwrap();
            if round > 1 {
                assert!(txn.delete(table, &((round - 2) * 500 + i).to_be_bytes()).unwrap());
            }
        }
        txn.commit().unwrap();
        if round == 5 {
            pages = store.pages();
        }
    }
    store.verify().unwrap();
    assert!(store.pages() <= pages + 4, "{} pages, after a tenth of the time {pages}", store.pages());
}

#[test]
fn ascending_inserts_leave_full_pages() {
    for points in [1u32, 100] {
        let store = plain_store(Options::default());
        let table = store.create_table("t").unwrap();
        for i in 0..60_000 / points {
            let mut txn = store.begin();
            for point in 0..points {
                let key = [point.to_be_bytes(), i.to_be_bytes()].concat();
                txn.insert(table, &key, &[1; 54]).unwrap();
            }
            txn.commit().unwrap();
        }
        let report = store.verify().unwrap();
        let fill = report.leaf_bytes as f64 / (report.leaves * 4040) as f64;
        assert!(fill > 0.85, "{points} points fill the leaves to {fill:.2}");
    }
}

#[test]
fn a_new_store_takes_the_place_of_an_old_one() {
    let mut rng = Rng(3);
    let world = World::new(Kind::Disk, 8 << 20, 1);
    let old = Store::create(world.parts(), small()).unwrap();
    let table = old.create_table("old").unwrap();
    for row in 0..50u8 {
        let mut txn = old.begin();
        txn.insert(table, &[row], &[row; 100]).unwrap();
        txn.commit().unwrap();
        old.checkpoint().unwrap();
    }
    old.shutdown().unwrap();
    let world = world.after_crash(&mut rng);
    let refused = Store::create(world.parts(), small()).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|why| why.contains("holds a database")));
    let over = entresol_store::Options { overwrite: true, ..small() };
    let new = Store::create(world.parts(), over).unwrap();
    let table = new.create_table("new").unwrap();
    let mut txn = new.begin();
    txn.insert(table, b"key", b"value").unwrap();
    txn.commit().unwrap();
    let world = world.after_crash(&mut rng);
    let (store, report) = Store::open(world.parts(), small()).unwrap();
    assert_eq!((store.table("old").unwrap(), report.losers), (None, 0));
    assert_eq!(all(&store, table, Direction::Forward), [(b"key".to_vec(), b"value".to_vec())]);
    store.verify().unwrap();
}

#[test]
fn nobody_waits_for_a_transaction_whose_thread_has_panicked() {
    let store = plain_store(small());
    let table = store.create_table("rows").unwrap();
    let panicking = store.clone();
    let cut_off = std::thread::spawn(move || {
        let mut txn = panicking.begin();
        txn.insert(table, b"row", b"value").unwrap();
        std::panic::resume_unwind(Box::new("the program's own mistake"));
    });
    assert!(cut_off.join().is_err());
    let (told, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut txn = store.begin();
        told.send(txn.get(table, b"row", Lock::Shared, &mut Vec::new())).unwrap();
    });
    // The time only bounds a test that fails.
    let answer = answer.recv_timeout(Duration::from_secs(60)).expect("whoever wants the row is answered");
    assert!(answer.unwrap_err().to_string().contains("cut off by a panic"));
}

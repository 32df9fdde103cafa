//! Property tests: trees against an ordered map, with shrinking of what fails.

mod support;

use entresol_store::{Direction, Lock, Store, StoreError, Table};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use support::{plain_store, small};

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u16),
    Update(u16, u16),
    Delete(u16),
    /// Deletes a whole range, so that pages empty.
    Clear(u16, u16),
    /// Inserts ascending keys.
    Run(u16, u8),
    Abort,
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..1500u16;
    prop_oneof![
        6 => (key.clone(), 0..990u16).prop_map(|(key, size)| Step::Insert(key, size)),
        2 => (key.clone(), 0..990u16).prop_map(|(key, size)| Step::Update(key, size)),
        3 => key.clone().prop_map(Step::Delete),
        1 => (key.clone(), 1..200u16).prop_map(|(key, count)| Step::Clear(key, count)),
        2 => (key, any::<u8>()).prop_map(|(key, count)| Step::Run(key, count)),
        1 => Just(Step::Abort),
        1 => Just(Step::Commit),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of different lengths; some are prefixes of others.
fn key(number: u16) -> Vec<u8> {
    let mut key = (number / 7 * 7).to_be_bytes().to_vec();
    key.resize(2 + usize::from(number % 7), 5);
    key
}

fn value(size: u16) -> Vec<u8> {
    (0..size).map(|at| (at ^ size) as u8).collect()
}

fn scan(
    store: &Store,
    table: Table,
    from: &[u8],
    to: &[u8],
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut txn = store.begin();
    txn.scan(table, from, to, direction, Lock::Shared, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    txn.commit().unwrap();
    rows
}

fn run(steps: &[Step]) {
    let store = plain_store(small());
    let table = store.create_table("t").unwrap();
    let (mut committed, mut model) = (Model::new(), Model::new());
    let mut txn = store.begin();
    for step in steps {
        match step {
            Step::Insert(number, size) => match txn.insert(table, &key(*number), &value(*size)) {
                Ok(()) => assert_eq!(model.insert(key(*number), value(*size)), None),
                Err(StoreError::DuplicateKey) => assert!(model.contains_key(&key(*number))),
                Err(error) => panic!("{error}"),
            },
            Step::Update(number, size) => {
                let found = txn.update(table, &key(*number), &value(*size)).unwrap();
                assert_eq!(found, model.contains_key(&key(*number)));
                if found {
                    model.insert(key(*number), value(*size));
                }
            }
            Step::Delete(number) => {
                assert_eq!(txn.delete(table, &key(*number)).unwrap(), model.remove(&key(*number)).is_some());
            }
            Step::Clear(first, count) => {
                for number in *first..first + count {
                    let found = txn.delete(table, &key(number)).unwrap();
                    assert_eq!(found, model.remove(&key(number)).is_some());
                }
            }
            Step::Run(first, count) => {
                for number in *first..first + u16::from(*count) {
                    if let Entry::Vacant(place) = model.entry(key(number)) {
                        txn.insert(table, &key(number), &value(60)).unwrap();
                        place.insert(value(60));
                    }
                }
            }
            Step::Abort => {
                txn.abort().unwrap();
                model = committed.clone();
                txn = store.begin();
            }
            Step::Commit => {
                txn.commit().unwrap();
                committed = model.clone();
                txn = store.begin();
            }
        }
    }
    txn.commit().unwrap();
    let report = store.verify().unwrap();
    assert_eq!(report.rows, model.len() as u64);
    let rows: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(scan(&store, table, &[], &[0xff; 3], Direction::Forward), rows);
    for (from, to) in [(0, 1500), (100, 101), (333, 777), (700, 300)] {
        let (from, to) = (key(from), key(to));
        let inside = |(key, _): &&(Vec<u8>, Vec<u8>)| *key >= from && *key < to;
        let expected: Vec<_> = rows.iter().filter(inside).cloned().collect();
        assert_eq!(scan(&store, table, &from, &to, Direction::Forward), expected);
        let backward = scan(&store, table, &from, &to, Direction::Backward);
        assert!(backward.iter().rev().eq(expected.iter()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn trees_are_ordered_maps(steps in vec(step(), 1..250)) {
        run(&steps);
    }
}

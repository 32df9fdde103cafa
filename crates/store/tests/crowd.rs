//! Clients that all work on the same cold leaf at once: splits and unlinks under everybody's feet.

mod support;

use entresol_runtime::spawn;
use entresol_runtime::sync::{Condvar, Mutex, Rank};
use entresol_store::{Direction, Lock, Store, Table};
use std::sync::Arc;
use support::{Kind, Rng, World, simulate, small};

const ROWS: u32 = 1200;
const CLIENTS: u32 = 10;
const ROUNDS: u32 = 60;

/// Lets nobody into a round before all have ended the one before.
struct Barrier {
    arrived: Mutex<u32>,
    all: Condvar,
}

impl Default for Barrier {
    fn default() -> Self {
        Self { arrived: Mutex::new(Rank::Test, 0), all: Condvar::new() }
    }
}

impl Barrier {
    fn wait(&self) {
        let mut arrived = self.arrived.lock();
        let round = *arrived / CLIENTS;
        *arrived += 1;
        if arrived.is_multiple_of(CLIENTS) {
            self.all.notify_all();
        } else {
            self.all.wait_while(&mut arrived, |arrived| *arrived / CLIENTS == round);
        }
    }
}

/// Rows of the bulk load have even numbers.
fn key(row: u32, extra: &[u8]) -> Vec<u8> {
    [(row * 2).to_be_bytes().as_slice(), extra].concat()
}

fn client(store: &Store, table: Table, barrier: &Barrier, id: u32, seed: u64) {
    let mut places = Rng(seed);
    let mut rng = Rng(seed << 8 | u64::from(id));
    let mut value = Vec::new();
    for round in 0..ROUNDS {
        barrier.wait();
        // The same for all, and cold: three rows fill a leaf, and the pool holds a fifth of them.
        let place = 5 + places.below(u64::from(ROWS) - 10) as u32;
        let own = |at: u8| key(place, &[at, id as u8]);
        let mut txn = store.begin();
        for at in 0..3 {
            txn.insert(table, &own(at), &vec![id as u8; 100 + rng.below(700) as usize]).unwrap();
            // What was there before everybody came is still there, on both sides.
            for row in [place - 2, place - 1, place, place + 1] {
                let found = txn.get(table, &key(row, &[]), Lock::None, &mut value).unwrap();
                assert!(found, "round {round}: client {id} misses row {row}");
            }
            let mut seen = Vec::new();
            let direction = if rng.below(2) == 0 { Direction::Forward } else { Direction::Backward };
            txn.scan(
                table,
                &key(place - 2, &[]),
                &key(place + 3, &[]),
                direction,
                Lock::None,
                &mut |key, _| {
                    seen.push(key.to_vec());
                    true
                },
            )
            .unwrap();
            let ordered = if direction == Direction::Forward {
                seen.is_sorted()
            } else {
                seen.iter().rev().is_sorted()
            };
            assert!(ordered);
            for row in place - 2..place + 3 {
                assert!(
                    seen.contains(&key(row, &[])),
                    "round {round}: a scan of client {id} misses row {row}"
                );
            }
            for at in 0..=at {
                assert!(seen.contains(&own(at)), "round {round}: a scan of client {id} misses its own row");
            }
        }
        if rng.below(4) == 0 {
            txn.abort().unwrap();
            continue;
        }
        txn.commit().unwrap();
        let mut txn = store.begin();
        for at in 0..3 {
            assert!(txn.delete(table, &own(at)).unwrap(), "round {round}: client {id} misses its own row");
        }
        txn.commit().unwrap();
    }
}

fn crowd(seed: u64) {
    let world = World::new(if seed.is_multiple_of(2) { Kind::Disk } else { Kind::Flash }, 64 << 20, 2000);
    let work = move || {
        let store = Store::create(world.parts(), small()).unwrap();
        let table = store.create_table("t").unwrap();
        let mut row = 0;
        store
            .bulk_load(table, 1.0, &mut |k, value| {
                k.extend_from_slice(&key(row, &[]));
                value.resize(950, row as u8);
                row += 1;
                row <= ROWS
            })
            .unwrap();
        let barrier = Arc::new(Barrier::default());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (store, barrier) = (store.clone(), barrier.clone());
                spawn("client", move || client(&store, table, &barrier, id, seed))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join());
        let report = store.verify().unwrap();
        assert_eq!(report.rows, u64::from(ROWS));
        assert!(report.free > 0, "no page was emptied and given back: {report:?}");
    };
    simulate(seed, work).unwrap();
}

#[test]
fn nobody_loses_sight_of_a_row() {
    for seed in support::bank::seeds(12) {
        crowd(seed);
    }
}

//! Many clients in simulation, with a crash at any device operation, also during restarts.
//!
//! Each client keeps a model of its own rows and the list of its transfers. A transaction counts as committed if its
//! commit was acknowledged, or if its marker row is there after the restart (the one that was in flight). Then every row
//! of every table must be as the committed transactions left it, and nothing else may be there.

mod support;

use entresol_runtime::sim::Outcome;
use entresol_runtime::spawn;
use entresol_store::{Direction, Lock, Options, Replacement, Store, StoreError, Table, Txn};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Kind, Rng, World, simulate};

const ACCOUNTS: u64 = 200;
const CLIENTS: u64 = 12;
const OPENING: i64 = 1000;

/// What one transaction does.
#[derive(Clone, Debug, Default)]
struct Deed {
    transfers: Vec<(u64, i64)>,
    items: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What is known of one client.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Number of the next transaction.
    next: u64,
    committed: Vec<Deed>,
    items: BTreeMap<Vec<u8>, Vec<u8>>,
    in_flight: Option<Deed>,
}

impl Client {
    fn acknowledge(&mut self) {
        let deed = self.in_flight.take().expect("a commit was in flight");
        for (key, value) in &deed.items {
            match value {
                Some(value) => self.items.insert(key.clone(), value.clone()),
                None => self.items.remove(key),
            };
        }
        self.committed.push(deed);
        self.next += 1;
    }
}

#[derive(Default)]
struct Oracle {
    clients: Vec<Mutex<Client>>,
}

#[derive(Clone, Copy)]
struct Tables {
    accounts: Table,
    items: Table,
    markers: Table,
}

impl Tables {
    fn find(store: &Store) -> Option<Tables> {
        let table = |name| store.table(name).unwrap();
        Some(Tables { accounts: table("accounts")?, items: table("items")?, markers: table("markers")? })
    }
}

fn account_key(account: u64) -> Vec<u8> {
    (account * 7919).to_be_bytes().to_vec()
}

/// Values grow and shrink, so that leaves split.
fn account_value(balance: i64, salt: u64) -> Vec<u8> {
    let mut value = balance.to_le_bytes().to_vec();
    value.resize(8 + (salt % 160) as usize, salt as u8);
    value
}

fn balance(value: &[u8]) -> i64 {
    i64::from_le_bytes(value[..8].try_into().unwrap())
}

fn marker_key(client: u64, number: u64) -> Vec<u8> {
    [client.to_be_bytes(), number.to_be_bytes()].concat()
}

fn create(store: &Store) {
    let accounts = store.create_table("accounts").unwrap();
    store.create_table("items").unwrap();
    let mut txn = store.begin();
    for account in 0..ACCOUNTS {
        txn.insert(accounts, &account_key(account), &account_value(OPENING, account)).unwrap();
    }
    txn.commit().unwrap();
    // Last: if it is there, all is.
    store.create_table("markers").unwrap();
}

/// Does `deed` in a transaction, not yet committed.
fn perform(
    txn: &mut Txn,
    tables: Tables,
    rng: &mut Rng,
    marker: &[u8],
    deed: &mut Deed,
) -> Result<(), StoreError> {
    let mut value = Vec::new();
    for (account, amount) in &deed.transfers {
        let lock = if rng.below(3) == 0 { Lock::Shared } else { Lock::Exclusive };
        assert!(txn.get(tables.accounts, &account_key(*account), lock, &mut value)?);
        let new = account_value(balance(&value) + amount, rng.next());
        assert!(txn.update(tables.accounts, &account_key(*account), &new)?);
    }
    for (key, value) in &deed.items {
        match value {
            Some(value) => match txn.insert(tables.items, key, value) {
                Err(StoreError::DuplicateKey) => assert!(txn.update(tables.items, key, value)?),
                other => other?,
            },
            None => assert!(txn.delete(tables.items, key)?),
        }
    }
    txn.insert(tables.markers, marker, &[])
}

fn client(store: Store, oracle: Arc<Oracle>, id: u64, seed: u64, transactions: u64) {
    let tables = Tables::find(&store).unwrap();
    let mut rng = Rng(seed ^ id << 32);
    for _ in 0..transactions {
        let state = oracle.clients[id as usize].lock().unwrap().clone();
        let mut deed = Deed::default();
        let amount = rng.below(50) as i64;
        deed.transfers = vec![(rng.below(ACCOUNTS), -amount), (rng.below(ACCOUNTS), amount)];
        for _ in 0..rng.below(6) {
            // Keys of all clients mix; some ascend, some are random.
            let high = if rng.below(2) == 0 { rng.below(64) } else { state.next };
            let key =
                [(high as u16).to_be_bytes().as_slice(), &id.to_be_bytes(), &[rng.below(3) as u8]].concat();
            deed.items.push((key, Some(vec![rng.next() as u8; rng.below(400) as usize])));
        }
        for key in state.items.keys().take(rng.below(7) as usize) {
            if deed.items.iter().all(|(other, _)| other != key) {
                deed.items.push((key.clone(), None));
            }
        }
        loop {
            let mut txn = store.begin();
            match perform(&mut txn, tables, &mut rng, &marker_key(id, state.next), &mut deed) {
                Ok(()) if rng.below(8) == 0 => txn.abort().unwrap(),
                Ok(()) => {
                    oracle.clients[id as usize].lock().unwrap().in_flight = Some(deed);
                    txn.commit().unwrap();
                    oracle.clients[id as usize].lock().unwrap().acknowledge();
                    break;
                }
                Err(StoreError::Deadlock | StoreError::LogFull { .. }) => txn.abort().unwrap(),
                Err(error) => panic!("{error}"),
            }
            entresol_runtime::sleep(Duration::from_micros(1 + rng.below(20)));
        }
        if rng.below(10) == 0 {
            audit(&store, tables, &mut rng);
        }
    }
}

/// Reads all accounts under shared locks: no transfer may be seen by half.
fn audit(store: &Store, tables: Tables, rng: &mut Rng) {
    let direction = if rng.below(2) == 0 { Direction::Forward } else { Direction::Backward };
    let mut txn = store.begin();
    let (mut sum, mut count) = (0, 0);
    let mut before: Option<Vec<u8>> = None;
    let result = txn.scan(tables.accounts, &[], &[0xff], direction, Lock::Shared, &mut |key, value| {
        let ordered =
            before.as_deref().is_none_or(|before| (before < key) == (direction == Direction::Forward));
        assert!(ordered, "keys come in order, each once");
        before = Some(key.to_vec());
        sum += balance(value);
        count += 1;
        true
    });
    match result {
        Ok(()) => assert_eq!((count, sum), (ACCOUNTS, ACCOUNTS as i64 * OPENING)),
        Err(StoreError::Deadlock) => {}
        Err(error) => panic!("{error}"),
    }
    txn.abort().unwrap();
}

fn rows(store: &Store, table: Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let mut txn = store.begin();
    txn.scan(table, &[], &[0xff; 32], Direction::Forward, Lock::None, &mut |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        true
    })
    .unwrap();
    rows
}

/// Compares every row with the oracle, which learns what became of the commits in flight.
fn check(store: &Store, oracle: &Oracle) {
    let report = store.verify().unwrap();
    let tables = Tables::find(store).unwrap();
    let markers = rows(store, tables.markers);
    let mut balances = vec![OPENING; ACCOUNTS as usize];
    let (mut items, mut expected_markers) = (BTreeMap::new(), 0);
    for (id, client) in oracle.clients.iter().enumerate() {
        let mut client = client.lock().unwrap();
        if markers.contains_key(&marker_key(id as u64, client.next)) {
            client.acknowledge();
        }
        client.in_flight = None;
        for number in 0..client.next {
            assert!(markers.contains_key(&marker_key(id as u64, number)), "commit {number} of {id} is lost");
        }
        expected_markers += client.next;
        for (account, amount) in client.committed.iter().flat_map(|deed| &deed.transfers) {
            balances[*account as usize] += amount;
        }
        items.extend(client.items.clone());
    }
    assert_eq!(markers.len() as u64, expected_markers, "an uncommitted transaction is visible");
    let accounts = rows(store, tables.accounts);
    for (account, expected) in balances.iter().enumerate() {
        assert_eq!(balance(&accounts[&account_key(account as u64)]), *expected, "account {account}");
    }
    let found = rows(store, tables.items);
    for key in items.keys().chain(found.keys()) {
        assert_eq!(found.get(key), items.get(key), "item {key:02x?}");
    }
    assert_eq!(report.rows, (accounts.len() + found.len() + markers.len()) as u64);
}

fn options(seed: u64) -> Options {
    Options {
        frames: [64, 100, 400][seed as usize % 3],
        replacement: if seed / 3 % 2 == 0 { Replacement::Lru } else { Replacement::Clock },
        checkpoint_interval: (seed / 6 % 2 == 0).then_some(Duration::from_millis(3)),
        full_page_writes: seed / 12 % 2 == 0,
        ..Options::default()
    }
}

/// Several lives of one store, each ended by a crash; restarts are crashed too.
fn lives(seed: u64, lives: u64) {
    let mut rng = Rng(seed);
    let kind = if seed.is_multiple_of(2) { Kind::Disk } else { Kind::Flash };
    let log_bytes = if seed / 2 % 2 == 0 { (1 << 20) + 8192 } else { 64 << 20 };
    let oracle = Arc::new(Oracle { clients: (0..CLIENTS).map(|_| Mutex::default()).collect() });
    let mut world = World::new(kind, log_bytes, 2000);
    simulate(seed, || {
        let store = Store::create(world.parts(), options(seed)).unwrap();
        create(&store);
    })
    .unwrap();
    for life in 0..lives {
        world = world.after_crash(&mut rng);
        // Sometimes the restart itself does not get far.
        let limit = if rng.below(2) == 0 { 150 } else { 6000 };
        world.fuse.halt_at(1 + rng.below(limit));
        let (oracle, world) = (oracle.clone(), &world);
        let outcome = simulate(seed << 8 | life, move || {
            let (store, _) = Store::open(world.parts(), options(seed)).unwrap();
            check(&store, &oracle);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|id| {
                    let (store, oracle) = (store.clone(), oracle.clone());
                    spawn("client", move || client(store, oracle, id, seed ^ life << 16, 40))
                })
                .collect();
            for client in clients {
                client.join();
            }
        });
        match outcome {
            Outcome::Finished(()) | Outcome::Halted => {}
            Outcome::Deadlock { parked } => panic!("seed {seed}, life {life}: {parked:?} wait for ever"),
            Outcome::Panicked(message) => panic!("seed {seed}, life {life}: {message}"),
        }
    }
    let world = world.after_crash(&mut rng);
    let commits = simulate(seed, || {
        let (store, _) = Store::open(world.parts(), options(seed)).unwrap();
        check(&store, &oracle);
        oracle.clients.iter().map(|client| client.lock().unwrap().next).sum::<u64>()
    })
    .unwrap();
    assert!(lives < 8 || commits > 50, "seed {seed}: only {commits} commits");
}

#[test]
fn crashes_lose_nothing_and_show_nothing_uncommitted() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(48);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        lives(seed, 8);
    }
}

#[test]
fn a_life_without_crash_ends_as_the_oracle_says() {
    for seed in 0..12 {
        let oracle = Arc::new(Oracle { clients: (0..CLIENTS).map(|_| Mutex::default()).collect() });
        let world = World::new(if seed % 2 == 0 { Kind::Disk } else { Kind::Flash }, 64 << 20, 2000);
        simulate(seed, || {
            let store = Store::create(world.parts(), options(seed)).unwrap();
            create(&store);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|id| {
                    let (store, oracle) = (store.clone(), oracle.clone());
                    spawn("client", move || client(store, oracle, id, seed, 30))
                })
                .collect();
            for client in clients {
                client.join();
            }
            check(&store, &oracle);
            assert!(store.metrics().deadlocks > 0, "the test provokes deadlocks");
            store.shutdown().unwrap();
        })
        .unwrap();
    }
}

#[test]
fn threads_end_as_the_oracle_says() {
    for seed in 0..6 {
        let oracle = Arc::new(Oracle { clients: (0..CLIENTS).map(|_| Mutex::default()).collect() });
        let world = World::new(if seed % 2 == 0 { Kind::Disk } else { Kind::Flash }, 64 << 20, 1);
        let store = Store::create(world.parts(), options(seed)).unwrap();
        create(&store);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (store, oracle) = (store.clone(), oracle.clone());
                std::thread::spawn(move || client(store, oracle, id, seed, 60))
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        check(&store, &oracle);
        store.shutdown().unwrap();
    }
}

//! Clients that transfer money and keep items, and an oracle that knows what must be there.
//!
//! Each client keeps a model of its own rows and the list of its transfers. A transaction counts as committed
//! if its commit was acknowledged, or if its marker row is there after the restart (the one that was in
//! flight). Then every row of every table must be as the committed transactions left it, and nothing else may
//! be there.

use super::{Rng, simulate};
use entresol_runtime::sim::Outcome;
use entresol_runtime::spawn;
use entresol_store::{Direction, Lock, Options, Parts, Store, StoreError, Table, Txn};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// With their values a few times what the smallest pool holds.
const ACCOUNTS: u64 = 600;
pub const CLIENTS: u64 = 12;
const OPENING: i64 = 1000;

/// What one transaction does.
#[derive(Clone, Debug, Default)]
struct Deed {
    transfers: Vec<(u64, i64)>,
    items: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What is known of one client.
#[derive(Clone, Debug, Default)]
pub struct Client {
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
pub struct Oracle {
    pub clients: Vec<Mutex<Client>>,
}

impl Oracle {
    pub fn new() -> Arc<Oracle> {
        Arc::new(Oracle { clients: (0..CLIENTS).map(|_| Mutex::default()).collect() })
    }

    /// Transactions known to be committed.
    pub fn commits(&self) -> u64 {
        self.clients.iter().map(|client| client.lock().unwrap().next).sum()
    }
}

/// Runs all clients, `transactions` each, to their end.
pub fn run(store: &Store, oracle: &Arc<Oracle>, seed: u64, transactions: u64) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let (store, oracle) = (store.clone(), oracle.clone());
            spawn("client", move || client(store, oracle, id, seed, transactions))
        })
        .collect();
    for client in clients {
        client.join();
    }
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
    value.resize(8 + (salt % 900) as usize, salt as u8);
    value
}

fn balance(value: &[u8]) -> i64 {
    i64::from_le_bytes(value[..8].try_into().unwrap())
}

fn marker_key(client: u64, number: u64) -> Vec<u8> {
    [client.to_be_bytes(), number.to_be_bytes()].concat()
}

pub fn create(store: &Store) {
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

/// Often one of a few, so that clients meet.
fn some_account(rng: &mut Rng) -> u64 {
    if rng.below(2) == 0 { rng.below(20) } else { rng.below(ACCOUNTS) }
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
        deed.transfers = vec![(some_account(&mut rng), -amount), (some_account(&mut rng), amount)];
        // Now and then a long one, so that crashes fall into long rollbacks too.
        let items = if rng.below(20) == 0 { 60 } else { rng.below(6) };
        for _ in 0..items {
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
                Ok(()) if rng.below(if deed.items.len() > 20 { 2 } else { 8 }) == 0 => txn.abort().unwrap(),
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
        if rng.below(40) == 0 {
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
pub fn check(store: &Store, oracle: &Oracle) {
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

/// Devices that fail together.
pub trait Site: Sized + Send + Sync {
    /// Parts for a new store. Called in the simulation.
    fn create(&self) -> Parts;
    /// Parts of the store that is there. Called in the simulation.
    fn open(&self) -> Parts;
    /// Power will fail at that operation from now.
    fn halt_at(&self, operation: u64);
    /// The site after the power failure.
    fn after_crash(&self, rng: &mut Rng) -> Self;
}

/// Several lives of one store, each ended by a crash; restarts are crashed too. Then a last restart. Returns
/// the number of commits.
pub fn lives(mut site: impl Site, options: &Options, seed: u64, lives: u64) -> u64 {
    let mut rng = Rng(seed);
    let oracle = Oracle::new();
    simulate(seed, || {
        let store = Store::create(site.create(), options.clone()).unwrap();
        create(&store);
    })
    .unwrap();
    for life in 0..lives {
        site = site.after_crash(&mut rng);
        // Sometimes the restart itself does not get far.
        let limit = if rng.below(2) == 0 { 150 } else { 6000 };
        site.halt_at(1 + rng.below(limit));
        let (oracle, site) = (oracle.clone(), &site);
        let outcome = simulate(seed << 8 | life, move || {
            let (store, _) = Store::open(site.open(), options.clone()).unwrap();
            check(&store, &oracle);
            run(&store, &oracle, seed ^ life << 16, 40);
        });
        match outcome {
            Outcome::Finished(()) | Outcome::Halted => {}
            Outcome::Deadlock { parked } => panic!("seed {seed}, life {life}: {parked:?} wait for ever"),
            Outcome::Panicked(message) => panic!("seed {seed}, life {life}: {message}"),
        }
    }
    let site = site.after_crash(&mut rng);
    simulate(seed, || {
        let (store, _) = Store::open(site.open(), options.clone()).unwrap();
        check(&store, &oracle);
    })
    .unwrap();
    oracle.commits()
}

/// Seeds to run: `SEEDS` of them (else `usual`), from `SEED` on.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first = number("SEED").unwrap_or(0);
    first..first + number("SEEDS").unwrap_or(usual)
}

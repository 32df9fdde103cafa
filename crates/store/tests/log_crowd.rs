//! Hundreds of clients on the smallest log. Whatever they do and whenever power fails, the store opens again
//! and everything acknowledged is there: appends have reserved their room, and a restart has room of its own.

mod support;

use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::DiskLayer;
use entresol_runtime::sim::Outcome;
use entresol_runtime::spawn;
use entresol_store::{Direction, Files, Lock, Options, Parts, Store, StoreError, Table, Txn};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::shaped::Shaped;
use support::{Rng, Slow, load_zeros, simulate};

/// The smallest log, with its master record.
const LOG_BYTES: u64 = (1 << 20) + 8192;

type Faulty = Arc<Slow<FaultyDevice>>;

/// A disk and a log whose power fails together.
struct Site {
    plan: Arc<FaultPlan>,
    disk: Faulty,
    log: Faulty,
    sector: u32,
}

impl Site {
    fn over(disk: MemoryDevice, log: MemoryDevice, sector: u32) -> Site {
        let plan = Arc::new(FaultPlan::none());
        let slow = |name, memory| {
            Arc::new(Slow { device: FaultyDevice::new(name, memory, plan.clone()), nanos: 2000 })
        };
        Site { disk: slow("disk", disk), log: slow("log", log), plan, sector }
    }

    fn blank(sector: u32) -> Site {
        Site::over(MemoryDevice::new("disk", 64 << 20), MemoryDevice::new("log", LOG_BYTES), sector)
    }

    fn after_crash(&self, rng: &mut Rng) -> Site {
        let mut left = |slow: &Faulty| slow.device.after_crash(&Survival::Seed(rng.next()));
        Site::over(left(&self.disk), left(&self.log), self.sector)
    }

    fn halt_at(&self, operations: u64) {
        let at = self.plan.operations() + operations;
        self.plan.inject(Injection { at, device: None, fault: Fault::Crash, forever: false });
    }

    fn log(&self) -> Arc<dyn Device> {
        Shaped::new(self.log.clone(), self.sector, self.sector)
    }

    fn create(&self) -> Store {
        let layer = DiskLayer::create(self.disk.clone(), 4096).unwrap();
        Store::create(Parts { layer, log: self.log() }, options()).unwrap()
    }

    fn open(&self) -> Store {
        let layer = DiskLayer::open(self.disk.clone(), 4096).unwrap();
        match Store::open(Parts { layer, log: self.log() }, options()) {
            Ok((store, _)) => store,
            Err(error) => panic!("the store does not open again: {error}"),
        }
    }
}

fn options() -> Options {
    Options { frames: 64, ..Options::default() }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is known of one client: its rows after its last acknowledged commit, and after the one in flight.
#[derive(Clone, Default)]
struct Client {
    rows: Rows,
    in_flight: Option<Rows>,
    commits: u64,
}

type Oracle = Arc<Vec<Mutex<Client>>>;

fn key(id: u32, row: u64) -> Vec<u8> {
    // The clients' rows lie side by side.
    [(row as u16).to_be_bytes().as_slice(), &id.to_be_bytes()].concat()
}

/// Changes some rows in a transaction; the rows as they are then.
fn change(txn: &mut Txn, table: Table, id: u32, rows: &Rows, rng: &mut Rng) -> Result<Rows, StoreError> {
    let mut rows = rows.clone();
    let long = rng.below(30) == 0;
    for _ in 0..if long { 40 } else { 1 + rng.below(4) } {
        let key = key(id, rng.below(30));
        let value = vec![rng.next() as u8; rng.below(500) as usize];
        match rows.contains_key(&key) {
            false => {
                txn.insert(table, &key, &value)?;
                rows.insert(key, value);
            }
            true if rng.below(3) == 0 => {
                assert!(txn.delete(table, &key)?);
                rows.remove(&key);
            }
            true => {
                assert!(txn.update(table, &key, &value)?);
                rows.insert(key, value);
            }
        }
        if long {
            entresol_runtime::sleep(Duration::from_micros(rng.below(40)));
        }
    }
    Ok(rows)
}

fn client(store: &Store, table: Table, oracle: &Oracle, id: u32, seed: u64, transactions: u64) {
    let mut rng = Rng(seed << 20 ^ u64::from(id) << 8);
    for _ in 0..transactions {
        let mut refused = 0;
        loop {
            let rows = oracle[id as usize].lock().unwrap().rows.clone();
            let mut txn = store.begin();
            match change(&mut txn, table, id, &rows, &mut rng) {
                Ok(_) if rng.below(6) == 0 => txn.abort().unwrap(),
                Ok(new) => {
                    oracle[id as usize].lock().unwrap().in_flight = Some(new.clone());
                    txn.commit().unwrap();
                    let mut known = oracle[id as usize].lock().unwrap();
                    (known.rows, known.in_flight) = (new, None);
                    known.commits += 1;
                    break;
                }
                Err(StoreError::LogFull { .. } | StoreError::Deadlock) => {
                    txn.abort().unwrap();
                    refused += 1;
                    assert!(refused < 2000, "client {id} never gets room");
                    entresol_runtime::sleep(Duration::from_micros(rng.below(50 * refused)));
                }
                Err(error) => panic!("client {id}: {error}"),
            }
        }
    }
}

/// Compares all rows; each client's commit in flight happened as a whole or not at all.
fn check(store: &Store, oracle: &Oracle) -> Table {
    store.verify().unwrap();
    let table = store.table("t").unwrap().unwrap();
    let mut found: Vec<Rows> = vec![Rows::new(); oracle.len()];
    let mut txn = store.begin();
    txn.scan(table, &[], &[0xff; 8], Direction::Forward, Lock::None, &mut |key, value| {
        let id = u32::from_be_bytes(key[2..6].try_into().unwrap());
        found[id as usize].insert(key.to_vec(), value.to_vec());
        true
    })
    .unwrap();
    for (id, found) in found.into_iter().enumerate() {
        let mut client = oracle[id].lock().unwrap();
        let in_flight = client.in_flight.take();
        assert!(found == client.rows || Some(&found) == in_flight.as_ref(), "rows of client {id}");
        client.rows = found;
    }
    table
}

/// Lives of clients, each ended by a power failure; restarts are cut off, too. Returns the commits.
fn lives(clients: u32, sector: u32, seed: u64, lives: u64) -> u64 {
    let mut rng = Rng(seed);
    let oracle: Oracle = Arc::new((0..clients).map(|_| Mutex::default()).collect());
    let mut site = Site::blank(sector);
    simulate(seed, || {
        site.create().create_table("t").unwrap();
    })
    .unwrap();
    for life in 0..=lives {
        // Sometimes the restart does not get far.
        if life < lives {
            let most = if rng.below(3) == 0 { 200 } else { 6000 };
            site.halt_at(1 + rng.below(most));
        }
        let outcome = simulate(seed << 8 | life, || {
            let store = site.open();
            let table = check(&store, &oracle);
            let clients: Vec<_> = (0..clients)
                .map(|id| {
                    let (store, oracle) = (store.clone(), oracle.clone());
                    spawn("client", move || client(&store, table, &oracle, id, seed ^ life << 16, 6))
                })
                .collect();
            clients.into_iter().for_each(|client| client.join());
            check(&store, &oracle);
        });
        match outcome {
            Outcome::Finished(()) | Outcome::Halted => {}
            other => panic!("{clients} clients, sector {sector}, seed {seed}, life {life}: {other:?}"),
        }
        site = site.after_crash(&mut rng);
    }
    oracle.iter().map(|client| client.lock().unwrap().commits).sum()
}

#[test]
fn hundreds_of_clients_never_fill_the_log_for_good() {
    for (clients, sector, seeds) in
        [(128, 512, 3), (256, 512, 2), (512, 512, 1), (128, 4096, 2), (256, 4096, 1)]
    {
        for seed in 0..seeds {
            let commits = lives(clients, sector, seed, 5);
            assert!(commits > u64::from(clients), "{clients} clients, sector {sector}: {commits} commits");
        }
    }
}

#[test]
fn thousands_of_tables_fit_and_the_store_opens_again() {
    for sector in [512, 4096] {
        let site = Site::blank(sector);
        let tables = 2500;
        simulate(1, || {
            let store = site.create();
            for number in 0..tables {
                store.create_table(&format!("table {number:05} with a long name of fifty bytes")).unwrap();
            }
        })
        .unwrap();
        let site = site.after_crash(&mut Rng(5));
        simulate(2, || {
            for opened in 0..3 {
                let store = site.open();
                assert_eq!(store.tables().unwrap().len(), tables + opened);
                store.verify().unwrap();
                store.create_table(&format!("one more: {opened}")).unwrap();
                store.shutdown().unwrap();
            }
        })
        .unwrap();
    }
}

/// A crash, and restarts that are cut off at each of their operations.
fn after_restarts_cut_off(site: Site, case: &str) -> Site {
    let mut rng = Rng(7);
    let mut site = site.after_crash(&mut rng);
    for operation in 1.. {
        site.halt_at(operation);
        let outcome = simulate(operation, || drop(site.open()));
        site = site.after_crash(&mut rng);
        match outcome {
            Outcome::Finished(()) => break,
            Outcome::Halted => {}
            other => panic!("{case}, restart {operation}: {other:?}"),
        }
    }
    site
}

/// A long transaction holds nearly half of the log. All clients see room for one change, and each logs the
/// image of a leaf of its own. Before room was reserved, the log ran over.
#[test]
fn a_crowd_beside_a_long_transaction_leaves_room_to_roll_back() {
    const APART: u32 = 20;
    for (clients, sector) in [(128u32, 512), (256, 512), (512, 512), (256, 4096)] {
        let site = Site::blank(sector);
        let committed = Arc::new(Mutex::new(Vec::new()));
        simulate(u64::from(clients), || {
            let store = site.create();
            let table = store.create_table("t").unwrap();
            load_zeros(&store, table, (clients + 1) * APART);
            let mut holder = store.begin();
            for change in 1..=10u32 {
                assert!(holder.update(table, &change.to_be_bytes(), &[1; 200]).unwrap());
            }
            // Behind it, a row is changed until the log is nearly half full.
            while {
                let needed = store.log_needed();
                needed.end.0 - needed.start.0 < LOG_BYTES / 2 - 24_000
            } {
                let mut txn = store.begin();
                let value = [entresol_runtime::random() as u8; 200];
                assert!(txn.update(table, &(clients * APART + 10).to_be_bytes(), &value).unwrap());
                txn.commit().unwrap();
            }
            let crowd: Vec<_> = (1..clients)
                .map(|id| {
                    let (store, committed) = (store.clone(), committed.clone());
                    spawn("client", move || {
                        let mut txn = store.begin();
                        match txn.update(table, &(id * APART).to_be_bytes(), &[7; 200]) {
                            Ok(true) => {
                                entresol_runtime::sleep(Duration::from_millis(1));
                                txn.commit().unwrap();
                                committed.lock().unwrap().push(id * APART);
                            }
                            Err(StoreError::LogFull { .. }) => txn.abort().unwrap(),
                            other => panic!("client {id}: {other:?}"),
                        }
                    })
                })
                .collect();
            crowd.into_iter().for_each(|client| client.join());
            std::mem::forget(holder);
        })
        .unwrap();
        let site = after_restarts_cut_off(site, &format!("{clients} clients, sector {sector}"));
        let committed = committed.lock().unwrap();
        assert!(!committed.is_empty(), "nobody got room");
        simulate(1, || {
            let store = site.open();
            store.verify().unwrap();
            let table = store.table("t").unwrap().unwrap();
            let (mut txn, mut value) = (store.begin(), Vec::new());
            for row in 0..clients * APART {
                assert!(txn.get(table, &row.to_be_bytes(), Lock::None, &mut value).unwrap());
                assert_eq!(value[0] == 7, committed.contains(&row), "row {row}");
                assert_ne!(value[0], 1, "row {row} was never committed");
            }
        })
        .unwrap();
    }
}

/// A restart appends its checkpoint record, and power fails before the master record names it; so does the
/// next restart. The records must not add up: each pads a sector.
#[test]
fn restarts_that_are_cut_off_at_their_checkpoint_do_not_fill_the_log() {
    let site = Site::blank(4096);
    simulate(1, || {
        let store = site.create();
        let table = store.create_table("t").unwrap();
        let mut txn = store.begin();
        txn.insert(table, b"key", b"value").unwrap();
        txn.commit().unwrap();
    })
    .unwrap();
    let whole = |site: &Site| {
        Site::over(
            site.disk.device.after_crash(&Survival::All),
            site.log.device.after_crash(&Survival::All),
            4096,
        )
    };
    let mut site = whole(&site);
    for restart in 0..400 {
        let probe = whole(&site);
        simulate(restart, || drop(probe.open())).unwrap();
        // The last operations write and sync the master record. The checkpoint record is durable before.
        site.halt_at(probe.plan.operations() - 2);
        match simulate(restart, || drop(site.open())) {
            Outcome::Halted => {}
            other => panic!("restart {restart}: {other:?}"),
        }
        site = whole(&site);
    }
    simulate(3, || {
        let store = site.open();
        let table = store.table("t").unwrap().unwrap();
        assert!(store.begin().get(table, b"key", Lock::None, &mut Vec::new()).unwrap());
    })
    .unwrap();
}

/// Threads of the operating system, and files.
#[test]
fn hundreds_of_threads_on_files_never_fill_the_log_for_good() {
    const CLIENTS: u32 = 256;
    let folder = std::env::temp_dir().join(format!("entresol-log-crowd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files::new(folder.join("disk"), 64 << 20, folder.join("log"), LOG_BYTES);
    let oracle: Oracle = Arc::new((0..CLIENTS).map(|_| Mutex::default()).collect());
    let options = Options { frames: 1024, ..options() };
    files.create(options.clone()).unwrap().store.create_table("t").unwrap();
    for life in 0..2 {
        // The store before was dropped without a shutdown.
        let store = files.open(options.clone()).unwrap().store;
        let table = check(&store, &oracle);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (store, oracle) = (store.clone(), oracle.clone());
                spawn("client", move || client(&store, table, &oracle, id, life, 4))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join());
    }
    let store = files.open(options).unwrap().store;
    check(&store, &oracle);
    let commits: u64 = oracle.iter().map(|client| client.lock().unwrap().commits).sum();
    assert_eq!(commits, u64::from(CLIENTS) * 8);
    store.shutdown().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What the documentation of the log device says of one transaction's size.
#[test]
fn one_transaction_may_be_as_large_as_documented() {
    for sector in [512, 4096] {
        let site = Site::blank(sector);
        simulate(1, || {
            let store = site.create();
            let table = store.create_table("t").unwrap();
            let (insert, delete) = (LOG_BYTES / 30 / 200, LOG_BYTES / 35 / 200);
            for round in 0..2 {
                for abort in [true, false] {
                    let mut txn = store.begin();
                    for row in 0..insert {
                        txn.insert(table, &(round * insert + row).to_be_bytes(), &[5; 192]).unwrap();
                    }
                    if abort { txn.abort().unwrap() } else { txn.commit().map(|_| ()).unwrap() }
                }
            }
            let mut txn = store.begin();
            for row in 0..delete {
                assert!(txn.delete(table, &row.to_be_bytes()).unwrap());
            }
            txn.abort().unwrap();
            store.verify().unwrap();
        })
        .unwrap();
    }
}

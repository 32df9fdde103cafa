//! A store on a disk of few pages: what does not fit is an error of its transaction, and everything else goes
//! on.

mod support;

use entresol_core::PolicyKind;
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{DiskLayer, FlashTier, Layer, TierOptions, detach, flash_bytes};
use entresol_runtime::sim::Outcome;
use entresol_runtime::spawn;
use entresol_store::{Direction, Lock, Options, Parts, Store, StoreError, Table};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use support::{Rng, Slow, simulate};

const PAGES: u64 = 150;
const CLIENTS: u32 = 4;

type Faulty = Arc<Slow<FaultyDevice>>;

struct Site {
    plan: Arc<FaultPlan>,
    flash: Option<Faulty>,
    disk: Faulty,
    log: Faulty,
}

fn tier_options() -> TierOptions {
    let usual = TierOptions::new(PolicyKind::FaceGsc, 64);
    TierOptions { slots: 64, group_pages: 4, staging_groups: 2, segment_entries: 32, ..usual }
}

fn options() -> Options {
    Options { frames: 64, ..Options::default() }
}

fn disk_bytes(pages: u64) -> u64 {
    (64 << 10) + pages * 4096
}

impl Site {
    fn over(flash: Option<MemoryDevice>, disk: MemoryDevice, log: MemoryDevice) -> Site {
        let plan = Arc::new(FaultPlan::none());
        let slow = |name, memory| {
            Arc::new(Slow { device: FaultyDevice::new(name, memory, plan.clone()), nanos: 2000 })
        };
        let flash = flash.map(|memory| slow("flash", memory));
        Site { flash, disk: slow("disk", disk), log: slow("log", log), plan }
    }

    fn blank(with_flash: bool, pages: u64) -> Site {
        let flash = with_flash.then(|| MemoryDevice::new("flash", flash_bytes(&tier_options())));
        Site::over(flash, MemoryDevice::new("disk", disk_bytes(pages)), MemoryDevice::new("log", 8 << 20))
    }

    fn after_crash(&self, survival: impl Fn() -> Survival) -> Site {
        let left = |slow: &Faulty| slow.device.after_crash(&survival());
        Site::over(self.flash.as_ref().map(left), left(&self.disk), left(&self.log))
    }

    fn create(&self) -> Store {
        let layer: Arc<dyn Layer> = match &self.flash {
            Some(flash) => FlashTier::create(flash.clone(), self.disk.clone(), tier_options()).unwrap(),
            None => DiskLayer::create(self.disk.clone(), 4096).unwrap(),
        };
        Store::create(Parts { layer, log: self.log.clone() }, options()).unwrap()
    }

    fn open(&self) -> Result<Store, StoreError> {
        let layer: Arc<dyn Layer> = match &self.flash {
            Some(flash) => FlashTier::open(flash.clone(), self.disk.clone(), tier_options())?.0,
            None => DiskLayer::open(self.disk.clone(), 4096)?,
        };
        Ok(Store::open(Parts { layer, log: self.log.clone() }, options())?.0)
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A client's rows after its last acknowledged commit, and after the one in flight.
#[derive(Default)]
struct Client {
    rows: Rows,
    in_flight: Option<Rows>,
}

#[derive(Default)]
struct Oracle {
    clients: Vec<Mutex<Client>>,
    refused: AtomicU64,
    commits: AtomicU64,
}

fn key(id: u32, number: u64) -> Vec<u8> {
    [number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().as_slice(), &id.to_be_bytes()].concat()
}

/// Inserts until the disk is full, then deletes some, and so on; some transactions are aborted.
fn client(store: &Store, table: Table, oracle: &Oracle, id: u32, seed: u64, transactions: u64) {
    let mut rng = Rng(seed ^ u64::from(id) << 32);
    let mut fills = true;
    for _ in 0..transactions {
        let mut rows = oracle.clients[id as usize].lock().unwrap().rows.clone();
        fills |= rows.is_empty();
        let deletes = !fills;
        let mut txn = store.begin();
        let changed = (0..1 + rng.below(8)).try_for_each(|_| {
            let some = rows.keys().nth(rng.below(rows.len().max(1) as u64) as usize).cloned();
            match some {
                Some(key) if deletes => {
                    assert!(txn.delete(table, &key)?);
                    rows.remove(&key);
                }
                None if deletes => {}
                Some(key) if rng.below(3) == 0 => {
                    let value = vec![rng.next() as u8; rng.below(900) as usize];
                    assert!(txn.update(table, &key, &value)?);
                    rows.insert(key, value);
                }
                _ => {
                    let (key, value) = (key(id, rng.next()), vec![rng.next() as u8; rng.below(900) as usize]);
                    txn.insert(table, &key, &value)?;
                    rows.insert(key, value);
                }
            }
            Ok::<(), StoreError>(())
        });
        match changed {
            Ok(()) if rng.below(4) == 0 => txn.abort().unwrap(),
            Ok(()) => {
                oracle.clients[id as usize].lock().unwrap().in_flight = Some(rows.clone());
                txn.commit().unwrap();
                let mut known = oracle.clients[id as usize].lock().unwrap();
                (known.rows, known.in_flight) = (rows, None);
                oracle.commits.fetch_add(1, Relaxed);
            }
            Err(StoreError::DiskFull { .. }) => {
                assert!(!deletes, "a deletion was refused");
                txn.abort().unwrap();
                oracle.refused.fetch_add(1, Relaxed);
                fills = false;
            }
            Err(StoreError::Deadlock) => txn.abort().unwrap(),
            Err(error) => panic!("client {id}: {error}"),
        }
        if !fills && rng.below(12) == 0 {
            fills = true;
        }
    }
}

fn check(store: &Store, oracle: &Oracle) -> Table {
    store.verify().unwrap();
    let table = store.table("t").unwrap().unwrap();
    let mut found = vec![Rows::new(); CLIENTS as usize];
    let mut visit = |key: &[u8], value: &[u8]| {
        let id = u32::from_be_bytes(key[8..12].try_into().unwrap());
        found[id as usize].insert(key.to_vec(), value.to_vec());
        true
    };
    store.begin().scan(table, &[], &[0xff; 13], Direction::Forward, Lock::None, &mut visit).unwrap();
    for (id, found) in found.into_iter().enumerate() {
        let mut client = oracle.clients[id].lock().unwrap();
        let in_flight = client.in_flight.take();
        assert!(found == client.rows || Some(&found) == in_flight.as_ref(), "rows of client {id}");
        client.rows = found;
    }
    table
}

fn lives(with_flash: bool, seed: u64) {
    let mut rng = Rng(seed);
    let oracle =
        Arc::new(Oracle { clients: (0..CLIENTS).map(|_| Mutex::default()).collect(), ..Oracle::default() });
    let mut site = Site::blank(with_flash, PAGES);
    simulate(seed, || site.create().create_table("t").map(drop).unwrap()).unwrap();
    let last = 8;
    for life in 0..=last {
        let random = Mutex::new(Rng(rng.next()));
        site = site.after_crash(|| Survival::Seed(random.lock().unwrap().next()));
        if life < last {
            let at = 1 + rng.below(if life % 2 == 0 { 12_000 } else { 600 });
            site.plan.inject(Injection { at, device: None, fault: Fault::Crash, forever: false });
        }
        let outcome = simulate(seed << 8 | life, || {
            let store = site.open().unwrap();
            let table = check(&store, &oracle);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|id| {
                    let (store, oracle) = (store.clone(), oracle.clone());
                    spawn("client", move || client(&store, table, &oracle, id, seed ^ life << 16, 150))
                })
                .collect();
            clients.into_iter().for_each(|client| client.join());
            check(&store, &oracle);
            store.checkpoint().unwrap();
            store.shutdown().unwrap();
        });
        match outcome {
            Outcome::Finished(()) | Outcome::Halted => {}
            other => panic!("flash {with_flash}, seed {seed}, life {life}: {other:?}"),
        }
    }
    let (refused, commits) = (oracle.refused.load(Relaxed), oracle.commits.load(Relaxed));
    assert!(refused > 10 && commits > 300, "{refused} refused, {commits} commits");
    if let Some(flash) = &site.flash {
        simulate(seed, || {
            detach(flash.clone(), site.disk.clone()).unwrap();
            let layer = DiskLayer::open(site.disk.clone(), 4096).unwrap();
            let store = Store::open(Parts { layer, log: site.log.clone() }, options()).unwrap().0;
            check(&store, &oracle);
        })
        .unwrap();
    }
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    for seed in 0..6 {
        lives(false, seed);
        lives(true, seed);
    }
}

/// Inserts rows from number `from` on until the disk is full; the number of the first that is refused.
fn fill(store: &Store, table: Table, from: u64) -> u64 {
    for number in from.. {
        let mut txn = store.begin();
        match txn.insert(table, &number.to_be_bytes(), &[number as u8; 400]) {
            Ok(()) => drop(txn.commit().unwrap()),
            Err(StoreError::DiskFull { capacity, .. }) => {
                assert_eq!(capacity, PAGES);
                txn.abort().unwrap();
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the disk is full some time")
}

#[test]
fn tables_and_loads_are_refused_too_and_a_smaller_disk_is_not_opened() {
    let site = Site::blank(false, PAGES);
    simulate(1, || {
        let store = site.create();
        let table = store.create_table("t").unwrap();
        let load = store.create_table("load").unwrap();
        let mut number = 0u64;
        let loaded = store.bulk_load(load, 0.9, &mut |key, value| {
            key.extend_from_slice(&number.to_be_bytes());
            value.extend_from_slice(&[3; 400]);
            number += 1;
            true
        });
        assert!(matches!(loaded, Err(StoreError::DiskFull { .. })), "{loaded:?}");
        let filled = fill(&store, table, 0);
        assert!(filled > (PAGES - 40) * 6, "{filled} rows fit");
        let mut tables = 0;
        let refused = loop {
            match store.create_table(&format!("table {tables}")) {
                Ok(_) => tables += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, StoreError::DiskFull { .. }) && tables < 20, "{refused}, {tables} tables");
        assert!(refused.to_string().contains("enlarge the disk"), "{refused}");
        // A deletion that comes back while others grow into what it left.
        let mut deletes = store.begin();
        for number in (0..filled).step_by(20) {
            assert!(deletes.delete(table, &number.to_be_bytes()).unwrap());
        }
        assert_eq!(fill(&store, table, filled), filled, "the deleted rows' room is not given away");
        deletes.abort().unwrap();
        // In small transactions the disk is emptied, and it fills again.
        for number in 0..filled {
            let mut txn = store.begin();
            assert!(txn.delete(table, &number.to_be_bytes()).unwrap());
            txn.commit().unwrap();
        }
        assert_eq!(fill(&store, table, 0), filled);
        store.verify().unwrap();
        store.shutdown().unwrap();
    })
    .unwrap();
    let mut small = site.after_crash(|| Survival::None);
    let disk = MemoryDevice::new("disk", disk_bytes(PAGES - 40));
    let mut bytes = vec![0; disk_bytes(PAGES - 40) as usize];
    entresol_device::Device::read(&*small.disk, 0, &mut bytes).unwrap();
    entresol_device::Device::write(&disk, 0, &bytes).unwrap();
    small.disk = Arc::new(Slow { device: FaultyDevice::new("disk", disk, small.plan.clone()), nanos: 2000 });
    let error = simulate(2, || small.open().err().map(|error| error.to_string())).unwrap().unwrap();
    assert!(error.contains("open it with a disk at least as large"), "{error}");
}

//! What operations cost when all pages are in DRAM: `cargo run --release -p entresol-store --example
//! store_cost`.
//!
//! Real runtime, one thread, log and disk in memory. Prints the thread's processor time for each operation;
//! asserts nothing.

use entresol_device::MemoryDevice;
use entresol_engine::DiskLayer;
use entresol_runtime::rng::Rng;
use entresol_store::{Direction, Lock, Options, Parts, Store, Table};
use std::sync::Arc;
use std::time::Instant;

const ROWS: u32 = 1_000_000;
/// Rows that are read and changed: 4 MB of pages, as the pool of a scaled-down simulation.
const HOT: u32 = 30_000;

fn random(rng: &mut Rng) -> u32 {
    rng.below(u64::from(HOT)) as u32
}

fn key(row: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&(row / 100_000).to_be_bytes());
    key[8..].copy_from_slice(&row.to_be_bytes());
    key
}

/// Nanoseconds that this thread has run (Linux; wall clock elsewhere).
fn processor_nanos(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|line| line.split(' ').next()?.parse().ok())
        .unwrap_or(start.elapsed().as_nanos() as f64)
}

fn time(what: &str, count: u32, mut f: impl FnMut(u32)) {
    let start = Instant::now();
    let before = processor_nanos(start);
    for i in 0..count {
        f(i);
    }
    println!("{what:44} {:8.0} ns", (processor_nanos(start) - before) / f64::from(count));
}

fn load(store: &Store) -> Table {
    let table = store.create_table("rows").expect("a new table");
    let mut row = 0;
    let start = Instant::now();
    let before = processor_nanos(start);
    store
        .bulk_load(table, 0.9, &mut |k, v| {
            k.extend_from_slice(&key(row));
            v.extend_from_slice(&[row as u8; 100]);
            row += 1;
            row <= ROWS
        })
        .expect("rows in order");
    let rate = f64::from(ROWS) / (processor_nanos(start) - before) * 1e3;
    println!("{:44} {rate:8.2} million rows a second", "bulk load");
    table
}

fn main() {
    let layer = DiskLayer::create(Arc::new(MemoryDevice::new("disk", 1 << 30)), 4096).expect("a disk");
    let log = Arc::new(MemoryDevice::new("log", 256 << 20));
    let options = Options { frames: 60_000, ..Options::default() };
    let store = Store::create(Parts { layer, log }, options).expect("a store");
    let table = load(&store);
    println!("{:44} {:8} pages", "database", store.pages());
    let (mut rng, mut value) = (Rng::new(1), Vec::new());
    let mut txn = store.begin();
    txn.scan(table, &[], &[0xff], Direction::Forward, Lock::None, &mut |_, _| true).expect("a scan");
    let s = &mut rng;
    time("get without lock", 1_000_000, |_| {
        assert!(txn.get(table, &key(random(s)), Lock::None, &mut value).expect("a row"));
    });
    time("get without lock, anywhere in 130 MB", 300_000, |i| {
        let row = (u64::from(i) * 0x9e37_79b1 % u64::from(ROWS)) as u32;
        assert!(txn.get(table, &key(row), Lock::None, &mut value).expect("a row"));
    });
    time("get of one row", 1_000_000, |_| {
        assert!(txn.get(table, &key(4711), Lock::None, &mut value).expect("a row"));
    });
    drop(txn);
    time("get, shared lock, 60 to a transaction", 5_000, |_| {
        let mut txn = store.begin();
        for _ in 0..60 {
            txn.get(table, &key(random(s)), Lock::Shared, &mut value).expect("a row");
        }
        txn.commit().expect("a commit");
    });
    for full_page_writes in [true, false] {
        if full_page_writes {
            store.checkpoint().expect("a checkpoint");
        }
        time(&format!("update x 60, a transaction (first pass {full_page_writes})"), 5_000, |i| {
            let mut txn = store.begin();
            for _ in 0..60 {
                txn.update(table, &key(random(s)), &[i as u8; 100]).expect("a row");
            }
            txn.commit().expect("a commit");
        });
    }
    time("insert and delete x 30, a transaction", 5_000, |i| {
        let mut txn = store.begin();
        for at in 0..30 {
            let mut key = [9; 20];
            key[..4].copy_from_slice(&(i % 10).to_be_bytes());
            key[8..12].copy_from_slice(&(i * 30 + at).to_be_bytes());
            txn.insert(table, &key, &[1; 60]).expect("a new row");
            if i > 10 {
                key[8..12].copy_from_slice(&((i - 10) * 30 + at).to_be_bytes());
                txn.delete(table, &key).expect("a row");
            }
        }
        txn.commit().expect("a commit");
    });
    time("scan of 20 rows", 200_000, |_| {
        let row = random(s);
        let mut txn = store.begin();
        let visit = &mut |_: &[u8], _: &[u8]| true;
        txn.scan(table, &key(row), &key(row + 20), Direction::Forward, Lock::None, visit).expect("rows");
        txn.commit().expect("a commit");
    });
    println!("{:?}", store.metrics());
    println!("{:?}", store.verify().expect("a sound store"));
}

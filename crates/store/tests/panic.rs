//! A panic in the log's device ends the log, with an error for everybody; nobody waits for ever.

mod support;

use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::DiskLayer;
use entresol_store::{Parts, Store, StoreError};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::ledger;

const CLIENTS: u64 = 16;

#[test]
fn a_log_whose_device_panics_has_failed_for_everybody() {
    let disk = Arc::new(MemoryDevice::new("disk", 8 << 20));
    let plan = Arc::new(FaultPlan::none());
    let log = Arc::new(FaultyDevice::new("log", MemoryDevice::new("log", 2 << 20), plan.clone()));
    let layer = DiskLayer::create(disk, 4096).unwrap();
    let store = Store::create(Parts { layer, log }, ledger::options()).unwrap();
    let table = store.create_table("rows").unwrap();
    let (told, answers) = channel();
    for client in 0..CLIENTS {
        let (store, told) = (store.clone(), told.clone());
        std::thread::spawn(move || {
            // Whoever panics itself tells nothing.
            for row in 0u64.. {
                let mut txn = store.begin();
                let key = [client.to_be_bytes(), row.to_be_bytes()].concat();
                if let Err(error) = txn.insert(table, &key, b"value").and_then(|()| txn.commit().map(drop)) {
                    told.send(error).unwrap();
                    break;
                }
            }
        });
    }
    drop(told);
    let at = plan.operations() + 1;
    plan.inject(Injection { at, device: None, fault: Fault::Panic, forever: false });
    let mut failed = 0;
    // The time only bounds a test that fails.
    while let Ok(error) = answers.recv_timeout(Duration::from_secs(60)) {
        assert!(matches!(error, StoreError::Log(_)) && error.to_string().contains("panicked"), "{error}");
        failed += 1;
    }
    assert_eq!(failed, CLIENTS - 1, "all but the one that panicked are told");
}

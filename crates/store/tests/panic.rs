//! A panic in a device is an error for everybody else; nobody waits for ever.

mod support;

use entresol_core::PolicyKind;
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Mode, TierOptions};
use entresol_store::{Options, Parts, Store, StoreError};
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
    let at = plan.operations() + 100;
    plan.inject(Injection { at, device: None, fault: Fault::Panic, forever: false });
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
    let mut failed = 0;
    // The time only bounds a test that fails.
    while let Ok(error) = answers.recv_timeout(Duration::from_secs(60)) {
        assert!(matches!(error, StoreError::Log(_)) && error.to_string().contains("panicked"), "{error}");
        failed += 1;
    }
    assert_eq!(failed, CLIENTS - 1, "all but the one that panicked are told");
}

/// The disk panics while a client evicts a page, in the midst of a fix.
#[test]
fn a_disk_that_panics_in_a_client_leaves_nobody_waiting() {
    for policy in [PolicyKind::FaceGsc, PolicyKind::Tac] {
        let plan = Arc::new(FaultPlan::none());
        let disk = Arc::new(FaultyDevice::new("disk", MemoryDevice::new("disk", 8 << 20), plan.clone()));
        let log = Arc::new(MemoryDevice::new("log", 8 << 20));
        let flash = Arc::new(MemoryDevice::new("flash", 16 << 20));
        let tier =
            TierOptions { mode: Mode::WriteThrough, ..TierOptions::for_device(policy, 16 << 20, 4096) };
        let layer = FlashTier::create(flash, disk, tier).unwrap();
        let options = Options { frames: 64, ..ledger::options() };
        let store = Store::create(Parts { layer, log }, options).unwrap();
        let table = store.create_table("rows").unwrap();
        let at = plan.operations() + 200;
        plan.inject(Injection { at, device: None, fault: Fault::Panic, forever: false });
        let (told, answers) = channel();
        for client in 0..CLIENTS {
            let (store, told) = (store.clone(), told.clone());
            std::thread::spawn(move || {
                let work = || {
                    for row in 0u64.. {
                        let mut txn = store.begin();
                        let key = [client.to_be_bytes(), row.to_be_bytes()].concat();
                        let done = txn.insert(table, &key, &[7; 500]).and_then(|()| txn.commit().map(drop));
                        if let Err(error) = done {
                            return error;
                        }
                    }
                    unreachable!()
                };
                told.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))).unwrap();
            });
        }
        drop(told);
        let (mut failed, mut panicked) = (0, 0);
        // The time only bounds a test that fails.
        while let Ok(end) = answers.recv_timeout(Duration::from_secs(60)) {
            match end {
                Ok(error) => {
                    // A read that panics has left nothing behind, and all go on until the disk is full.
                    let is_full = matches!(error, StoreError::DiskFull { .. });
                    assert!(is_full || error.to_string().contains("panicked"), "{policy:?}: {error}");
                    failed += 1;
                }
                Err(_) => panicked += 1,
            }
        }
        assert!(
            panicked <= 1 && failed + panicked == CLIENTS,
            "{policy:?}: {failed} failed, {panicked} panicked"
        );
        let (told, answers) = channel();
        std::thread::spawn(move || told.send(store.shutdown()).unwrap());
        let _ = answers.recv_timeout(Duration::from_secs(60)).expect("the shutdown ends");
    }
}

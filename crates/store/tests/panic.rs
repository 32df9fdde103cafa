//! A panic in the log's device ends the log, with an error for everybody; nobody waits for ever.

mod support;

use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::DiskLayer;
use entresol_store::{Parts, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;
use support::ledger;

const CLIENTS: u64 = 16;

/// Panics once, at the first write or sync after it is told to.
struct Panicking(MemoryDevice, AtomicBool);

impl Panicking {
    fn panic_if_told(&self) {
        if self.1.swap(false, SeqCst) {
            std::panic::resume_unwind(Box::new("a device's own mistake"));
        }
    }
}

impl Device for Panicking {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        self.panic_if_told();
        self.0.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.panic_if_told();
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[test]
fn a_log_whose_device_panics_has_failed_for_everybody() {
    let disk = Arc::new(MemoryDevice::new("disk", 8 << 20));
    let log = Arc::new(Panicking(MemoryDevice::new("log", 2 << 20), AtomicBool::new(false)));
    let layer = DiskLayer::create(disk, 4096).unwrap();
    let store = Store::create(Parts { layer, log: log.clone() }, ledger::options()).unwrap();
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
    log.1.store(true, SeqCst);
    let mut failed = 0;
    // The time only bounds a test that fails.
    while let Ok(error) = answers.recv_timeout(Duration::from_secs(60)) {
        assert!(matches!(error, StoreError::Log(_)) && error.to_string().contains("panicked"), "{error}");
        failed += 1;
    }
    assert_eq!(failed, CLIENTS - 1, "all but the one that panicked are told");
}

//! Stores for tests: memory devices under the two-layer baseline.

use entresol_device::{Device, MemoryDevice};
use entresol_engine::DiskLayer;
use entresol_store::{Options, Parts, Store};
use std::sync::Arc;

const PAGE_BYTES: u32 = 4096;
const DISK_BYTES: u64 = 256 << 20;
const LOG_BYTES: u64 = 64 << 20;

/// The devices of a store, which outlive it.
pub struct Devices {
    disk: Arc<dyn Device>,
    log: Arc<dyn Device>,
}

impl Devices {
    /// Empty ones.
    pub fn new() -> Self {
        Self {
            disk: Arc::new(MemoryDevice::new("disk", DISK_BYTES)),
            log: Arc::new(MemoryDevice::new("log", LOG_BYTES)),
        }
    }

    /// A new store on them.
    pub fn create(&self, options: Options) -> Store {
        let layer = DiskLayer::create(self.disk.clone(), PAGE_BYTES).expect("the disk is new");
        Store::create(Parts { layer, log: self.log.clone() }, options).expect("the devices are large enough")
    }

    /// The store on them, after a restart.
    pub fn open(&self, options: Options) -> Store {
        let layer = DiskLayer::open(self.disk.clone(), PAGE_BYTES).expect("the disk has its label");
        Store::open(Parts { layer, log: self.log.clone() }, options).expect("the store can be restarted").0
    }
}

/// So few frames that pages come and go all the time.
pub fn few_frames() -> Options {
    Options { page_bytes: PAGE_BYTES, frames: 256, ..Options::default() }
}

/// An empty store.
pub fn new_store() -> Store {
    Devices::new().create(few_frames())
}

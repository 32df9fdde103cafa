//! SKELETON of the public interface, to be replaced by the real modules with the same signatures.
#![allow(missing_docs, unused_variables, clippy::missing_errors_doc)]

use entresol_core::Lsn;
use entresol_device::Device;
use entresol_engine::{Layer, TierMetrics};
use std::sync::Arc;
use std::time::Duration;

/// Which DRAM frame goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    Lru,
    Clock,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a page: 4096 unless told (power of two, 4 KiB ..= 32 KiB).
    pub page_bytes: u32,
    /// DRAM frames.
    pub frames: usize,
    pub replacement: Replacement,
    /// Time between fuzzy checkpoints; `None`: only when asked.
    pub checkpoint_interval: Option<Duration>,
    /// Log a full image at a page's first change after a checkpoint (torn-page protection).
    pub full_page_writes: bool,
    /// Modelled processor time of one page access and of one transaction (simulated runtime only).
    pub cpu_per_fix: Duration,
    pub cpu_per_transaction: Duration,
}

/// What a store stands on. `layer` is `entresol_engine`'s flash tier or its disk layer.
#[derive(Clone)]
pub struct Parts {
    pub layer: Arc<dyn Layer>,
    pub log: Arc<dyn Device>,
}

/// What a restart did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestartReport {
    pub duration: Duration,
    pub analysis: Duration,
    pub redo: Duration,
    pub undo: Duration,
    pub log_bytes: u64,
    pub records: u64,
    /// Pages fetched by redo and undo, and how many of these came from flash or staging.
    pub pages_fetched: u64,
    pub pages_from_flash: u64,
    pub losers: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    pub fixes: u64,
    pub hits: u64,
    pub commits: u64,
    pub aborts: u64,
    pub deadlocks: u64,
    pub log_bytes: u64,
    pub log_syncs: u64,
    pub checkpoints: u64,
    pub tier: TierMetrics,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The transaction was chosen as the victim of a deadlock; abort it and run it again.
    #[error("deadlock: the transaction must be aborted and run again")]
    Deadlock,
    #[error("key already exists")]
    DuplicateKey,
    #[error("{0}")]
    Other(String),
}

/// A B+-tree of byte-string keys and values; cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    pub id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Read the newest version whoever wrote it (no lock).
    None,
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

#[derive(Clone)]
pub struct Store {}

impl Store {
    /// A new, empty store; the layer and the log device are overwritten.
    pub fn create(parts: Parts, options: Options) -> Result<Store, StoreError> {
        unimplemented!()
    }
    /// Opens an existing store: ARIES restart if it was not shut down cleanly.
    pub fn open(parts: Parts, options: Options) -> Result<(Store, RestartReport), StoreError> {
        unimplemented!()
    }
    pub fn create_table(&self, name: &str) -> Result<Table, StoreError> {
        unimplemented!()
    }
    pub fn table(&self, name: &str) -> Result<Option<Table>, StoreError> {
        unimplemented!()
    }
    /// Fills an empty table bottom-up from rows in strictly ascending key order: not logged row by row; durable at the next checkpoint.
    /// `fill` 0.5 ..= 1.0 is the share of a leaf to fill. Must be fast: at least 3 million 100-byte rows a second.
    pub fn bulk_load(&self, table: Table, fill: f64, rows: &mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool) -> Result<u64, StoreError> {
        unimplemented!()
    }
    pub fn begin(&self) -> Txn {
        unimplemented!()
    }
    pub fn checkpoint(&self) -> Result<Lsn, StoreError> {
        unimplemented!()
    }
    /// Pages allocated on the disk.
    pub fn pages(&self) -> u64 {
        unimplemented!()
    }
    pub fn metrics(&self) -> StoreMetrics {
        unimplemented!()
    }
    /// Checkpoints, drains the layer and ends background work.
    pub fn shutdown(self) -> Result<(), StoreError> {
        unimplemented!()
    }
}

/// A transaction: strict two-phase row locks. Dropping it aborts it.
pub struct Txn {}

impl Txn {
    /// Copies the row into `value` (cleared first); false if there is none.
    pub fn get(&mut self, table: Table, key: &[u8], lock: Lock, value: &mut Vec<u8>) -> Result<bool, StoreError> {
        unimplemented!()
    }
    pub fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// Replaces the row's value (any length); false if there is none. Takes the exclusive lock.
    pub fn update(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        unimplemented!()
    }
    pub fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        unimplemented!()
    }
    /// Visits the rows with `from <= key < to` in the direction's order, each under `lock`, until `visit` returns false.
    pub fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        lock: Lock,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// Durable when it returns (group commit).
    pub fn commit(self) -> Result<Lsn, StoreError> {
        unimplemented!()
    }
    pub fn abort(self) -> Result<(), StoreError> {
        unimplemented!()
    }
}

//! What a crash test runs, and how it knows what may be found afterwards.

use entresol_store::{CpuModel, Options, Store};
use parking_lot::Mutex;
use std::sync::Arc;

/// Clients on a store, and the record kept outside of it.
pub trait Workload: Send + Sync + 'static {
    /// What is known outside of the store: acknowledged commits, and those under way. A copy of it is taken
    /// at each crash. It is never locked across a wait.
    type Oracle: Clone + Send + 'static;

    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// Settings of the store.
    fn options(&self) -> Options;

    /// Processor time that transactions take.
    fn cpu(&self) -> CpuModel {
        CpuModel::default()
    }

    /// Bytes of the disk and of the log.
    fn device_bytes(&self) -> (u64, u64);

    /// Of all devices: bytes of a sector, and of what the medium writes at once.
    fn sectors(&self) -> (u32, u32) {
        (512, 512)
    }

    /// Groups of the cache; 0: as few as possible.
    fn flash_groups(&self) -> u32;

    /// Fills an empty store.
    fn load(&self, store: &Store) -> Result<Self::Oracle, String>;

    /// Runs clients until each has done `transactions` transactions. Everything they choose comes from
    /// `seed`. A mistake of the store that a client notices is an error or a panic.
    fn work(
        &self,
        store: &Store,
        oracle: &Arc<Mutex<Self::Oracle>>,
        seed: u64,
        transactions: u64,
    ) -> Result<(), String>;

    /// Compares the store with the record, after a restart: nothing acknowledged is lost, nothing uncommitted
    /// is visible, invariants hold. The oracle learns what became of the commits that were under way. Errors
    /// say what is wrong.
    fn verify(&self, store: &Store, oracle: &mut Self::Oracle) -> Result<(), String>;
}

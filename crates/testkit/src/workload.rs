//! The workload of a crash test, and its oracle.

use entresol_store::{CpuModel, Options, Store};
use parking_lot::Mutex;
use std::sync::Arc;

/// Clients on a store, and the oracle outside of it.
pub trait Workload: Send + Sync + 'static {
    /// The knowledge outside of the store: acknowledged commits, and commits in flight. It is copied at each
    /// crash. It is never locked across a wait.
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

    /// For all devices: bytes of a sector, and bytes that the medium writes at once.
    fn sectors(&self) -> (u32, u32) {
        (512, 512)
    }

    /// Groups of the cache; 0: as few as possible.
    fn flash_groups(&self) -> u32;

    /// Fills an empty store.
    fn load(&self, store: &Store) -> Result<Self::Oracle, String>;

    /// Runs clients until each has run `transactions` transactions. All their choices are drawn from `seed`.
    /// An error of the store that a client notices is an error or a panic.
    fn work(
        &self,
        store: &Store,
        oracle: &Arc<Mutex<Self::Oracle>>,
        seed: u64,
        transactions: u64,
    ) -> Result<(), String>;

    /// Compares the store with the oracle after a restart: no acknowledged change is lost, no uncommitted
    /// change is visible, invariants hold. The oracle resolves the commits that were in flight. Errors
    /// describe the defect.
    fn verify(&self, store: &Store, oracle: &mut Self::Oracle) -> Result<(), String>;
}

//! The TPC-C workload: few clients on a tiny database. Afterwards all acknowledged transactions are there,
//! and all consistency conditions of clause 3.3.2 hold.

use crate::subject::PAGE_BYTES;
use crate::workload::Workload;
use entresol_runtime::{now, sleep};
use entresol_store::{CpuModel, Options, Store};
use entresol_tpcc::consistency::{Depth, check};
use entresol_tpcc::{
    Acknowledged, Database, LoadConfig, RunConfig, Scale, Seed, load, start, verify_acknowledged,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The workload's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpcc {
    /// Number of clients; they have no think time.
    pub clients: u32,
    /// Warehouses of the loaded database.
    pub warehouses: u32,
}

impl Default for Tpcc {
    fn default() -> Self {
        Self { clients: 4, warehouses: 1 }
    }
}

/// Virtual time between checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(20);

impl Workload for Tpcc {
    /// All acknowledged transactions.
    type Oracle = Vec<Acknowledged>;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn options(&self) -> Options {
        Options {
            page_bytes: PAGE_BYTES,
            frames: 128,
            checkpoint_interval: Some(CHECKPOINT_EVERY),
            ..Options::default()
        }
    }

    fn cpu(&self) -> CpuModel {
        CpuModel { per_transaction: Duration::from_micros(50), ..CpuModel::default() }
    }

    fn device_bytes(&self) -> (u64, u64) {
        ((16 << 20) * u64::from(self.warehouses), 4 << 20)
    }

    fn flash_groups(&self) -> u32 {
        48
    }

    fn load(&self, store: &Store) -> Result<Self::Oracle, String> {
        let config = LoadConfig { scale: Scale::tiny(self.warehouses), seed: Seed(1) };
        load(store, &config, &mut |_| ()).map_err(|error| error.to_string())?;
        Ok(Vec::new())
    }

    fn work(
        &self,
        store: &Store,
        oracle: &Arc<Mutex<Self::Oracle>>,
        seed: u64,
        transactions: u64,
    ) -> Result<(), String> {
        let database = Database::open(store).map_err(|error| error.to_string())?;
        let notes = oracle.clone();
        let config = RunConfig {
            transactions_per_client: Some(transactions),
            acknowledge: Some(Arc::new(move |one: &Acknowledged| notes.lock().push(*one))),
            ..RunConfig::new(self.clients, Seed(seed))
        };
        let began = now();
        let run = start(&database, &config).map_err(|error| error.to_string())?;
        run.finish().map_err(|error| error.to_string())?;
        // The last commits are not always followed by a checkpoint.
        if now().since(began) < CHECKPOINT_EVERY {
            sleep(CHECKPOINT_EVERY);
        }
        Ok(())
    }

    fn verify(&self, store: &Store, oracle: &mut Self::Oracle) -> Result<(), String> {
        let database = Database::open(store).map_err(|error| error.to_string())?;
        let verification = verify_acknowledged(&database, &*oracle).map_err(|error| error.to_string())?;
        if verification.lost > 0 {
            return Err(format!("acknowledged transactions are lost: {verification}"));
        }
        let report = check(&database, Depth::Full).map_err(|error| error.to_string())?;
        if report.is_consistent() {
            Ok(())
        } else {
            Err(format!("a consistency condition is broken: {report}"))
        }
    }
}

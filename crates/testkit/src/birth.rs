//! Crashes while a store is created and loaded. Afterwards either there is no store, or each of its tables is
//! missing, empty or complete.

use crate::life::{finished, simulation};
use crate::machine::{Machine, Media};
use crate::subject::Subject;
use crate::workload::Workload;
use entresol_device::FaultPlan;
use entresol_engine::TierError;
use entresol_runtime::rng::Rng;
use entresol_store::{Direction, Lock, Parts, Store, StoreError};
use std::collections::BTreeMap;

type Rows = BTreeMap<String, u64>;

/// A store to be created and loaded, once for each crash.
pub struct Birth<'a, W> {
    workload: &'a W,
    system: Subject,
    seed: u64,
    /// Rows of each table after the load.
    complete: Rows,
    operations: u64,
}

/// Rows of each table of a store.
fn rows(store: &Store) -> Result<Rows, StoreError> {
    let mut rows = Rows::new();
    for (name, table) in store.tables()? {
        let mut count = 0;
        store.begin().scan(table, &[], &[0xff; 16], Direction::Forward, Lock::None, &mut |_, _| {
            count += 1;
            true
        })?;
        rows.insert(name, count);
    }
    Ok(rows)
}

impl<'a, W: Workload> Birth<'a, W> {
    /// Creates and loads a store once, without a crash.
    ///
    /// # Errors
    /// Describes the error in a sentence.
    pub fn new(workload: &'a W, system: Subject, seed: u64) -> Result<Self, String> {
        let mut birth = Self { workload, system, seed, complete: Rows::new(), operations: 0 };
        let machine = birth.machine(FaultPlan::none());
        birth.complete = birth.make(&machine)?.ok_or("power failed though no crash was planned")?;
        birth.operations = machine.plan.operations();
        Ok(birth)
    }

    /// Number of device operations of one creation and load.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    fn machine(&self, plan: FaultPlan) -> Machine {
        let (disk, log) = self.workload.device_bytes();
        let groups = self.workload.flash_groups();
        Machine::new(Media::blank(disk, log, self.system.flash_bytes(groups)), plan, groups)
    }

    /// `None`: power failed.
    fn make(&self, machine: &Machine) -> Result<Option<Rows>, String> {
        let made = simulation(self.seed).run(|| -> Result<Rows, String> {
            let layer = self.system.create(machine).map_err(|error| error.to_string())?;
            let parts = Parts { layer, log: machine.log() };
            let store = Store::create(parts, self.workload.options()).map_err(|error| error.to_string())?;
            store.model_cpu(self.workload.cpu());
            self.workload.load(&store)?;
            rows(&store).map_err(|error| error.to_string())
        });
        finished(made)?.transpose()
    }

    /// Power fails at operation `at`, counted from 1. Then checks the remaining store, and returns the number
    /// of rows of all tables; `None`: no store yet.
    ///
    /// # Errors
    /// Describes the defect in a sentence.
    pub fn crash_at(&self, at: u64) -> Result<Option<u64>, String> {
        let machine = self.machine(FaultPlan::crash_at(at));
        if self.make(&machine)?.is_some() {
            return Err(format!("power was to fail at operation {at}, but the store was made"));
        }
        let left = machine.after_crash(Rng::new(self.seed ^ at << 20).next_u64());
        let machine = Machine::new(left, FaultPlan::none(), self.workload.flash_groups());
        let found = simulation(self.seed).run(|| self.look(&machine));
        let found = finished(found)?.ok_or("the simulation was halted though no crash was planned")??;
        let Some(found) = found else { return Ok(None) };
        for (table, rows) in &found {
            let complete = self.complete.get(table);
            if *rows != 0 && complete != Some(rows) {
                return Err(format!("table {table:?} has {rows} rows, {complete:?} were loaded"));
            }
        }
        Ok(Some(found.values().sum()))
    }

    fn look(&self, machine: &Machine) -> Result<Option<Rows>, String> {
        let layer = match self.system.open(machine) {
            Ok(layer) => layer,
            Err(TierError::Refused(_)) => return Ok(None),
            Err(error) => return Err(format!("opening the layer: {error}")),
        };
        let store = match Store::open(Parts { layer, log: machine.log() }, self.workload.options()) {
            Ok((store, _)) => store,
            // No master record has been written yet.
            Err(StoreError::Config(_)) => return Ok(None),
            Err(error) => return Err(format!("restarting: {error}")),
        };
        store.model_cpu(self.workload.cpu());
        store.verify().map_err(|error| format!("verifying the trees: {error}"))?;
        rows(&store).map(Some).map_err(|error| error.to_string())
    }
}

//! One life of a machine: power on, restart, verification, transactions, then shutdown or power failure.

use crate::machine::{Machine, Media};
use crate::subject::Subject;
use crate::workload::Workload;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_store::{Parts, RestartReport, Store, StoreMetrics};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Maximum delay of a request on either side, while delays are on.
const LATENCY_MAX: Duration = Duration::from_micros(40);

/// A life's settings.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether the content is compared with the oracle after the restart.
    pub verify: bool,
    /// Transactions of each client after the restart.
    pub transactions: u64,
}

/// The results of a life without a power failure.
#[derive(Clone, Debug)]
pub struct Lived {
    /// Device operations until the end of the restart.
    pub restart_operations: u64,
    /// Device operations until the end of the shutdown.
    pub operations: u64,
    /// The report of the restart.
    pub restart: RestartReport,
    /// The store's metrics.
    pub metrics: StoreMetrics,
}

/// Tasks in an order by the seed. With half of the seeds, tasks that are about to take a lock are preempted.
pub(crate) fn simulation(seed: u64) -> Simulation {
    let preempt_one_of = [0, 4, 0, 25][seed as usize % 4];
    Simulation::new(SimConfig { seed, random_order: true, preempt_one_of, ..SimConfig::default() })
}

/// Loads `workload` into a new store and shuts it down. Returns the media and the oracle of their content.
pub fn prepare<W: Workload>(workload: &W, system: Subject, seed: u64) -> Result<(Media, W::Oracle), String> {
    let (disk, log) = workload.device_bytes();
    let media =
        Media::blank(disk, log, system.flash_bytes(workload.flash_groups())).with_sectors(workload.sectors());
    let machine = Machine::new(media, entresol_device::FaultPlan::none(), workload.flash_groups());
    let outcome: Outcome<Result<_, String>> = simulation(seed).run(|| {
        let layer = system.create(&machine).map_err(|error| format!("creating the layer: {error}"))?;
        let parts = Parts { layer, log: machine.log() };
        let store = Store::create(parts, system.settings(&machine, workload.options()))
            .map_err(|error| error.to_string())?;
        store.model_cpu(workload.cpu());
        let oracle = workload.load(&store)?;
        shut_down(store, seed)?;
        Ok(oracle)
    });
    let oracle = finished(outcome)?.ok_or("the simulation was halted though no crash was planned")??;
    Ok((machine.after_crash(seed), oracle))
}

/// With half of the seeds, dirty pages may stay on flash.
fn shut_down(store: Store, seed: u64) -> Result<(), String> {
    match seed % 2 {
        0 => store.shutdown(),
        _ => store.shutdown_quickly(),
    }
    .map_err(|error| format!("shutting down: {error}"))
}

/// `None`: power failed.
pub(crate) fn finished<T>(outcome: Outcome<T>) -> Result<Option<T>, String> {
    match outcome {
        Outcome::Finished(result) => Ok(Some(result)),
        Outcome::Halted => Ok(None),
        Outcome::Deadlock { parked } => Err(format!("nothing goes on: {parked:?} wait for ever")),
        Outcome::Panicked(message) => Err(message),
    }
}

impl Life {
    /// Runs the life. `None`: power failed. An error describes a defect of the store.
    pub fn live<W: Workload>(
        &self,
        workload: &W,
        system: Subject,
        machine: &Machine,
        oracle: &Arc<Mutex<W::Oracle>>,
    ) -> Result<Option<Lived>, String> {
        let outcome = simulation(self.seed).run(|| self.body(workload, system, machine, oracle));
        let lived = finished(outcome)?.transpose()?;
        if lived.is_none() && !machine.plan.has_crashed() {
            return Err("the simulation was halted though no crash was planned".to_owned());
        }
        Ok(lived)
    }

    fn body<W: Workload>(
        &self,
        workload: &W,
        system: Subject,
        machine: &Machine,
        oracle: &Arc<Mutex<W::Oracle>>,
    ) -> Result<Lived, String> {
        machine.pace.set(LATENCY_MAX);
        let layer = system.open(machine).map_err(|error| format!("opening the layer: {error}"))?;
        let parts = Parts { layer, log: machine.log() };
        let (store, restart) = Store::open(parts, system.settings(machine, workload.options()))
            .map_err(|error| format!("restarting: {error}"))?;
        machine.opened(&store);
        store.model_cpu(workload.cpu());
        let restart_operations = machine.plan.operations();
        if self.verify {
            machine.pace.set(Duration::ZERO);
            store.verify().map_err(|error| format!("verifying the trees after the restart: {error}"))?;
            let mut known = oracle.lock().clone();
            workload.verify(&store, &mut known)?;
            *oracle.lock() = known;
            machine.pace.set(LATENCY_MAX);
        }
        if self.transactions > 0 {
            workload.work(&store, oracle, self.seed, self.transactions)?;
        }
        let metrics = store.metrics();
        shut_down(store, self.seed)?;
        Ok(Lived { restart_operations, operations: machine.plan.operations(), restart, metrics })
    }
}

//! Leftovers in the log:
//! 1. Power fails during a long flush. The beginning of the flush is lost, and a part of the rest survives
//!    after the end of the log.
//! 2. The machine restarts many times and loses power each time. So the log grows over the leftovers sector
//!    by sector, and ends once at each sector boundary before them.
//! 3. A record of an older life that begins at the end of the log is complete and at its position. Only its
//!    epoch tells that it does not belong to this log.
//!
//! Invariant: the seed determines everything.

use crate::Bank;
use crate::life::{Life, finished, simulation};
use crate::machine::{Devices, Machine, Media};
use crate::moments::Moments;
use crate::subject::Subject;
use crate::workload::Workload;
use entresol_device::FaultPlan;
use entresol_runtime::rng::Rng;
use entresol_store::{Parts, Store};
use parking_lot::Mutex;
use std::sync::Arc;

/// Maximum number of torn flushes that are examined.
const MOMENTS_MAX: u64 = 3;
/// Number of restarts after each.
const RESTARTS: u64 = 24;

/// A store whose log is torn.
#[derive(Clone, Copy, Debug)]
pub struct Leftovers {
    /// The system under test.
    pub system: Subject,
    /// Seed of all random choices.
    pub seed: u64,
    /// Transactions of each client before the power failure.
    pub transactions: u64,
}

impl Leftovers {
    /// A bank that writes long records with few changes. It runs one transaction at a time, so restarts have
    /// almost nothing to undo. It logs no images on systems that do not need them.
    pub fn bank(bank: &Bank) -> Bank {
        Bank { clients: 1, long: 1, checkpoint_interval: None, ..*bank }
    }

    /// Runs the scenario; returns the number of crashes.
    ///
    /// # Errors
    /// Describes the defect in a sentence.
    pub fn run(&self, bank: &Bank) -> Result<u64, String> {
        let mut crashes = 0;
        let moments = Moments {
            system: self.system,
            seed: self.seed,
            transactions: self.transactions,
            most: MOMENTS_MAX,
        };
        let look = |devices: &Devices, at: u64, is_wanted: &mut dyn FnMut() -> bool| {
            devices.after_torn_flush(at).filter(|_| is_wanted())
        };
        for torn in moments.of(bank, look)? {
            let told = |why| format!("power failed at operation {} in a flush of the log: {why}", torn.at);
            crashes += self.go_over(bank, torn.media, torn.oracle, torn.at).map_err(told)?;
        }
        Ok(crashes)
    }

    /// Restarts many times, then compares all rows with the oracle.
    fn go_over(
        &self,
        bank: &Bank,
        mut media: Media,
        oracle: <Bank as Workload>::Oracle,
        at: u64,
    ) -> Result<u64, String> {
        let mut rng = Rng::new(self.seed ^ at << 17);
        let groups = bank.flash_groups();
        let restarts = 1 + rng.below(RESTARTS);
        for restart in 1..=restarts {
            let machine = Machine::new(media, FaultPlan::none(), groups);
            let seed = rng.next_u64();
            self.restart(bank, &machine, seed).map_err(|why| format!("restart {restart} after it: {why}"))?;
            media = machine.after_crash(seed);
        }
        let machine = Machine::new(media, FaultPlan::none(), groups);
        let life = Life { seed: rng.next_u64(), verify: true, transactions: 2 };
        life.live(bank, self.system, &machine, &Arc::new(Mutex::new(oracle)))
            .and_then(|lived| lived.ok_or_else(|| "power failed though no crash was planned".to_owned()))
            .map_err(|why| format!("after {restarts} restarts: {why}"))?;
        Ok(1 + restarts)
    }

    /// A restart without a shutdown.
    fn restart(&self, bank: &Bank, machine: &Machine, seed: u64) -> Result<(), String> {
        let restarted = simulation(seed).run(|| -> Result<(), String> {
            let layer = self.system.open(machine).map_err(|error| format!("opening the layer: {error}"))?;
            let parts = Parts { layer, log: machine.log() };
            Store::open(parts, bank.options()).map(drop).map_err(|error| format!("restarting: {error}"))
        });
        finished(restarted)?.ok_or_else(|| "power failed though no crash was planned".to_owned())?
    }
}

//! A device of the store fails now and then; clients get errors; power fails. After a restart on sound
//! devices, no acknowledged change is lost.

use super::StoreRun;
use crate::life::{Life, prepare};
use crate::machine::Machine;
use crate::torture::fault::{FaultKind, LOUD};
use crate::torture::judge::simulate;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use entresol_device::{Fault, FaultPlan, Injection};
use entresol_runtime::rng::Rng;
use entresol_store::{Parts, Store};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Number of lives.
const LIVES: u64 = 4;
/// Maximum delay of a request on either side.
const LATENCY_MAX: Duration = Duration::from_micros(40);

impl StoreRun {
    pub(super) fn ailing(&self, tally: &mut Tally) -> Result<(), Found> {
        let wrong = |kind, message| Found { kind, message };
        let (media, oracle) = prepare(&self.bank, self.system, self.seed)
            .map_err(|message| wrong(FaultKind::Create, message))?;
        let media = media.freeze();
        let mut rng = Rng::new(self.seed ^ 0xa171);
        for _ in 0..LIVES {
            let fault = LOUD[rng.below(LOUD.len() as u64) as usize];
            let device = ["disk", "log", "flash"][rng.below(3) as usize];
            let at = 1 + rng.below(self.transactions * u64::from(self.bank.clients) * 20);
            let forever = rng.below(3) == 0;
            let kind = FaultKind::of(fault);
            let injection = Injection { at, device: Some(device.to_owned()), fault, forever };
            let seed = rng.next_u64();
            let plan = FaultPlan::new(seed, vec![injection]);
            let machine = Machine::new(media.thaw(), plan, self.bank.flash_groups());
            let known = Arc::new(Mutex::new(oracle.clone()));
            let told =
                |why| wrong(kind, format!("{:?}, {device} with {kind} at operation {at}: {why}", self.bank));
            self.ail(&machine, &known, seed).map_err(told)?;
            tally.lives += 1;
            tally.faults_struck += u64::from(machine.plan.struck() > 0);
            tally.count_on(kind, device);
            let life = Life { seed, verify: true, transactions: 2 };
            let groups = self.bank.flash_groups();
            // The program ends before power fails: later work must not be based on memory content whose sync
            // has failed.
            let machine = match fault == Fault::SyncErrorKeepingPages && rng.below(4) > 0 {
                true => {
                    let machine = machine.after_kill(FaultPlan::none());
                    life.live(&self.bank, self.system, &machine, &known)
                        .map_err(|why| told(format!("after a restart without a power failure: {why}")))?;
                    Machine::new(machine.after_crash(!seed), FaultPlan::none(), groups)
                }
                false => Machine::new(machine.after_crash(seed), FaultPlan::none(), groups),
            };
            life.live(&self.bank, self.system, &machine, &known)
                .and_then(|lived| lived.ok_or_else(|| "power failed though no crash was planned".to_owned()))
                .map_err(|why| told(format!("after the restart: {why}")))?;
            tally.restarts += 1;
        }
        Ok(())
    }

    /// A life that may end with any error, except that wrong data was served.
    fn ail(
        &self,
        machine: &Machine,
        oracle: &Arc<Mutex<<crate::Bank as Workload>::Oracle>>,
        seed: u64,
    ) -> Result<(), String> {
        machine.pace.set(LATENCY_MAX);
        let ended = simulate(seed, || -> Result<(), String> {
            let layer = self.system.open(machine).map_err(|error| error.to_string())?;
            let parts = Parts { layer, log: machine.log() };
            let (store, _) = Store::open(parts, self.bank.options()).map_err(|error| error.to_string())?;
            self.bank.work(&store, oracle, seed, self.transactions)?;
            store.shutdown().map_err(|error| error.to_string())
        })?;
        match ended {
            Some(Err(why)) if machine.plan.struck() == 0 => Err(format!("nothing was wrong, and yet: {why}")),
            // These are the bank's messages for data that a client must never read.
            Some(Err(why)) if why.contains("does not hold what") || why.contains("an audit found") => {
                Err(why)
            }
            _ => Ok(()),
        }
    }
}

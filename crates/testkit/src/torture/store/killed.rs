//! The program is killed, once or several times in a row, without a power failure. The next program can read
//! the unsynced writes, which are not durable. At the end power fails. Rows that a restart found after a kill
//! are never lost afterwards.

use crate::life::{Life, prepare};
use crate::machine::Machine;
use crate::torture::fault::FaultKind;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_device::{Fault, FaultPlan, Injection};
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Number of power failures.
const ROUNDS: u64 = 3;
/// Maximum number of kills before each.
const KILLS_MAX: u64 = 3;

/// Stores whose programs are killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Killed {
    /// The system under test.
    pub system: Subject,
    /// The content and the clients of the stores.
    pub bank: Bank,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of transactions of each client in a life.
    pub transactions: u64,
}

impl Killed {
    /// Runs the chapter, up to the first violation.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let wrong = |kind, message| Found { kind, message: format!("{:?}: {message}", self.bank) };
        let (media, oracle) =
            prepare(&self.bank, self.system, self.seed).map_err(|why| wrong(FaultKind::Create, why))?;
        let media = media.freeze();
        let groups = self.bank.flash_groups();
        let mut rng = Rng::new(self.seed ^ 0x4111);
        for _ in 0..ROUNDS {
            let known = Arc::new(Mutex::new(oracle.clone()));
            let live = |machine: &Machine, seed, transactions| {
                Life { seed, verify: true, transactions }.live(&self.bank, self.system, machine, &known)
            };
            // A kill leaves open whether a flush of the log in progress is complete.
            let slow = (rng.below(2) == 0).then_some("log");
            let mut machine = Machine::new(media.thaw(), self.death(&mut rng), groups).slowed(slow);
            let (mut kills, most) = (0, 1 + rng.below(KILLS_MAX));
            while kills < most {
                let lived = live(&machine, rng.next_u64(), self.transactions)
                    .map_err(|why| wrong(FaultKind::Kill, format!("after {kills} kills: {why}")))?;
                if lived.is_some() {
                    break;
                }
                kills += 1;
                tally.count(FaultKind::Kill);
                tally.restarts += 1;
                machine = machine.after_kill(self.death(&mut rng)).slowed(slow);
            }
            let seed = rng.next_u64();
            let machine = Machine::new(machine.after_crash(seed), FaultPlan::none(), groups);
            live(&machine, seed, 2)
                .and_then(|lived| lived.ok_or_else(|| "power failed though no crash was planned".to_owned()))
                .map_err(|why| wrong(FaultKind::Crash, format!("power failed after {kills} kills: {why}")))?;
            tally.count(FaultKind::Crash);
            tally.restarts += 1;
            tally.lives += 1;
        }
        Ok(())
    }

    /// The moment of the kill: while the layer opens, during the restart, or during transactions.
    fn death(&self, rng: &mut Rng) -> FaultPlan {
        let operations = self.transactions * u64::from(self.bank.clients) * 20;
        let last = [30, operations][rng.below(2) as usize];
        let at = 1 + rng.below(last.min(operations));
        let crash = Injection { at, device: None, fault: Fault::Crash, forever: false };
        FaultPlan::new(rng.next_u64(), vec![crash])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_after_a_kill_stays() {
        for (seed, system) in
            (0..4).flat_map(|seed| Subject::all().into_iter().map(move |system| (seed, system)))
        {
            let bank = Bank { clients: 1 + seed as u32, ..Bank::default() };
            let killed = Killed { system, bank, seed, transactions: 8 };
            let mut tally = Tally::default();
            let found = killed.run(&mut tally).err();
            assert!(found.is_none(), "{system}, seed {seed}: {}", found.expect("there is one").message);
        }
    }
}

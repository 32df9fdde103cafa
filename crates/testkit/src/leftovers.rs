//! Leftovers in the log: power fails in the middle of a long flush, the beginning of it is lost, and what survives of the
//! rest lies behind the end of the log. Then the machine restarts again and again, losing its power each time, so that the
//! log grows over the leftovers sector by sector, and ends at each sector boundary before them once. A record of an older
//! life that begins there is whole, and in its place; only its epoch tells that it does not belong to this log.
//!
//! Invariant: what happens follows from the seed.

use crate::Bank;
use crate::life::{Life, finished, prepare, simulation};
use crate::machine::{Devices, Machine, Media};
use crate::system::System;
use crate::workload::Workload;
use entresol_device::FaultPlan;
use entresol_runtime::rng::Rng;
use entresol_store::{Parts, Store};
use parking_lot::Mutex;
use std::sync::Arc;

/// Moments that are looked at, at most.
const MOMENTS_MAX: u64 = 3;
/// Restarts after each.
const RESTARTS: u64 = 24;

/// A store whose log is torn.
#[derive(Clone, Copy, Debug)]
pub struct Leftovers {
    /// On what.
    pub system: System,
    /// Of everything that happens by chance.
    pub seed: u64,
    /// Transactions of each client before.
    pub transactions: u64,
}

/// What a power failure left.
struct Torn<O> {
    at: u64,
    media: Media,
    oracle: O,
}

impl Leftovers {
    /// Clients that write long records of little change: one transaction at a time, so that hardly anything is left to be
    /// undone, and without images where the system can do without them.
    pub fn bank(bank: &Bank) -> Bank {
        Bank { clients: 1, long: 1, checkpoint_interval: None, ..*bank }
    }

    /// Carries it out; gives the number of crashes.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn run(&self, bank: &Bank) -> Result<u64, String> {
        let mut crashes = 0;
        for torn in self.tear(bank)? {
            let told = |why| format!("power failed at operation {} in a flush of the log: {why}", torn.at);
            crashes += self.go_over(bank, torn.media, torn.oracle, torn.at).map_err(told)?;
        }
        Ok(crashes)
    }

    /// Lives a life, and gives what some power failures would leave of it.
    fn tear(&self, bank: &Bank) -> Result<Vec<Torn<<Bank as Workload>::Oracle>>, String> {
        let (media, oracle) = prepare(bank, self.system, self.seed)?;
        let mut machine = Machine::new(media.freeze().thaw(), FaultPlan::none(), bank.flash_groups());
        let oracle = Arc::new(Mutex::new(oracle));
        let torn = Arc::new(Mutex::new((Rng::new(self.seed ^ 0x7ea2), 0, Vec::new())));
        let (known, found) = (oracle.clone(), torn.clone());
        machine.observe(move |devices: &Devices, at| {
            let (rng, seen, torn) = &mut *found.lock();
            let Some(media) = devices.after_torn_flush(at) else { return };
            *seen += 1;
            // Each of all moments is as likely as any other.
            let state = Torn { at, media, oracle: known.lock().clone() };
            match rng.below(*seen) {
                _ if (torn.len() as u64) < MOMENTS_MAX => torn.push(state),
                place if place < MOMENTS_MAX => torn[place as usize] = state,
                _ => {}
            }
        });
        let life = Life { seed: self.seed, verify: false, transactions: self.transactions };
        life.live(bank, self.system, &machine, &oracle)?
            .ok_or_else(|| "power failed though no crash was planned".to_owned())?;
        Ok(std::mem::take(&mut torn.lock().2))
    }

    /// Restarts again and again; in the end everything is compared.
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

    /// Nothing but a restart, which is not followed by a shutdown.
    fn restart(&self, bank: &Bank, machine: &Machine, seed: u64) -> Result<(), String> {
        let restarted = simulation(seed).run(|| -> Result<(), String> {
            let layer = self.system.open(machine).map_err(|error| format!("opening the layer: {error}"))?;
            let parts = Parts { layer, log: machine.log() };
            Store::open(parts, bank.options()).map(drop).map_err(|error| format!("restarting: {error}"))
        });
        finished(restarted)?.ok_or_else(|| "power failed though no crash was planned".to_owned())?
    }
}

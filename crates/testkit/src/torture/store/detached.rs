//! Power fails, the flash may be damaged silently, and the cache is detached. Power may fail during the
//! detach, too. Then the store is opened on the disk alone. Either all acknowledged changes are there, or the
//! detach was refused with a sentence that names the damage. Notes of pages that were durable on flash prove
//! nothing in that case.

use super::SENTENCE;
use super::damaged::{DamagedFlash, is_reported};
use crate::life::{Life, finished, simulation};
use crate::machine::{Devices, Machine, Media};
use crate::moments::{Left, Moments};
use crate::torture::cache::Cache;
use crate::torture::fault::FaultKind;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_device::FaultPlan;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Moments at which power fails.
const MOMENTS: u64 = 3;
/// One of this many operations is a moment.
const MOMENT_ONE_OF: u64 = 16;
/// Number of detached caches after each moment. The first cache is not damaged.
const DETACHES: usize = 6;

/// Stores whose caches are detached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detached {
    /// The system, the bank, and the faults of the flash.
    pub damaged: DamagedFlash,
}

/// How a detach ended.
enum Ended {
    Detached,
    Refused(String),
    PowerFailed,
}

impl Detached {
    /// Runs the chapter, up to the first violation.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let DamagedFlash { system, bank, transactions, kinds, .. } = self.damaged;
        let Some(options) = system.tier_options(bank.flash_groups()) else { return Ok(()) };
        let cache = Cache::Tier(options);
        let seed = self.damaged.seed ^ 0xde7a;
        let moments = Moments { system, seed, transactions: transactions.min(24), most: MOMENTS };
        let look = move |devices: &Devices, at: u64, is_wanted: &mut dyn FnMut() -> bool| {
            let qualifies = (at + seed).is_multiple_of(MOMENT_ONE_OF);
            (qualifies && is_wanted()).then(|| devices.after_crash(seed ^ at << 20))
        };
        let wrong = |kind, message| Found { kind, message: format!("{bank:?}: {message}") };
        let mut left = moments.of(&bank, look).map_err(|why| wrong(FaultKind::Crash, why))?;
        left.sort_by_key(|left| left.at);
        tally.lives += 1;
        for nth in 0..left.len() {
            let Left { at, media, oracle } = &left[nth];
            let before = &left[nth.saturating_sub(1)].media.flash;
            let mut rng = Rng::new(seed ^ at << 16);
            for nth in 0..DETACHES {
                let media = media.fork();
                let damage = (nth > 0).then(|| kinds[nth % kinds.len()]);
                let done = match damage {
                    Some(kind) => self.damaged.harm(&mut rng, &cache, &media, before, kind),
                    None => Some("nothing more went wrong".to_owned()),
                };
                let Some(done) = done else { continue };
                tally.count_on(FaultKind::Detached, "flash");
                let may_refuse = damage.is_some() && cache.keeps_dirty();
                let refused = self.detach(&mut rng, media, oracle, may_refuse).map_err(|why| {
                    wrong(FaultKind::Detached, format!("power failed at operation {at}, then {done}: {why}"))
                })?;
                match refused {
                    true => tally.faults_detected += 1,
                    false => tally.restarts += 1,
                }
            }
        }
        Ok(())
    }

    /// Detaches the cache and opens the disk. Returns whether that was refused where a refusal is allowed.
    fn detach(
        &self,
        rng: &mut Rng,
        mut media: Media,
        oracle: &<Bank as Workload>::Oracle,
        may_refuse: bool,
    ) -> Result<bool, String> {
        let DamagedFlash { bank, .. } = self.damaged;
        let groups = bank.flash_groups();
        // The number of operations without a power failure.
        let trial = Machine::new(media.fork(), FaultPlan::none(), groups);
        self.ends(&trial, rng.next_u64())?;
        let operations = trial.plan.operations();
        let mut told = String::new();
        let mut was_cut_off = false;
        if rng.below(2) == 0 {
            let cut = 1 + rng.below(operations.max(1));
            let machine = Machine::new(media, FaultPlan::crash_at(cut), groups);
            // The detach may have been complete before that operation.
            was_cut_off = !matches!(self.ends(&machine, rng.next_u64())?, Ended::Refused(_));
            told = format!("the detach was cut off at operation {cut}; ");
            media = machine.after_crash(rng.next_u64());
        }
        let machine = Machine::new(media, FaultPlan::none(), groups);
        let refused = match self.ends(&machine, rng.next_u64())? {
            Ended::Detached => None,
            Ended::PowerFailed => return Err("power failed though no crash was planned".to_owned()),
            Ended::Refused(why) if why.len() > SENTENCE => Some(why),
            Ended::Refused(why) => return Err(format!("{told}detaching is refused without a reason: {why}")),
        };
        // A detach that was cut off may have been complete. Then its flash is refused, and the disk opens.
        if let Some(why) = refused.as_ref().filter(|_| !was_cut_off) {
            let allowed = if may_refuse { Ok(true) } else { Err(format!("{told}detaching: {why}")) };
            return allowed;
        }
        let machine = Machine::new(machine.after_crash(rng.next_u64()), FaultPlan::none(), groups);
        let bank = Bank { full_page_writes: true, ..bank };
        let life = Life { seed: rng.next_u64(), verify: true, transactions: 2 };
        match life.live(&bank, Subject::DISK_ONLY, &machine, &Arc::new(Mutex::new(oracle.clone()))) {
            Ok(Some(_)) => Ok(false),
            Ok(None) => Err("power failed though no crash was planned".to_owned()),
            Err(why) if may_refuse && refused.is_some() && is_reported(&why) => Ok(true),
            Err(why) => Err(format!("{told}detached ({refused:?}), on the disk alone: {why}")),
        }
    }

    fn ends(&self, machine: &Machine, seed: u64) -> Result<Ended, String> {
        let detached =
            simulation(seed).run(|| entresol_engine::detach(machine.flash(), machine.disk()).map(drop));
        Ok(match finished(detached)? {
            None if machine.plan.has_crashed() => Ended::PowerFailed,
            None => return Err("the simulation was halted though no crash was planned".to_owned()),
            Some(Err(error)) => Ended::Refused(error.to_string()),
            Some(Ok(())) => Ended::Detached,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PolicyKind;

    /// A former bug: redo believed notes that named flash, although it ran on the disk alone.
    #[test]
    fn a_detached_cache_costs_no_committed_row() {
        let systems = [
            Subject::cached(PolicyKind::FaceGsc),
            Subject::cached(PolicyKind::FaceGr),
            Subject::cached(PolicyKind::Face),
            Subject::cached(PolicyKind::Lc),
            Subject::write_through(PolicyKind::FaceGsc),
        ];
        let tally = DamagedFlash::each_seed(&systems, SEEDS, Bank::default().frames, |damaged, tally| {
            Detached { damaged }.run(tally)
        });
        assert!(tally.restarts > SEEDS && tally.faults_detected > 0, "{tally:?}");
    }

    const SEEDS: u64 = 20;
}

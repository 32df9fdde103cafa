//! Power fails, and the flash turns out to have lost a write, put it elsewhere, or put it elsewhere too; or a
//! bit of a page flips while the machine is off. What is not needed comes from disk; what is needed is
//! rebuilt from its image in the log, or reported by its name. Nothing else is ever lost, and no row is
//! wrong: after the restart, and after one that follows restarts that were cut off, in as little DRAM as
//! there may be.

use crate::life::{Life, Lived};
use crate::machine::{Devices, Machine, Media};
use crate::moments::{Left, Moments};
use crate::torture::cache::Cache;
use crate::torture::damage::{bit_of_a_new_page, bit_of_a_page, damage};
use crate::torture::fault::FaultKind;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_runtime::rng::Rng;
use entresol_store::MIN_FRAMES;
use parking_lot::Mutex;
use std::sync::Arc;

/// Moments at which power fails.
const MOMENTS: u64 = 3;
/// One of so many operations is a moment.
const MOMENT_ONE_OF: u64 = 16;
/// What is damaged after each, one at a time.
const DAMAGES: usize = 8;

/// Stores whose flash is damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DamagedFlash {
    /// On what.
    pub system: Subject,
    /// What they hold and do.
    pub bank: Bank,
    /// Of everything that happens by chance.
    pub seed: u64,
    /// Transactions of each client before power fails, at most.
    pub transactions: u64,
    /// What is wrong with the flash, one after the other and again from the beginning.
    pub kinds: &'static [FaultKind],
}

impl DamagedFlash {
    /// Bits alone.
    pub const BITS: &'static [FaultKind] = &[FaultKind::BitFlip];
    /// Whatever may be wrong with a flash that says that all is well, half of the time a bit.
    pub const ALL: &'static [FaultKind] = &[
        FaultKind::BitFlip,
        FaultKind::LostWrite,
        FaultKind::BitFlip,
        FaultKind::MisdirectedWrite,
        FaultKind::BitFlip,
        FaultKind::DuplicatedWrite,
    ];

    /// Carries it out, up to the first thing that is wrong.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let Some(options) = self.system.tier_options(self.bank.flash_groups()) else { return Ok(()) };
        let cache = Cache::Tier(options);
        let seed = self.seed ^ 0xda3a;
        let moments =
            Moments { system: self.system, seed, transactions: self.transactions.min(24), most: MOMENTS };
        let look = move |devices: &Devices, at: u64| {
            (at + seed).is_multiple_of(MOMENT_ONE_OF).then(|| devices.after_crash(seed ^ at << 20))
        };
        let wrong = |kind, message| Found { kind, message: format!("{:?}: {message}", self.bank) };
        let mut left = moments.of(&self.bank, look).map_err(|why| wrong(FaultKind::Crash, why))?;
        left.sort_by_key(|left| left.at);
        tally.lives += 1;
        for nth in 0..left.len() {
            let Left { at, media, oracle } = &left[nth];
            // What the flash held earlier in this life.
            let before = &left[nth.saturating_sub(1)].media.flash;
            let mut rng = Rng::new(seed ^ at << 16);
            for nth in 0..DAMAGES {
                let (kind, media) = (self.kinds[nth % self.kinds.len()], media.fork());
                let Some(done) = self.harm(&mut rng, &cache, &media, before, kind) else { continue };
                tally.count_on(kind, "flash");
                self.go_on(&mut rng, &cache, media, oracle, tally).map_err(|why| {
                    wrong(kind, format!("power failed at operation {at}, then {done}: {why}"))
                })?;
            }
        }
        Ok(())
    }

    /// Damages the flash; says what was done. `None`: nothing has changed.
    pub(super) fn harm(
        &self,
        rng: &mut Rng,
        cache: &Cache,
        media: &Media,
        before: &MemoryDevice,
        kind: FaultKind,
    ) -> Option<String> {
        if kind != FaultKind::BitFlip {
            return damage(rng, cache, media, before, kind);
        }
        let newest = if rng.below(2) == 0 { bit_of_a_new_page(rng, cache, &media.flash) } else { None };
        let bit = newest.or_else(|| bit_of_a_page(rng, cache, &media.flash))?;
        flip(&media.flash, bit);
        Some(format!("bit {bit} of the flash flipped"))
    }

    /// Restarts, and restarts again after restarts that were cut off.
    fn go_on(
        &self,
        rng: &mut Rng,
        cache: &Cache,
        media: Media,
        oracle: &<Bank as Workload>::Oracle,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let Some(lived) = self.restart(&self.bank, media.fork(), oracle, cache, rng.next_u64())? else {
            tally.faults_detected += 1;
            return Ok(());
        };
        tally.restarts += 2;
        tally.faults_detected += u64::from(lived.metrics.tier.damaged_clean > 0);
        let (crashes, noticed) = self.cut_off(media, oracle, cache, lived.restart_operations, rng)?;
        for _ in 0..crashes {
            tally.count(FaultKind::CrashInRecovery);
        }
        tally.faults_detected += u64::from(noticed);
        Ok(())
    }

    /// Restarts on the damaged flash; `None`: the damage is reported.
    fn restart(
        &self,
        bank: &Bank,
        media: Media,
        oracle: &<Bank as Workload>::Oracle,
        cache: &Cache,
        seed: u64,
    ) -> Result<Option<Lived>, String> {
        let machine = Machine::new(media, FaultPlan::none(), bank.flash_groups());
        let life = Life { seed, verify: true, transactions: 2 };
        match life.live(bank, self.system, &machine, &Arc::new(Mutex::new(oracle.clone()))) {
            Ok(Some(lived)) => Ok(Some(lived)),
            Ok(None) => Err("power failed though no crash was planned".to_owned()),
            Err(why) if cache.keeps_dirty() && is_reported(&why) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Restarts that are cut off, with little DRAM so that pages are evicted, and then a whole one; how
    /// many there were, and whether the damage was reported. A restart takes about so many `operations`.
    fn cut_off(
        &self,
        mut media: Media,
        oracle: &<Bank as Workload>::Oracle,
        cache: &Cache,
        operations: u64,
        rng: &mut Rng,
    ) -> Result<(u64, bool), String> {
        let bank = Bank { frames: MIN_FRAMES, ..self.bank };
        let mut crashes = 0;
        for _ in 0..1 + rng.below(2) {
            let cut = 1 + rng.below(operations.max(1));
            let machine = Machine::new(media, FaultPlan::crash_at(cut), bank.flash_groups());
            let life = Life { seed: rng.next_u64(), verify: false, transactions: 0 };
            let cut_off = life.live(&bank, self.system, &machine, &Arc::new(Mutex::new(oracle.clone())));
            match cut_off {
                Ok(_) => crashes += 1,
                Err(why) if cache.keeps_dirty() && is_reported(&why) => return Ok((crashes, true)),
                Err(why) => return Err(format!("restart to be cut off at operation {cut}: {why}")),
            }
            media = machine.after_crash(rng.next_u64());
        }
        let whole = self.restart(&bank, media, oracle, cache, rng.next_u64());
        let lived = whole.map_err(|why| format!("after {crashes} restarts that were cut off: {why}"))?;
        Ok((crashes, lived.is_none_or(|lived| lived.metrics.tier.damaged_clean > 0)))
    }
}

pub(super) fn flip(flash: &MemoryDevice, bit: u64) {
    let mut sector = [0; 512];
    let at = bit / 8 / 512 * 512;
    flash.read(at, &mut sector).expect("the bit is on the device");
    sector[(bit / 8 - at) as usize] ^= 1 << (bit % 8);
    flash.write(at, &sector).expect("the bit is on the device");
}

/// A page that only flash has is named, or the flash is refused.
pub(super) fn is_reported(why: &str) -> bool {
    why.starts_with("opening the layer: ") || why.contains("at flash slot") && why.contains("is damaged")
}

#[cfg(test)]
impl DamagedFlash {
    /// Runs a chapter on one store for each of `seeds` seeds: the systems take turns, with one to four
    /// clients. Panics at the first thing that is wrong.
    pub(super) fn each_seed(
        systems: &[Subject],
        seeds: u64,
        frames: usize,
        chapter: impl Fn(DamagedFlash, &mut Tally) -> Result<(), Found>,
    ) -> Tally {
        let mut tally = Tally::default();
        for seed in 0..seeds {
            let system = systems[seed as usize % systems.len()];
            let bank = Bank { clients: 1 + (seed / 4 % 4) as u32, frames, ..Bank::default() };
            let damaged = DamagedFlash { system, bank, seed, transactions: 24, kinds: DamagedFlash::ALL };
            if let Err(found) = chapter(damaged, &mut tally) {
                panic!("{system}, seed {seed}: {}", found.message);
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PolicyKind;

    /// Redo believed notes of groups that had been damaged, and after a restart that was cut off those of
    /// groups that others had taken the places of.
    #[test]
    fn damaged_flash_costs_nothing_that_is_not_named() {
        let systems = [
            Subject::Cached(PolicyKind::FaceGsc),
            Subject::Cached(PolicyKind::FaceGr),
            Subject::Cached(PolicyKind::Face),
            Subject::WriteThrough(PolicyKind::FaceGsc),
        ];
        let tally = DamagedFlash::each_seed(&systems, SEEDS, MIN_FRAMES, |damaged, tally| damaged.run(tally));
        assert!(tally.faults_detected > 0 && tally.states() > 20 * SEEDS, "{tally:?}");
    }

    const SEEDS: u64 = 24;
}

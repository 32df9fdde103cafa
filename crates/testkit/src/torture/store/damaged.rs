//! Power fails, and the flash turns out to have lost, misdirected or duplicated a write; or a bit of a page
//! flips while the machine is off. Unneeded pages are read from disk. Needed pages are rebuilt from their
//! images in the log, or are reported by number. No other data is ever lost, and no row is wrong: neither
//! after the restart, nor after a restart that follows restarts that were cut off, with the smallest allowed
//! DRAM.

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
/// One of this many operations is a moment.
const MOMENT_ONE_OF: u64 = 16;
/// Number of damages tried after each moment, one at a time.
const DAMAGES: usize = 8;

/// Stores whose flash is damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DamagedFlash {
    /// The system under test.
    pub system: Subject,
    /// The content and the clients of the stores.
    pub bank: Bank,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of transactions of each client before power fails.
    pub transactions: u64,
    /// The faults of the flash, used in turn.
    pub kinds: &'static [FaultKind],
}

impl DamagedFlash {
    /// Bit flips only.
    pub const BITS: &'static [FaultKind] = &[FaultKind::BitFlip];
    /// All silent faults of a flash, half of them bit flips.
    pub const ALL: &'static [FaultKind] = &[
        FaultKind::BitFlip,
        FaultKind::LostWrite,
        FaultKind::BitFlip,
        FaultKind::MisdirectedWrite,
        FaultKind::BitFlip,
        FaultKind::DuplicatedWrite,
    ];

    /// Runs the chapter, up to the first violation.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let Some(options) = self.system.tier_options(self.bank.flash_groups()) else { return Ok(()) };
        let cache = Cache::Tier(options);
        let seed = self.seed ^ 0xda3a;
        let moments =
            Moments { system: self.system, seed, transactions: self.transactions.min(24), most: MOMENTS };
        let look = move |devices: &Devices, at: u64, is_wanted: &mut dyn FnMut() -> bool| {
            let qualifies = (at + seed).is_multiple_of(MOMENT_ONE_OF);
            (qualifies && is_wanted()).then(|| devices.after_crash(seed ^ at << 20))
        };
        let wrong = |kind, message| Found { kind, message: format!("{:?}: {message}", self.bank) };
        let mut left = moments.of(&self.bank, look).map_err(|why| wrong(FaultKind::Crash, why))?;
        left.sort_by_key(|left| left.at);
        tally.lives += 1;
        for nth in 0..left.len() {
            let Left { at, media, oracle } = &left[nth];
            // An earlier state of the flash in this life.
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

    /// Damages the flash and returns a description. `None`: nothing has changed.
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

    /// Some restarts that are cut off, with little DRAM so that pages are evicted, and then a complete one.
    /// Returns the number of the former, and whether the damage was reported. A restart takes about
    /// `operations` operations.
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

/// Whether the error names a page that only flash has, or is a refusal of the flash.
pub(super) fn is_reported(why: &str) -> bool {
    why.starts_with("opening the layer: ") || why.contains("at flash slot") && why.contains("is damaged")
}

#[cfg(test)]
impl DamagedFlash {
    /// Runs a chapter on one store for each of `seeds` seeds. The systems take turns, with one to four
    /// clients. Panics at the first violation.
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

    /// A former bug: redo believed notes of damaged groups, and after a restart that was cut off, notes of
    /// groups whose places other groups had taken.
    #[test]
    fn damaged_flash_costs_nothing_that_is_not_named() {
        let systems = [
            Subject::cached(PolicyKind::FaceGsc),
            Subject::cached(PolicyKind::FaceGr),
            Subject::cached(PolicyKind::Face),
            Subject::write_through(PolicyKind::FaceGsc),
        ];
        let tally = DamagedFlash::each_seed(&systems, SEEDS, MIN_FRAMES, |damaged, tally| damaged.run(tally));
        assert!(tally.faults_detected > 0 && tally.states() > 20 * SEEDS, "{tally:?}");
    }

    const SEEDS: u64 = 24;
}

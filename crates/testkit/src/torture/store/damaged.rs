//! Power fails, and a bit of a page on flash flips while the machine is off. What is not needed comes from disk; what is needed
//! is rebuilt from its image in the log, or reported by its name. Nothing else is ever lost, and no row is wrong.

use super::StoreRun;
use crate::Bank;
use crate::life::Life;
use crate::machine::{Devices, Machine, Media};
use crate::moments::{Left, Moments};
use crate::torture::cache::Cache;
use crate::torture::damage::bit_of_a_page;
use crate::torture::fault::FaultKind;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Moments at which power fails.
const MOMENTS: u64 = 3;
/// One of so many operations is a moment.
const MOMENT_ONE_OF: u64 = 16;
/// Bits that flip after each, one at a time.
const FLIPS: usize = 6;

impl StoreRun {
    pub(super) fn damaged(&self, tally: &mut Tally) -> Result<(), Found> {
        let Some(options) = self.system.tier_options(self.bank.flash_groups()) else { return Ok(()) };
        let cache = Cache::Tier(options);
        let wrong =
            |message| Found { kind: FaultKind::BitFlip, message: format!("{:?}: {message}", self.bank) };
        let seed = self.seed ^ 0xda3a;
        let moments =
            Moments { system: self.system, seed, transactions: self.transactions.min(24), most: MOMENTS };
        let look = move |devices: &Devices, at: u64| {
            (at + seed).is_multiple_of(MOMENT_ONE_OF).then(|| devices.after_crash(seed ^ at << 20))
        };
        let left = moments.of(&self.bank, look).map_err(wrong)?;
        tally.lives += 1;
        for Left { at, media, oracle } in left {
            let mut rng = Rng::new(seed ^ at << 16);
            for _ in 0..FLIPS {
                let media = media.fork();
                let Some(bit) = bit_of_a_page(&mut rng, &cache, &media.flash) else { continue };
                flip(&media.flash, bit);
                let told = |why| {
                    wrong(format!(
                        "power failed at operation {at}, then bit {bit} of the flash flipped: {why}"
                    ))
                };
                let noticed = self.restart(media, &oracle, &cache, rng.next_u64()).map_err(told)?;
                tally.count(FaultKind::BitFlip);
                tally.restarts += 1;
                tally.faults_detected += u64::from(noticed);
            }
        }
        Ok(())
    }

    /// Restarts on the damaged flash; whether the damage was noticed.
    fn restart(
        &self,
        media: Media,
        oracle: &<Bank as Workload>::Oracle,
        cache: &Cache,
        seed: u64,
    ) -> Result<bool, String> {
        let machine = Machine::new(media, FaultPlan::none(), self.bank.flash_groups());
        let life = Life { seed, verify: true, transactions: 2 };
        match life.live(&self.bank, self.system, &machine, &Arc::new(Mutex::new(oracle.clone()))) {
            Ok(Some(lived)) => Ok(lived.metrics.tier.damaged_clean > 0),
            Ok(None) => Err("power failed though no crash was planned".to_owned()),
            Err(why) if cache.keeps_dirty() && is_reported(&why) => Ok(true),
            Err(why) => Err(why),
        }
    }
}

fn flip(flash: &MemoryDevice, bit: u64) {
    let mut sector = [0; 512];
    let at = bit / 8 / 512 * 512;
    flash.read(at, &mut sector).expect("the bit is on the device");
    sector[(bit / 8 - at) as usize] ^= 1 << (bit % 8);
    flash.write(at, &sector).expect("the bit is on the device");
}

/// A page that only flash has is named, or the flash is refused.
fn is_reported(why: &str) -> bool {
    why.starts_with("opening the layer: ") || why.contains("at flash slot") && why.contains("is damaged")
}

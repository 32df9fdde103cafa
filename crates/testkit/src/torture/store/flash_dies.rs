//! The flash dies, of a store whose log is kept for that: at a power failure, while the store restarts with
//! it, and between restarts without it that are cut off themselves. The log and the disk alone have all rows.
//! Afterwards clients use the store, without a cache and with a new one. If the dead flash returns, it must
//! be refused, or count as empty.
//!
//! In half of the crash states the free parts of the log are destroyed. The bound of the log that is kept is
//! a quarter of the log at most, so the log is cut long before the place is needed: a store that cuts too
//! much would be noticed only when a log is full of transactions that cannot end. In half of them sectors of
//! the disk that were being written cannot be read: the log must have an image of these pages.

use crate::life::{Life, Lived};
use crate::machine::{Devices, Harm, Machine, Media};
use crate::moments::{Left, Moments};
use crate::torture::fault::FaultKind;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_device::{FaultPlan, MemoryDevice};
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Moments at which power fails, and the flash dies then or later.
const MOMENTS: u64 = 12;
/// Cut-off restarts after each moment, at most.
const CUTS_MAX: u64 = 4;
/// Crash states of each moment.
const OUTCOMES: u64 = 2;

/// Stores whose flash dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashDies {
    /// The system under test, which [survives](Subject::survives).
    pub system: Subject,
    /// The content and the clients of the stores.
    pub bank: Bank,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of transactions of each client before power fails.
    pub transactions: u64,
}

/// What a store is opened with.
#[derive(Clone, Copy)]
enum Flash {
    There,
    /// It is lost. `needs_next`: the log is not kept for the loss of the next one.
    Lost {
        needs_next: bool,
    },
}

/// A store after a power failure.
struct State<'a> {
    of: &'a FlashDies,
    media: Media,
    oracle: Arc<Mutex<<Bank as Workload>::Oracle>>,
    /// What happened to it.
    story: String,
}

impl FlashDies {
    /// Runs the chapter, up to the first violation.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let seed = self.seed ^ 0xf1a5;
        let moments = Moments { system: self.system, seed, transactions: self.transactions, most: MOMENTS };
        let look = move |devices: &Devices, at: u64| {
            let mut rng = Rng::new(seed ^ at);
            (rng.below(8) == 0).then(|| devices.after_harm(seed ^ at << 20, Harm::draw(&mut rng)))
        };
        let left = moments.of(&self.bank, look).map_err(|why| self.wrong(FaultKind::Crash, why))?;
        tally.lives += 1;
        for Left { at, media, oracle } in left {
            for outcome in 0..OUTCOMES {
                let mut rng = Rng::new(seed ^ at << 16 ^ outcome << 60);
                let oracle = Arc::new(Mutex::new(oracle.clone()));
                let story = format!("power failed at operation {at}");
                let state = State { of: self, media: media.fork(), oracle, story };
                state.die(&mut rng, tally).map_err(|why| self.wrong(FaultKind::FlashGone, why))?;
            }
        }
        Ok(())
    }

    fn wrong(&self, kind: FaultKind, message: String) -> Found {
        Found { kind, message: format!("{}, {:?}: {message}", self.system, self.bank) }
    }
}

impl State<'_> {
    fn live(&self, machine: &Machine, seed: u64, transactions: u64) -> Result<Option<Lived>, String> {
        let life = Life { seed, verify: true, transactions };
        let lived = life.live(&self.of.bank, self.of.system, machine, &self.oracle);
        lived.map_err(|why| format!("{}: {why}", self.story))
    }

    fn machine(&self, media: Media, plan: FaultPlan, flash: Flash) -> Machine {
        let machine = Machine::new(media, plan, self.of.bank.flash_groups());
        match flash {
            Flash::There => machine,
            Flash::Lost { needs_next } => machine.without_flash(needs_next),
        }
    }

    /// A restart that is cut off somewhere. False: it ended before.
    fn cut_off(&mut self, rng: &mut Rng, flash: Flash, tally: &mut Tally) -> Result<bool, String> {
        let seed = rng.next_u64();
        let copy = Arc::new(Mutex::new(self.oracle.lock().clone()));
        let trial = State { of: self.of, media: self.media.fork(), oracle: copy, story: self.story.clone() };
        let machine = trial.machine(trial.media.fork(), FaultPlan::none(), flash);
        let lived = trial.live(&machine, seed, 2)?.ok_or("power failed though no crash was planned")?;
        tally.restarts += 1;
        let most = if rng.below(3) == 0 { lived.operations } else { lived.restart_operations };
        let cut = 1 + rng.below(most);
        self.story += &format!(
            ", a restart {} flash was cut off at operation {cut} of {}",
            if let Flash::There = flash { "with" } else { "without" },
            lived.restart_operations
        );
        let machine = self.machine(self.media.fork(), FaultPlan::crash_at(cut), flash);
        if self.live(&machine, seed, 2)?.is_some() {
            return Ok(false);
        }
        self.media = machine.after_harm(rng.next_u64(), Harm::draw(rng));
        tally.count(FaultKind::CrashInRecovery);
        Ok(true)
    }

    fn die(mut self, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
        // Restarts with the flash, before it dies.
        for _ in 0..[0, 0, 1, 2][rng.below(4) as usize] {
            self.cut_off(rng, Flash::There, tally)?;
        }
        let bytes = self.of.system.flash_bytes(self.of.bank.flash_groups());
        let sectors = self.of.bank.sectors;
        let blank = || MemoryDevice::new("flash", bytes).with_sectors(sectors.0, sectors.1);
        let dead = std::mem::replace(&mut self.media.flash, blank());
        self.story += ", the flash died";
        tally.count_on(FaultKind::FlashGone, "flash");
        let lost = Flash::Lost { needs_next: rng.below(2) == 0 };
        for _ in 0..rng.below(CUTS_MAX) {
            self.cut_off(rng, lost, tally)?;
        }
        let machine = self.machine(self.media.fork(), FaultPlan::none(), lost);
        let ended = "power failed though no crash was planned";
        self.live(&machine, rng.next_u64(), rng.below(3))?.ok_or(ended)?;
        tally.restarts += 1;
        self.media = machine.after_crash(rng.next_u64());
        self.story += ", the store was opened without it";
        // The dead flash is there again: it is refused, or holds nothing of value.
        let media = Media { flash: dead, ..self.media.fork() };
        let copy = Arc::new(Mutex::new(self.oracle.lock().clone()));
        let returned =
            State { of: self.of, media: self.media.fork(), oracle: copy, story: self.story.clone() };
        match returned.live(&returned.machine(media, FaultPlan::none(), Flash::There), rng.next_u64(), 0) {
            Ok(_) => {}
            Err(why) if why.contains("opening the layer: ") => tally.faults_detected += 1,
            Err(why) => return Err(format!("the dead flash returned: {why}")),
        }
        // A new one.
        let machine = self.machine(self.media.fork(), FaultPlan::none(), Flash::There);
        self.story += ", and with a new flash";
        self.live(&machine, rng.next_u64(), 2)?.ok_or(ended)?;
        tally.restarts += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flash_that_dies_costs_no_row() {
        let mut tally = Tally::default();
        for (seed, system) in (0..2).flat_map(|seed| Subject::SURVIVING.map(|system| (seed, system))) {
            let bank = Bank { clients: 1 + seed as u32, ..Bank::default() };
            let found = FlashDies { system, bank, seed, transactions: 24 }.run(&mut tally).err();
            assert!(found.is_none(), "{system}, seed {seed}: {}", found.expect("there is one").message);
        }
        assert!(tally.faults_detected > 0, "the dead flash is refused");
    }
}

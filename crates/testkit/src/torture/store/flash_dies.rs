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
const MOMENTS: u64 = 64;
/// Crash states of each moment.
const OUTCOMES: u64 = 2;
/// After the restart without the flash, one of this many states has further restarts.
const GOES_ON_ONE_OF: u64 = 8;

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
        let look = move |devices: &Devices, at: u64, is_wanted: &mut dyn FnMut() -> bool| {
            is_wanted().then(|| devices.after_harm(seed ^ at << 20, Harm::draw(&mut Rng::new(seed ^ at))))
        };
        let left = moments.of(&self.bank, look).map_err(|why| self.wrong(FaultKind::Crash, why))?;
        tally.lives += 1;
        let mut lengths = Lengths { known: Default::default() };
        for Left { at, media, oracle } in left {
            for outcome in 0..OUTCOMES {
                let mut rng = Rng::new(seed ^ at << 16 ^ outcome << 60);
                let oracle = Arc::new(Mutex::new(oracle.clone()));
                let story = format!("power failed at operation {at}");
                let state = State { of: self, media: media.fork(), oracle, story };
                state
                    .die(&mut rng, &mut lengths, tally)
                    .map_err(|why| self.wrong(FaultKind::FlashGone, why))?;
            }
        }
        Ok(())
    }

    fn wrong(&self, kind: FaultKind, message: String) -> Found {
        Found { kind, message: format!("{}, {:?}: {message}", self.system, self.bank) }
    }
}

impl State<'_> {
    fn live(&self, machine: &Machine, life: Life) -> Result<Option<Lived>, String> {
        let lived = life.live(&self.of.bank, self.of.system, machine, &self.oracle);
        lived.map_err(|why| format!("{}: {why}", self.story))
    }

    /// As [`State::live`], of a life that no power failure ends. All rows are compared.
    fn live_through(&self, machine: &Machine, seed: u64, transactions: u64) -> Result<Lived, String> {
        let lived = self.live(machine, Life { seed, verify: true, transactions })?;
        lived.ok_or_else(|| format!("{}: power failed though no crash was planned", self.story))
    }

    fn machine(&self, media: Media, plan: FaultPlan, flash: Flash) -> Machine {
        let machine = Machine::new(media, plan, self.of.bank.flash_groups());
        match flash {
            Flash::There => machine,
            Flash::Lost { needs_next } => machine.without_flash(needs_next),
        }
    }

    /// A restart that is cut off somewhere, if it is long enough. Now and then it is cut off while clients
    /// work after it.
    fn cut_off(
        &mut self,
        rng: &mut Rng,
        flash: Flash,
        lengths: &mut Lengths,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let works = rng.below(4) == 0;
        let cut = 1 + rng.below(lengths.guess(flash, works));
        let life = Life { seed: rng.next_u64(), verify: works, transactions: if works { 2 } else { 0 } };
        let oracle = Arc::new(Mutex::new(self.oracle.lock().clone()));
        let machine = self.machine(self.media.fork(), FaultPlan::crash_at(cut), flash);
        let with = if let Flash::There = flash { "with" } else { "without" };
        let story = format!("{}, a restart {with} flash was cut off at operation {cut}", self.story);
        let trial = State { of: self.of, media: self.media.fork(), oracle, story };
        tally.restarts += 1;
        match trial.live(&machine, life)? {
            // It ended before, and is as if it had not been.
            Some(lived) => lengths.learn(flash, works, &lived),
            None => {
                tally.count(FaultKind::CrashInRecovery);
                *self = State { media: machine.after_harm(rng.next_u64(), Harm::draw(rng)), ..trial };
            }
        }
        Ok(())
    }

    fn die(mut self, rng: &mut Rng, lengths: &mut Lengths, tally: &mut Tally) -> Result<(), String> {
        // Restarts with the flash, before it dies.
        for _ in 0..[0, 0, 0, 1, 1, 2][rng.below(6) as usize] {
            self.cut_off(rng, Flash::There, lengths, tally)?;
        }
        let bytes = self.of.system.flash_bytes(self.of.bank.flash_groups());
        let sectors = self.of.bank.sectors;
        let blank = || MemoryDevice::new("flash", bytes).with_sectors(sectors.0, sectors.1);
        let dead = std::mem::replace(&mut self.media.flash, blank());
        self.story += ", the flash died";
        tally.count_on(FaultKind::FlashGone, "flash");
        let lost = Flash::Lost { needs_next: rng.below(2) == 0 };
        for _ in 0..[0, 0, 0, 1, 2, 3][rng.below(6) as usize] {
            self.cut_off(rng, lost, lengths, tally)?;
        }
        let machine = self.machine(self.media.fork(), FaultPlan::none(), lost);
        let works = rng.below(4) == 0;
        let lived = self.live_through(&machine, rng.next_u64(), if works { 1 + rng.below(2) } else { 0 })?;
        lengths.learn(lost, works, &lived);
        tally.restarts += 1;
        if rng.below(GOES_ON_ONE_OF) != 0 {
            return Ok(());
        }
        self.media = machine.after_crash(rng.next_u64());
        self.story += ", the store was opened without it";
        self.go_on(dead, rng, tally)
    }

    /// The dead flash returns, and there is a new one.
    fn go_on(mut self, dead: MemoryDevice, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
        // The dead flash is there again: it is refused, or holds nothing of value.
        let media = Media { flash: dead, ..self.media.fork() };
        let copy = Arc::new(Mutex::new(self.oracle.lock().clone()));
        let returned =
            State { of: self.of, media: self.media.fork(), oracle: copy, story: self.story.clone() };
        let machine = returned.machine(media, FaultPlan::none(), Flash::There);
        match returned.live_through(&machine, rng.next_u64(), 0) {
            Ok(_) => {}
            Err(why) if why.contains("opening the layer: ") => tally.faults_detected += 1,
            Err(why) => return Err(format!("the dead flash returned: {why}")),
        }
        // A new one.
        let machine = self.machine(self.media.fork(), FaultPlan::none(), Flash::There);
        self.story += ", and with a new flash";
        self.live_through(&machine, rng.next_u64(), 2)?;
        tally.restarts += 1;
        Ok(())
    }
}

/// How many operations restarts have taken, so that the next ones can be cut off within them.
#[derive(Debug)]
struct Lengths {
    /// With the flash and without; of restarts alone, and with the work after them.
    known: [[u64; 2]; 2],
}

impl Lengths {
    /// Before any restart was seen: too long ones are learnt from.
    const UNKNOWN: u64 = 400;

    fn place(&mut self, flash: Flash, works: bool) -> &mut u64 {
        let is_lost = matches!(flash, Flash::Lost { .. });
        &mut self.known[usize::from(is_lost)][usize::from(works)]
    }

    /// The length of the next one, as far as is known.
    fn guess(&mut self, flash: Flash, works: bool) -> u64 {
        match *self.place(flash, works) {
            0 => Self::UNKNOWN,
            known => known + known / 8,
        }
    }

    fn learn(&mut self, flash: Flash, works: bool, lived: &Lived) {
        let length = if works { lived.operations } else { lived.restart_operations };
        let known = self.place(flash, works);
        // The last one counts most: moments of a life are alike.
        *known = if *known == 0 { length } else { (*known + length) / 2 };
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

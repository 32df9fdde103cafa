//! Torture of the whole store: transactions, log, restart, trees. Slower by far than that of the cache alone, so few runs
//! are of this kind.
//!
//! A run draws a system, a small bank and its settings, and then: cuts the making and loading of the store off (`birth`),
//! lives a life with a failing device (`ailing`), lets bits flip on flash (`damaged`), tears a flush of the log ([`crate::leftovers`]), and crashes a life at some
//! of its operations, and the restarts from that, with as much DRAM as before or less ([`crate::campaign`]). After each
//! restart all rows are compared, the accounts' sum is taken, trees and flash are checked.
//!
//! Invariant: as for runs of the cache alone, everything follows from the seed.

mod ailing;
mod birth;
mod damaged;

use super::fault::FaultKind;
use super::report::Tally;
use super::run::Found;
use super::target::Target;
use crate::leftovers::Leftovers;
use crate::{Bank, Campaign, System};
use entresol_core::PolicyKind;
use entresol_engine::Mode;
use entresol_runtime::rng::Rng;
use entresol_store::MIN_FRAMES;
use std::time::Duration;

pub(crate) use damaged::DamagedFlash;

/// States of a run's campaign, about.
const CRASHES: u64 = 20;

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreRun {
    system: System,
    /// A system whose log needs no images, if one is to be had: they leave few places at which a record could begin.
    without_images: Option<System>,
    bank: Bank,
    seed: u64,
    transactions: u64,
}

/// The systems that the targets stand for; the disk alone only where everything is tortured.
fn systems(targets: &[Target]) -> Vec<System> {
    let wanted = |system: &System| match *system {
        System::DiskOnly => targets == Target::all(),
        System::Cached(policy) => targets.contains(&Target::new(policy, Mode::WriteBack)),
        System::WriteThrough(policy) => targets.contains(&Target::new(policy, Mode::WriteThrough)),
        System::Fragments => targets.contains(&Target::FRAGMENTS),
    };
    System::ALL.into_iter().filter(wanted).collect()
}

/// Only what destages through a log of its own on flash can do without images.
fn does_without_images(system: System) -> bool {
    matches!(system, System::Cached(PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc))
}

impl StoreRun {
    /// Draws a run; `None` if none of the targets can be run as a store.
    pub(super) fn draw(seed: u64, targets: &[Target]) -> Option<Self> {
        let systems = systems(targets);
        let mut rng = Rng::new(seed);
        let system = *systems.get(rng.below(systems.len().max(1) as u64) as usize)?;
        let needs_images = !does_without_images(system);
        let without_images: Vec<System> =
            systems.iter().copied().filter(|system| does_without_images(*system)).collect();
        let without_images = match needs_images {
            true => without_images.get(rng.below(without_images.len().max(1) as u64) as usize).copied(),
            false => Some(system),
        };
        let bank = Bank {
            clients: 1 + rng.below(8) as u32,
            accounts: 200 + rng.below(500) as u32,
            long: [0, 0, 3, 8][rng.below(4) as usize],
            full_page_writes: needs_images || rng.below(2) == 0,
            frames: MIN_FRAMES + rng.below(128) as usize,
            checkpoint_interval: (rng.below(2) == 0).then(|| Duration::from_micros(200 << rng.below(8))),
        };
        let length = rng.below(4) as usize;
        Some(Self {
            system,
            without_images,
            bank,
            seed: rng.next_u64(),
            transactions: 4 + rng.below([24, 24, 24, 80][length]),
        })
    }

    /// What is tortured.
    pub(super) fn name(&self) -> String {
        format!("store on {}", self.system)
    }

    /// Carries it out, up to the first thing that is wrong.
    pub(super) fn run(&self) -> (Tally, Option<Found>) {
        let mut tally = Tally::default();
        let found = self
            .birth(&mut tally)
            .and_then(|()| self.ailing(&mut tally))
            .and_then(|()| self.damaged().run(&mut tally))
            .and_then(|()| self.leftovers(&mut tally))
            .and_then(|()| self.campaign(&mut tally));
        (tally, found.err())
    }

    fn damaged(&self) -> DamagedFlash {
        let Self { system, bank, seed, transactions, .. } = *self;
        DamagedFlash { system, bank, seed, transactions }
    }

    fn leftovers(&self, tally: &mut Tally) -> Result<(), Found> {
        let Some(system) = self.without_images else { return Ok(()) };
        let bank = Leftovers::bank(&Bank { full_page_writes: false, ..self.bank });
        let leftovers = Leftovers { system, seed: self.seed, transactions: 12 };
        let crashes = leftovers.run(&bank).map_err(|why| Found {
            kind: FaultKind::TornWrite,
            message: format!("leftovers on {system}, {bank:?}: {why}"),
        })?;
        *tally.states_by_fault.entry(FaultKind::TornWrite).or_default() += crashes;
        tally.restarts += crashes;
        tally.lives += 1;
        Ok(())
    }

    fn campaign(&self, tally: &mut Tally) -> Result<(), Found> {
        let Self { system, bank, seed, transactions, .. } = *self;
        // Some thirty operations a transaction; how many there are is not known before.
        let operations = transactions * u64::from(bank.clients) * 30;
        let stride = (operations / CRASHES).max(1);
        let campaign = Campaign { stride, threads: 1, again: 2, ..Campaign::new(system, seed, transactions) };
        let less = Bank { frames: MIN_FRAMES, ..bank };
        let report = campaign.run_and_restart(&bank, if seed.is_multiple_of(2) { &less } else { &bank });
        let mut add = |kind, states: u64| *tally.states_by_fault.entry(kind).or_default() += states;
        add(FaultKind::TornWrite, report.crashes + report.crashes_again - report.crashes_in_restart);
        add(FaultKind::CrashInRecovery, report.crashes_in_restart);
        tally.restarts += report.restarts;
        tally.lives += 1;
        match report.failures.first() {
            None => Ok(()),
            Some(failure) => Err(Found {
                kind: FaultKind::Crash,
                message: format!("{bank:?}, power failed at operation {}: {}", failure.at, failure.message),
            }),
        }
    }
}

//! Torture of the whole store: transactions, log, restart, trees. Slower by far than that of the cache alone, so few runs
//! are of this kind.
//!
//! A run draws a system, a small bank and its settings, and then: cuts the making and loading of the store off (`birth`),
//! lives a life with a failing device (`ailing`), and crashes a life at some of its operations, and the restarts from that
//! ([`crate::campaign`]). After each restart all rows are compared, the accounts' sum is taken, trees and flash are checked.
//!
//! Invariant: as for runs of the cache alone, everything follows from the seed.

mod ailing;
mod birth;

use super::fault::FaultKind;
use super::report::Tally;
use super::run::Found;
use super::script::Target;
use crate::{Bank, Campaign, System};
use entresol_core::PolicyKind;
use entresol_engine::Mode;
use entresol_runtime::rng::Rng;
use std::time::Duration;

/// States of a run's campaign, about.
const CRASHES: u64 = 20;

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreRun {
    system: System,
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
    };
    System::ALL.into_iter().filter(wanted).collect()
}

impl StoreRun {
    /// Draws a run; `None` if none of the targets can be run as a store.
    pub(super) fn draw(seed: u64, targets: &[Target]) -> Option<Self> {
        let systems = systems(targets);
        let mut rng = Rng::new(seed);
        let system = *systems.get(rng.below(systems.len().max(1) as u64) as usize)?;
        // Only what destages through a log of its own on flash can do without images.
        let needs_images =
            !matches!(system, System::Cached(PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc));
        let bank = Bank {
            clients: 1 + rng.below(8) as u32,
            accounts: 200 + rng.below(500) as u32,
            long: [0, 0, 3, 8][rng.below(4) as usize],
            full_page_writes: needs_images || rng.below(2) == 0,
            frames: 64 + rng.below(64) as usize,
            checkpoint_interval: (rng.below(2) == 0).then(|| Duration::from_micros(200 << rng.below(8))),
        };
        let length = rng.below(4) as usize;
        Some(Self {
            system,
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
            .and_then(|()| self.campaign(&mut tally));
        (tally, found.err())
    }

    fn campaign(&self, tally: &mut Tally) -> Result<(), Found> {
        let Self { system, bank, seed, transactions } = *self;
        // Some thirty operations a transaction; how many there are is not known before.
        let operations = transactions * u64::from(bank.clients) * 30;
        let stride = (operations / CRASHES).max(1);
        let campaign = Campaign { stride, threads: 1, again: 2, ..Campaign::new(system, seed, transactions) };
        let report = campaign.run(&bank);
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

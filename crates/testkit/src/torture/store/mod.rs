//! Torture of the whole store: transactions, log, restart, trees. It is much slower than that of the cache
//! alone, so few runs are of this kind.
//!
//! A run draws a system, a small bank and its settings. Then it runs several chapters:
//! - `birth`: the creation and load of the store is cut off.
//! - `ailing`: a device fails during a life.
//! - `killed`: programs are killed before power fails.
//! - `damaged`: flash silently changes or loses data.
//! - `detached`: caches are detached.
//! - `exchanged`: devices of different moments are combined.
//! - `flash_dies`: the flash dies, of a store whose log is kept for that.
//! - `media`: sectors of all devices become unreadable or change.
//! - `scarce`: disk and log become full.
//! - [`crate::leftovers`]: a flush of the log is torn.
//! - [`crate::campaign`]: a life crashes at some of its operations, and so do the restarts from that, with as
//!   much DRAM as before or less.
//!
//! After each restart all rows are compared, the sum of the accounts is checked, and trees and flash are
//! checked. A violation is reported with the smallest bank that shows it (`shrink`).
//!
//! Invariant: as for runs of the cache alone, the seed determines everything.

mod ailing;
mod birth;
mod damaged;
mod detached;
mod exchanged;
mod flash_dies;
mod killed;
mod media;
mod scarce;
mod shrink;

use super::fault::FaultKind;
use super::report::Tally;
use super::run::Found;
use super::target::Target;
use crate::leftovers::Leftovers;
use crate::{Bank, Campaign, Subject};
use entresol_core::{PolicyKind, System};
use entresol_runtime::rng::Rng;
use entresol_store::MIN_FRAMES;
use std::fmt;
use std::time::Duration;

pub(crate) use damaged::DamagedFlash;
pub(crate) use detached::Detached;
pub(crate) use exchanged::Exchanged;
pub(crate) use flash_dies::FlashDies;
pub(crate) use killed::Killed;
pub(crate) use media::SickMedia;
pub(crate) use scarce::Scarce;
pub(super) use shrink::shrink;

/// Minimum length of a refusal in bytes. A shorter one does not describe the reason.
const SENTENCE: usize = 20;
/// Approximate number of states of a run's campaign.
const CRASHES: u64 = 20;

/// A part of a run, independent of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chapter {
    Birth,
    Ailing,
    Killed,
    Damaged,
    Detached,
    Exchanged,
    FlashDies,
    Media,
    Scarce,
    Leftovers,
    Campaign,
}

impl Chapter {
    const ALL: [Self; 11] = [
        Self::Birth,
        Self::Ailing,
        Self::Killed,
        Self::Damaged,
        Self::Detached,
        Self::Exchanged,
        Self::FlashDies,
        Self::Media,
        Self::Scarce,
        Self::Leftovers,
        Self::Campaign,
    ];

    /// A description of the chapter.
    fn describe(self) -> &'static str {
        match self {
            Self::Birth => "crashes while the store is made and loaded",
            Self::Ailing => "lives with a failing device",
            Self::Killed => "programs that are killed before power fails",
            Self::Damaged => "flash that changes or loses something without a word",
            Self::Detached => "caches that are detached after a crash",
            Self::Exchanged => "devices of different moments",
            Self::FlashDies => "a flash that dies, and a log that is kept for that",
            Self::Media => {
                "disk, log or flash with sectors that cannot be read, or that changed without a word"
            }
            Self::Scarce => "a full disk, and a full log",
            Self::Leftovers => "a log that grows over what is left of a torn flush",
            Self::Campaign => "crashes of a life, and of the restarts after them",
        }
    }
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreRun {
    system: Subject,
    /// A system whose log needs no images, if there is one. With images there are few places at which a
    /// record could begin.
    without_images: Option<Subject>,
    bank: Bank,
    seed: u64,
    transactions: u64,
    /// The only chapter to run; `None`: all.
    only: Option<Chapter>,
}

/// The systems of the targets. The disk alone is included only if everything is tortured.
fn systems(targets: &[Target]) -> Vec<Subject> {
    let wanted = |system: &Subject| match *system {
        Subject { system: System::Cached(policy), keeps_slots: true, .. } => {
            targets.contains(&Target::with_kept_slots(policy))
        }
        Subject { system: System::Cached(policy), mode, .. } => targets.contains(&Target::new(policy, mode)),
        Subject { system: System::Fragments, .. } => targets.contains(&Target::FRAGMENTS),
        Subject { system: System::DiskOnly | System::FlashOnly, .. } => targets == Target::all(),
    };
    let kept_alone = targets.iter().all(|target| target.keeps_slots());
    let drawn = if kept_alone { &Subject::KEPT[..] } else { &Subject::DRAWN[..] };
    drawn.iter().copied().filter(wanted).collect()
}

/// Whether the system works without images: only one that destages through a log of its own on flash does.
fn does_without_images(system: Subject) -> bool {
    let ring = [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc];
    ring.map(Subject::cached).contains(&system)
}

impl StoreRun {
    /// Draws a run. `None`: none of the targets can be run as a store.
    pub(super) fn draw(seed: u64, targets: &[Target]) -> Option<Self> {
        let systems = systems(targets);
        let mut rng = Rng::new(seed);
        let system = *systems.get(rng.below(systems.len().max(1) as u64) as usize)?;
        let needs_images = !does_without_images(system);
        let without_images: Vec<Subject> =
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
            sectors: [(512, 512), (512, 512), (4096, 4096), (512, 4096)][seed as usize % 4],
            ..Bank::USUAL
        };
        let length = rng.below(4) as usize;
        Some(Self {
            system,
            without_images,
            bank,
            seed: rng.next_u64(),
            transactions: 4 + rng.below([24, 24, 24, 80][length]),
            only: None,
        })
    }

    /// As [`StoreRun::draw`], of a store whose log is kept so that its flash may be lost, and nothing but
    /// that.
    pub(super) fn draw_that_loses_its_flash(seed: u64, targets: &[Target]) -> Option<Self> {
        let all = Subject::SURVIVING.into_iter().zip(Target::of_surviving_stores());
        let systems: Vec<Subject> =
            all.filter(|(_, target)| targets.contains(target)).map(|(subject, _)| subject).collect();
        let system = *systems.get(Rng::new(!seed).below(systems.len().max(1) as u64) as usize)?;
        let run = Self::draw(seed, &Target::all())?;
        // The log wraps in some.
        let transactions = [24, 100, 400][Rng::new(!seed).below(3) as usize].max(run.transactions);
        // Most are small: a state of these takes a tenth of the time.
        let part = [8, 8, 8, 8, 4, 4, 2, 1][Rng::new(seed ^ 0x5a11).below(8) as usize];
        let (accounts, frames) = (run.bank.accounts / part, run.bank.frames - MIN_FRAMES);
        let bank = Bank { accounts, frames: MIN_FRAMES + frames / part as usize, ..run.bank };
        Some(Self { system, transactions, bank, only: Some(Chapter::FlashDies), ..run })
    }

    /// The name of the system under test.
    pub(super) fn name(&self) -> String {
        format!("store on {}", self.system)
    }

    /// Runs all chapters, up to the first violation.
    pub(super) fn run(&self) -> (Tally, Option<Found>) {
        let mut tally = Tally::default();
        let mut chapters =
            Chapter::ALL.iter().filter(|chapter| self.only.is_none_or(|only| only == **chapter));
        let found = chapters.try_for_each(|chapter| match chapter {
            Chapter::Birth => self.birth(&mut tally),
            Chapter::Ailing => self.ailing(&mut tally),
            Chapter::Killed => self.killed().run(&mut tally),
            Chapter::Damaged => self.damaged().run(&mut tally),
            Chapter::Detached => self.detached().run(&mut tally),
            Chapter::Exchanged => self.exchanged().run(&mut tally),
            Chapter::FlashDies => self.flash_dies().map_or(Ok(()), |dies| dies.run(&mut tally)),
            Chapter::Media => self.media().run(&mut tally),
            Chapter::Scarce => self.scarce().run(&mut tally),
            Chapter::Leftovers => self.leftovers(&mut tally),
            Chapter::Campaign => self.campaign(&mut tally),
        });
        (tally, found.err())
    }

    fn killed(&self) -> Killed {
        let Self { system, bank, seed, transactions, .. } = *self;
        Killed { system, bank, seed, transactions }
    }

    fn damaged(&self) -> DamagedFlash {
        let Self { system, bank, seed, transactions, .. } = *self;
        DamagedFlash { system, bank, seed, transactions, kinds: DamagedFlash::ALL }
    }

    fn detached(&self) -> Detached {
        Detached { damaged: self.damaged() }
    }

    fn exchanged(&self) -> Exchanged {
        let Self { system, bank, seed, transactions, .. } = *self;
        Exchanged { system, bank, seed, transactions: transactions.min(16) }
    }

    /// `None`: not of a log that has pages newer than the disk.
    fn flash_dies(&self) -> Option<FlashDies> {
        let Self { system, bank, seed, transactions, .. } = *self;
        let is_it = |survivor: &Subject| {
            Subject { survives: false, ..*survivor } == Subject { survives: false, ..system }
        };
        let system = Subject::SURVIVING.into_iter().find(is_it)?;
        Some(FlashDies { system, bank, seed, transactions })
    }

    fn media(&self) -> SickMedia {
        let Self { system, bank, seed, transactions, .. } = *self;
        SickMedia { system, bank, seed, transactions }
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
        // An estimate: about thirty operations per transaction. The exact number is not known before.
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

impl fmt::Display for StoreRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, bank, seed, transactions, only, .. } = self;
        let Bank { clients, accounts, full_page_writes, long, frames, checkpoint_interval, sectors, .. } =
            bank;
        let images = if *full_page_writes { "with" } else { "without" };
        writeln!(f, "store on {system}, seed {seed:#x}: {frames} frames, a log {images} page images")?;
        writeln!(f, "devices with sectors of {} bytes on a medium of {}", sectors.0, sectors.1)?;
        write!(f, "a bank of {accounts} accounts: {clients} clients with {transactions} transactions each")?;
        if *long > 0 {
            write!(f, ", one of {long} a long one")?;
        }
        match checkpoint_interval {
            Some(interval) => writeln!(f, "; checkpoints every {interval:?}")?,
            None => writeln!(f, "; checkpoints by clients only")?,
        }
        writeln!(f, "{}", only.map_or("everything that can be done to it", Chapter::describe))
    }
}

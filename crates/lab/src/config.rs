//! What an experiment is made of.

use crate::replay::{FragmentKnobs, LcKnobs};
use entresol_core::{Placement, PolicyKind, System};
use entresol_engine::DailyWrites;
use entresol_store::{FlashLoss, Replacement};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The systems of FaCE's experiments (§5), in the order of figure 4. [`System::ALL`] begins with them.
pub const FIGURE_4: [System; 6] = [
    System::DiskOnly,
    System::FlashOnly,
    System::Cached(PolicyKind::Lc),
    System::Cached(PolicyKind::Face),
    System::Cached(PolicyKind::FaceGr),
    System::Cached(PolicyKind::FaceGsc),
];

/// How long to run before measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// Until the flash cache has been filled three times over, at least half a minute; SCE's, which fills
    /// once, until it is full and its hit rate stands still. At most twenty minutes.
    Auto,
    /// A fixed time.
    For(Duration),
}

/// Real files or devices in place of simulated ones.
#[derive(Clone, Debug, PartialEq)]
pub struct RealPaths {
    /// The flash cache (and the database of flash-only).
    pub flash: PathBuf,
    /// The database.
    pub disk: PathBuf,
    /// The write-ahead log.
    pub log: PathBuf,
}

/// What the log tells a restart besides the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redo {
    /// Nothing: no notes of durable pages, no images of pages. Redo reads each page that it changes, as
    /// FaCE's restarts are described (§5.5).
    Plain,
    /// Images alone, as PostgreSQL has it by default: a page whose image is in the log is not read.
    Imaged,
    /// Images, and notes under every system: the store's own default.
    Noted,
    /// Images, and notes under the systems that know at no cost which pages are durable: those with a log on
    /// flash.
    Usual,
}

impl Redo {
    /// All of them.
    pub const ALL: [Redo; 4] = [Redo::Plain, Redo::Imaged, Redo::Noted, Redo::Usual];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Redo::Plain => "plain",
            Redo::Imaged => "imaged",
            Redo::Noted => "noted",
            Redo::Usual => "usual",
        }
    }

    /// The setting of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|redo| redo.name() == name)
    }

    /// Whether the log notes which pages are durable, and whether it has images, under a system, whose slots
    /// survive a crash or not.
    pub fn notes_and_images(self, system: System, keeps_slots: bool) -> (bool, bool) {
        let notes = match self {
            Redo::Plain | Redo::Imaged => false,
            Redo::Noted => true,
            Redo::Usual => knows_what_is_durable(system, keeps_slots),
        };
        (notes, self != Redo::Plain)
    }

    /// Whether it is the same as `other` under a system.
    pub fn is_as(self, other: Redo, system: System) -> bool {
        // Where slots survive, both know what is durable, or neither.
        self.notes_and_images(system, false) == other.notes_and_images(system, false)
    }

    /// What it means, for a column or a line.
    pub const fn about(self) -> &'static str {
        match self {
            Redo::Plain => "no notes, no images (FaCE)",
            Redo::Imaged => "images",
            Redo::Noted => "images, notes for all",
            Redo::Usual => "images, notes for a log on flash",
        }
    }
}

/// FaCE's groups, and batches of slots that survive a crash, are durable when they are published, so the log
/// can note at no cost what a restart need not redo. A disk, LC or SCE would have to sync for that; the
/// paper's baseline, PostgreSQL, has no such notes.
pub fn knows_what_is_durable(system: System, keeps_slots: bool) -> bool {
    let knows = |policy: PolicyKind| match policy.placement() {
        Placement::Log => true,
        Placement::Slots => keeps_slots && policy.may_keep_slots(),
    };
    matches!(system, System::Cached(policy) if knows(policy))
}

/// Everything common to `bench tpcc` and `bench restart`.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchConfig {
    /// TPC-C warehouses.
    pub warehouses: u32,
    /// Concurrent clients.
    pub clients: u32,
    /// DRAM frames in per cent of the database's pages.
    pub dram_percent: f64,
    /// Which DRAM frame is evicted first.
    pub replacement: Replacement,
    /// Profile name of the flash device.
    pub flash_device: String,
    /// Profile name of the disk device.
    pub disk_device: String,
    /// SCE's knobs; without meaning for other systems.
    pub fragments: FragmentKnobs,
    /// LC's knobs; without meaning for other systems.
    pub lc: LcKnobs,
    /// What is in the slots survives a crash, of policies with slots that can do so; the papers' do not.
    pub keeps_slots: bool,
    /// Whether the log is kept so that the flash may be lost.
    pub flash_loss: FlashLoss,
    /// GSC pulls victims from DRAM to fill its groups (FaCE §3.3).
    pub pulls: bool,
    /// How much may be written to flash, of policies that weigh what a write is worth.
    pub flash_writes_per_day: DailyWrites,
    /// Measured time.
    pub measured: Duration,
    /// Time before measuring.
    pub warmup: Warmup,
    /// Time between database checkpoints.
    pub checkpoint_interval: Duration,
    /// What the log tells a restart.
    pub redo: Redo,
    /// Think time of a client between transactions.
    pub think: Duration,
    /// Seeds the load, the clients and the simulation.
    pub seed: u64,
    /// Run on these instead of simulated devices.
    pub real: Option<RealPaths>,
}

/// One system at one flash size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Which system.
    pub system: System,
    /// Flash slots in per cent of the database's pages; without meaning for disk-only and flash-only.
    pub flash_percent: f64,
}

/// One kill and restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restart {
    /// The system.
    pub run: Run,
    /// Time between its checkpoints.
    pub interval: Duration,
    /// What its log tells.
    pub redo: Redo,
}

/// How far an experiment is, for progress bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Stage {
    /// Building the database: rows so far, rows in all.
    Loading(u64, u64),
    /// Before measuring: seconds of virtual time so far.
    Warming(f64),
    /// Measuring: share done, 0..=1.
    Measuring(f64),
    /// Verifying the consistency conditions.
    Checking,
    /// Restarting after a kill.
    Restarting,
    /// All done.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_systems_begin_with_those_of_figure_4() {
        assert_eq!(System::ALL[..FIGURE_4.len()], FIGURE_4);
    }
}

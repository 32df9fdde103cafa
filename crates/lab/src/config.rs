//! What an experiment is made of.

use crate::replay::FragmentKnobs;
use entresol_core::PolicyKind;
use entresol_store::Replacement;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The systems that FaCE compares (§5.3), and a flash cache under any other policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// The store on the disk device, no flash (HDD-only).
    DiskOnly,
    /// The store with its database on the flash device (SSD-only).
    FlashOnly,
    /// The store on disk with a flash cache.
    Cached(PolicyKind),
    /// The store on disk with SCE's cache of fragments.
    Fragments,
}

impl System {
    /// Those of figure 4, in its order.
    pub const FIGURE_4: [System; 6] = [
        System::DiskOnly,
        System::FlashOnly,
        System::Cached(PolicyKind::Lc),
        System::Cached(PolicyKind::Face),
        System::Cached(PolicyKind::FaceGr),
        System::Cached(PolicyKind::FaceGsc),
    ];
    /// All: those without a flash cache, every policy in the order of the papers' tables, then SCE. So it begins with
    /// [`System::FIGURE_4`].
    pub const ALL: [System; PolicyKind::ALL.len() + 3] = {
        let mut all = [System::Fragments; PolicyKind::ALL.len() + 3];
        (all[0], all[1]) = (System::DiskOnly, System::FlashOnly);
        let mut at = 0;
        while at < PolicyKind::ALL.len() {
            all[2 + at] = System::Cached(PolicyKind::ALL[at]);
            at += 1;
        }
        all
    };

    /// The systems of FaCE's experiments (§5), with which [`System::ALL`] begins.
    pub const OF_FACE: &[System] = Self::ALL.split_at(6).0;

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            System::DiskOnly => "disk-only",
            System::FlashOnly => "flash-only",
            System::Cached(policy) => policy.name(),
            System::Fragments => "sce",
        }
    }

    /// Whether it has a flash cache.
    pub const fn has_cache(self) -> bool {
        matches!(self, System::Cached(_) | System::Fragments)
    }

    /// The system of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }
}

/// How long to run before measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// Until the flash cache has been filled three times over, at least half a minute; SCE's, which fills once, until it is
    /// full and its hit rate stands still. At most twenty minutes.
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

/// Everything common to `bench tpcc` and `bench restart`.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchConfig {
    /// TPC-C warehouses.
    pub warehouses: u32,
    /// Concurrent clients.
    pub clients: u32,
    /// DRAM frames in per cent of the database's pages.
    pub dram_percent: f64,
    /// Which DRAM frame goes first.
    pub replacement: Replacement,
    /// Profile name of the flash device.
    pub flash_device: String,
    /// Profile name of the disk device.
    pub disk_device: String,
    /// SCE's knobs; without meaning for other systems.
    pub fragments: FragmentKnobs,
    /// Measured time.
    pub measured: Duration,
    /// Time before measuring.
    pub warmup: Warmup,
    /// Time between database checkpoints.
    pub checkpoint_interval: Duration,
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
    fn all_systems_begin_with_those_of_figure_4_and_have_names_of_their_own() {
        assert_eq!(System::OF_FACE, System::FIGURE_4);
        for system in System::ALL {
            assert_eq!(System::from_name(system.name()), Some(system));
        }
    }
}

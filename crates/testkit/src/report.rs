//! The result of a campaign of crashes, in order of the operations at which power failed.

use crate::subject::Subject;
use std::fmt;

/// Maximum number of failures that are printed.
const LISTED: usize = 10;

/// Data was lost, invented or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The workload.
    pub workload: &'static str,
    /// The system under test.
    pub system: Subject,
    /// Seed of the campaign.
    pub seed: u64,
    /// Device operation of the first life at which the power failed.
    pub at: u64,
    /// Describes the defect.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, system, seed, at, message } = self;
        writeln!(f, "{workload} on {system}, seed {seed}, power failed at operation {at}: {message}")?;
        write!(
            f,
            "  replay: cargo run --release -p entresol-testkit --example crash -- {workload} {system} --seed {seed} --at {at}"
        )
    }
}

/// The counts and failures of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Device operations of the first life.
    pub operations: u64,
    /// Crashes of that life that were checked.
    pub crashes: u64,
    /// Crashes of later lives, during restarts and during the transactions after them.
    pub crashes_again: u64,
    /// Among these, crashes before the end of the restart.
    pub crashes_in_restart: u64,
    /// Completed restarts.
    pub restarts: u64,
    /// Transactions that restarts rolled back.
    pub losers: u64,
    /// Restarts of a cache that recovered pages.
    pub warm: u64,
    /// Pages read from flash in the first life.
    pub flash_hits: u64,
    /// Pages written to disk in the first life.
    pub disk_writes: u64,
    /// Second chances given in the first life.
    pub second_chances: u64,
    /// Checkpoints of the first life.
    pub checkpoints: u64,
    /// Dirty pages with which the first life began: those that a quick shutdown had left on flash.
    pub materialised: u64,
    /// The failures, sorted.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Adds the counts and failures of another part of the campaign.
    pub(crate) fn add(&mut self, other: Report) {
        self.crashes += other.crashes;
        self.crashes_again += other.crashes_again;
        self.crashes_in_restart += other.crashes_in_restart;
        self.restarts += other.restarts;
        self.losers += other.losers;
        self.warm += other.warm;
        self.failures.extend(other.failures);
    }

    /// Panics with the whole report if anything was wrong.
    ///
    /// # Panics
    /// See above.
    pub fn expect_sound(&self) {
        assert!(self.failures.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, crashes, crashes_again, crashes_in_restart, restarts, losers, warm, .. } =
            self;
        writeln!(
            f,
            "{crashes} crashes in {operations} operations, then {crashes_again} more ({crashes_in_restart} during \
             restarts); {restarts} restarts ({warm} warm), {losers} transactions rolled back"
        )?;
        let Self { flash_hits, disk_writes, second_chances, checkpoints, failures, .. } = self;
        writeln!(
            f,
            "first life: {flash_hits} flash hits, {disk_writes} pages to disk, {second_chances} second chances, \
             {checkpoints} checkpoints"
        )?;
        failures.iter().take(LISTED).try_for_each(|failure| writeln!(f, "{failure}"))?;
        write!(f, "{} failures", failures.len())
    }
}

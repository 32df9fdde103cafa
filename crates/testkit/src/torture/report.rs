//! The result of a torture.

use super::fault::FaultKind;
use std::collections::BTreeMap;
use std::fmt;

/// The devices of a machine, by their names.
pub const DEVICES: [&str; 3] = ["disk", "log", "flash"];
/// Number of printed code points: those that were reached least often.
const RAREST: usize = 8;

/// Data was lost, invented, or served wrongly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Seed of the torture.
    pub seed: u64,
    /// Number of the run.
    pub run: u64,
    /// The systems that were drawn from: the value of `--system`.
    pub systems: String,
    /// The system under test.
    pub system: String,
    /// The fault of the devices.
    pub kind: FaultKind,
    /// The place in the run, and the defect.
    pub message: String,
    /// The shortest script of the run that was found; empty if the run was not shortened.
    pub script: String,
    /// It was found by a torture of stores whose flash dies.
    pub flash_dies: bool,
}

impl Violation {
    /// A command that repeats the run.
    pub fn replay(&self) -> String {
        let what = if self.flash_dies { " --flash-dies" } else { "" };
        format!("entresol torture{what} --seed {} --system {} --run {}", self.seed, self.systems, self.run)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, run, system, kind, message, script, .. } = self;
        writeln!(f, "VIOLATION on {system}, seed {seed}, run {run}, {kind}: {message}")?;
        write!(f, "  replay: {}", self.replay())?;
        script.lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of crash states recovered and verified, by fault.
    pub states_by_fault: BTreeMap<FaultKind, u64>,
    /// Among these, states with a fault of one device, by kind and device ("disk", "log" or "flash").
    pub states_by_device: BTreeMap<(FaultKind, &'static str), u64>,
    /// Completed recoveries: the caches were open.
    pub restarts: u64,
    /// Pages compared with the oracle after a recovery.
    pub recovered_pages: u64,
    /// Lives in which a fault struck a device.
    pub faults_struck: u64,
    /// Faults that the engine detected: it refused, named a damaged page or bypassed it, or its check found
    /// the fault.
    pub faults_detected: u64,
    /// Number of lives.
    pub lives: u64,
    /// States of machines with slow devices; also counted in `states_by_fault`.
    pub states_slow: u64,
    /// States of lives in which the clock jumped; also counted in `states_by_fault`.
    pub states_jumped: u64,
}

impl Tally {
    /// Number of all states.
    pub fn states(&self) -> u64 {
        self.states_by_fault.values().sum()
    }

    pub(super) fn count(&mut self, kind: FaultKind) {
        *self.states_by_fault.entry(kind).or_default() += 1;
    }

    /// As [`Tally::count`], for a fault of `device`.
    pub(super) fn count_on(&mut self, kind: FaultKind, device: &'static str) {
        self.count(kind);
        *self.states_by_device.entry((kind, device)).or_default() += 1;
    }

    /// States with a fault of one device, by kind: of the disk, of the log, of the flash.
    pub fn by_device(&self) -> BTreeMap<FaultKind, [u64; 3]> {
        let mut table: BTreeMap<FaultKind, [u64; 3]> = BTreeMap::new();
        for ((kind, device), states) in &self.states_by_device {
            let place = DEVICES.iter().position(|name| name == device).expect("a machine has three devices");
            table.entry(*kind).or_default()[place] += states;
        }
        table
    }

    pub(super) fn add(&mut self, other: &Tally) {
        for (kind, states) in &other.states_by_fault {
            *self.states_by_fault.entry(*kind).or_default() += states;
        }
        for (fault, states) in &other.states_by_device {
            *self.states_by_device.entry(*fault).or_default() += states;
        }
        self.restarts += other.restarts;
        self.recovered_pages += other.recovered_pages;
        self.faults_struck += other.faults_struck;
        self.faults_detected += other.faults_detected;
        self.lives += other.lives;
        self.states_slow += other.states_slow;
        self.states_jumped += other.states_jumped;
    }
}

/// The result of a torture.
#[derive(Clone, Debug, Default)]
pub struct TortureReport {
    /// Seed of the torture.
    pub seed: u64,
    /// Number of runs, each with its own configuration.
    pub runs: u64,
    /// The sum of all counts.
    pub tally: Tally,
    /// The counts of each system.
    pub systems: BTreeMap<String, Tally>,
    /// The violations, in order of the runs.
    pub violations: Vec<Violation>,
    /// Named code points that were reached.
    pub reached: Vec<&'static str>,
    /// Named code points that were not reached.
    pub unreached: Vec<&'static str>,
    /// How often each named code point was reached.
    pub points: BTreeMap<&'static str, u64>,
    /// Real time taken, in seconds.
    pub seconds: f64,
    /// Number of OS threads.
    pub threads: usize,
}

impl TortureReport {
    /// States a second, over all threads.
    pub fn states_per_second(&self) -> f64 {
        self.tally.states() as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn add(&mut self, system: String, tally: &Tally) {
        self.runs += 1;
        self.tally.add(tally);
        self.systems.entry(system).or_default().add(tally);
    }

    /// Panics with the whole report if anything was wrong.
    ///
    /// # Panics
    /// See above.
    pub fn expect_sound(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for TortureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, runs, tally, systems, violations, reached, unreached, points, seconds, threads } =
            self;
        let states = tally.states();
        let rate = self.states_per_second();
        writeln!(
            f,
            "seed {seed}: {states} crash states in {runs} runs, {} lives; {seconds:.1} s on {threads} threads, {rate:.0} \
             states a second",
            tally.lives
        )?;
        writeln!(
            f,
            "{} restarts, {} pages compared; faults struck in {} lives, {} were noticed",
            tally.restarts, tally.recovered_pages, tally.faults_struck, tally.faults_detected
        )?;
        writeln!(f, "\nstates by fault")?;
        for (kind, states) in &tally.states_by_fault {
            writeln!(f, "  {:24} {states:>10}", kind.name())?;
        }
        writeln!(
            f,
            "  (with slow devices {}, after a jump of the clock {})",
            tally.states_slow, tally.states_jumped
        )?;
        writeln!(f, "\nof these by device {:>15} {:>10} {:>10}", "disk", "log", "flash")?;
        for (kind, states) in tally.by_device() {
            write!(f, "  {:24}", kind.name())?;
            states.iter().try_for_each(|states| write!(f, " {states:>10}"))?;
            writeln!(f)?;
        }
        writeln!(f, "\nstates by system")?;
        for (system, tally) in systems {
            writeln!(f, "  {system:24} {:>10}", tally.states())?;
        }
        if !(reached.is_empty() && unreached.is_empty()) {
            let all = reached.len() + unreached.len();
            writeln!(f, "\ncode points reached: {} of {all}", reached.len())?;
            unreached.iter().try_for_each(|point| writeln!(f, "  not reached: {point}"))?;
            let mut rarest: Vec<_> = reached.iter().map(|point| (points[point], point)).collect();
            rarest.sort_unstable();
            rarest.truncate(RAREST);
            rarest.iter().try_for_each(|(times, point)| writeln!(f, "  {times:>6} times: {point}"))?;
        }
        violations.iter().try_for_each(|violation| writeln!(f, "\n{violation}"))?;
        write!(f, "\n{} violations", violations.len())
    }
}

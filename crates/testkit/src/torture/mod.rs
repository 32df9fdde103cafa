//! Torture: the real engine and store under crashes at every operation and under all faults, with counts.
//!
//! A torture consists of *runs*. Each run has these steps:
//! 1. It draws a configuration and a script from the seed (`script`).
//! 2. It carries out the script on simulated devices (`life`).
//! 3. It examines every state that a power failure at any operation could have left: all subsets of the
//!    unsynced writes, torn writes, crashes of the recovery, crashes of the recovery from that (`point`,
//!    `run`).
//! 4. Before the recovery, some states get further faults: superblocks damaged, flash exchanged, lost, or
//!    silently damaged (`trial`, `damage`).
//! 5. Each state is recovered, and each page is compared with its legal versions (`oracle`, `judge`).
//! 6. The script of a violation is shortened (`shrink`).
//!
//! Invariant: run `n` of a seed is the same on every machine, after any other runs, and with any number of
//! threads. So a violation is replayed by its seed and run.

mod cache;
mod content;
mod damage;
mod database;
mod fault;
mod fragments;
mod judge;
mod life;
mod oracle;
mod point;
mod report;
mod run;
mod script;
mod shrink;
mod store;
mod target;
mod trial;

pub(crate) use damage::newest_superblock;
pub use fault::FaultKind;
pub use report::{DEVICES, Tally, TortureReport, Violation};
pub(crate) use run::Found;
pub(crate) use store::{DamagedFlash, Detached, Exchanged, FlashDies, Killed, Scarce, SickMedia};
pub use target::Target;

use damage::SILENT;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use run::run;
use script::Script;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::StoreRun;

/// One of this many runs is examined with [`TortureOptions::effort`]. The others only run their lives, which
/// takes little time in comparison.
const LOOKED_AT: u64 = 64;
/// Of the runs of a thorough torture, one of this many is examined thoroughly, and the others quickly: many
/// caches reveal more than one.
const THOROUGH: u64 = 6;
/// The index, among [`LOOKED_AT`] runs, of the run of a whole store.
const STORE_RUN: u64 = 32;

/// How thoroughly each life is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// One of this many moments at which power may fail is examined.
    one_of: u64,
    /// Maximum number of states at each of them.
    states: usize,
    /// Number of crash states that are tried with other flash and with damage.
    images: usize,
    /// Restricts the damage to these kinds; empty: everything is tried.
    damage_only: &'static [FaultKind],
}

impl Effort {
    /// Everything.
    pub const THOROUGH: Self = Self { one_of: 1, states: usize::MAX, images: 6, damage_only: &[] };
    /// A few moments, so that more lives run in the same time.
    pub const QUICK: Self = Self { one_of: 16, states: 4, images: 6, damage_only: &[] };
    /// Very few moments: for faults while a cache is in use.
    pub const LIVES: Self = Self { one_of: 200, states: 1, images: 0, damage_only: &[] };
    /// Silent faults of a device.
    pub const DAMAGE: Self = Self { one_of: 50, states: 1, images: 8, damage_only: &SILENT };
    /// Lost writes, at many moments.
    pub const LOST_WRITES: Self =
        Self { one_of: 8, images: 24, damage_only: &[FaultKind::LostWrite], ..Self::DAMAGE };
    /// Unreadable sectors, at many moments.
    pub const UNREADABLE: Self =
        Self { one_of: 8, images: 24, damage_only: &[FaultKind::Unreadable], ..Self::DAMAGE };
}

/// The settings of a torture.
#[derive(Clone, Debug)]
pub struct TortureOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Ends after the run in which the number of recovered states reaches this.
    pub states: Option<u64>,
    /// Starts no run after this time.
    pub time: Option<Duration>,
    /// Only the run of this number.
    pub only: Option<u64>,
    /// Targets (policies and modes) to draw from.
    pub targets: Vec<Target>,
    /// How thoroughly each life is examined.
    pub effort: Effort,
    /// Whether some runs are of whole stores.
    pub stores: bool,
    /// All runs are of stores whose flash dies.
    pub flash_dies: bool,
    /// Ends after this many violations.
    pub violations_max: usize,
    /// Whether the first violation's script is shortened.
    pub shrink: bool,
    /// Number of OS threads.
    pub threads: usize,
}

impl TortureOptions {
    /// All targets on all cores, until `states` states have been recovered.
    pub fn new(seed: u64, states: u64) -> Self {
        Self {
            seed,
            states: Some(states),
            time: None,
            only: None,
            targets: Target::all(),
            effort: Effort::THOROUGH,
            stores: true,
            flash_dies: false,
            violations_max: 1,
            shrink: true,
            threads: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        }
    }

    fn seed_of(&self, number: u64) -> u64 {
        Rng::new(self.seed ^ number.wrapping_mul(0xd134_2543_de82_ef95)).next_u64()
    }

    /// The script of a run of a cache.
    fn script(&self, number: u64) -> Script {
        Script::draw(self.seed_of(number), &self.targets)
    }

    /// The effort of run `number`.
    fn effort(&self, number: u64) -> Effort {
        match self.effort {
            _ if !number.is_multiple_of(LOOKED_AT) => Effort::LIVES,
            Effort::THOROUGH if !(number / LOOKED_AT).is_multiple_of(THOROUGH) => Effort::QUICK,
            effort => effort,
        }
    }

    /// The run of a whole store, if run `number` is one.
    fn store_run(&self, number: u64) -> Option<StoreRun> {
        if self.flash_dies {
            return StoreRun::draw_that_loses_its_flash(self.seed_of(number), &self.targets);
        }
        let is_one = self.stores && number % LOOKED_AT == STORE_RUN;
        is_one.then(|| StoreRun::draw(self.seed_of(number), &self.targets)).flatten()
    }

    /// The violation, shown with the shortest script that was found.
    fn shortened(&self, violation: &Violation) -> String {
        let found = Found { kind: violation.kind, message: violation.message.clone() };
        let (script, found) = match self.store_run(violation.run) {
            Some(run) => {
                let (run, found) = store::shrink(run, found);
                (run.to_string(), found)
            }
            None => {
                let effort = self.effort(violation.run);
                let (script, found) = shrink::shrink(self.script(violation.run), found, effort);
                (script.to_string(), found)
            }
        };
        format!("{script}then: {}", found.message)
    }

    fn run(&self, number: u64) -> Done {
        if let Some(store) = self.store_run(number) {
            let (tally, found) = store.run();
            return Done { tally, system: store.name(), found };
        }
        let script = self.script(number);
        let (tally, found) = run(&script, self.effort(number));
        Done { tally, system: script.target().to_string(), found }
    }
}

/// The result of one run.
struct Done {
    tally: Tally,
    system: String,
    found: Option<Found>,
}

/// Results of all threads. They are added to the report in the order of their numbers.
struct Desk {
    done: BTreeMap<u64, Done>,
    next: u64,
    report: TortureReport,
}

/// Runs the torture. `watch` is told how many states have been recovered, after each run.
///
/// # Panics
/// If there are no targets.
pub fn torture(options: &TortureOptions, watch: &(dyn Fn(u64) + Sync)) -> TortureReport {
    assert!(!options.targets.is_empty(), "there is something to torture");
    let began = Instant::now();
    let first = options.only.unwrap_or(0);
    let (next, ends) = (AtomicU64::new(first), AtomicBool::new(false));
    let desk = Mutex::new(Desk { done: BTreeMap::new(), next: first, report: TortureReport::default() });
    let threads = if options.only.is_some() { 1 } else { options.threads.max(1) };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !ends.load(Relaxed) && options.time.is_none_or(|time| began.elapsed() < time) {
                    let number = next.fetch_add(1, Relaxed);
                    let done = options.run(number);
                    let mut desk = desk.lock();
                    desk.done.insert(number, done);
                    if desk.take_in(options) || options.only.is_some() {
                        ends.store(true, Relaxed);
                    }
                    watch(desk.report.tally.states());
                }
            });
        }
    });
    let mut report = desk.into_inner().report;
    report.seed = options.seed;
    report.threads = threads;
    report.seconds = began.elapsed().as_secs_f64();
    // Whether a whole store was tortured depends on the number of runs.
    let store_runs = (first..first + report.runs).any(|number| options.store_run(number).is_some());
    let store_points = if store_runs { entresol_store::POINTS } else { &[] };
    // A flash tier and SCE's cache share few code points.
    let tier = options.targets.iter().any(|target| *target != Target::FRAGMENTS);
    let tier_points = if tier { entresol_engine::POINTS } else { &[] };
    let fragments = options.targets.contains(&Target::FRAGMENTS);
    let fragment_points = if fragments { entresol_engine::FRAGMENT_POINTS } else { &[] };
    for point in tier_points.iter().chain(fragment_points).chain(store_points) {
        let list = if point.count() > 0 { &mut report.reached } else { &mut report.unreached };
        list.push(point.name());
        report.points.insert(point.name(), point.count());
    }
    if options.shrink
        && let Some(violation) = report.violations.first_mut()
    {
        violation.script = options.shortened(violation);
    }
    report
}

impl Desk {
    /// Adds the results that are next in order. Returns whether the torture may end.
    fn take_in(&mut self, options: &TortureOptions) -> bool {
        let is_enough = |report: &TortureReport| {
            report.violations.len() >= options.violations_max
                || options.states.is_some_and(|states| report.tally.states() >= states)
        };
        while !is_enough(&self.report)
            && let Some(Done { tally, system, found }) = self.done.remove(&self.next)
        {
            self.report.add(system.clone(), &tally);
            if let Some(Found { kind, message }) = found {
                self.report.violations.push(Violation {
                    seed: options.seed,
                    run: self.next,
                    systems: Target::names(&options.targets),
                    flash_dies: options.flash_dies,
                    system,
                    kind,
                    message,
                    script: String::new(),
                });
            }
            self.next += 1;
        }
        is_enough(&self.report)
    }
}

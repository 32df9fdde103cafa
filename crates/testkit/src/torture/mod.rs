//! Torture: the real engine and store under crashes at every operation and every fault there is, counted.
//!
//! A torture consists of *runs*. Each draws a configuration and a script from the seed (`script`), carries it
//! out on simulated devices (`life`) and then looks at every state that a power failure at any operation
//! could have left: all subsets of the unsynced writes, torn ones, crashes of the recovery, crashes of the
//! recovery from that (`point`, `run`). Some states are made worse before: superblocks damaged, flash
//! exchanged, lost, damaged without a word (`trial`, `damage`). Each is recovered and compared, page by page,
//! with what may legally be found (`oracle`, `judge`). What goes wrong is shortened (`shrink`).
//!
//! Invariant: run `n` of a seed is the same on every machine, whatever ran before it and on however many
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

pub use fault::FaultKind;
pub use report::{DEVICES, Tally, TortureReport, Violation};
pub(crate) use run::Found;
pub(crate) use store::{DamagedFlash, Detached, Exchanged, Killed, Scarce, SickMedia};
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

/// One of so many runs is looked at as [`TortureOptions::effort`] says; of the others only the lives are
/// lived, which takes no time beside it.
const LOOKED_AT: u64 = 64;
/// Of a thorough torture's, one of so many is looked at thoroughly, and the others quickly: there is more to
/// see in many caches than in one.
const THOROUGH: u64 = 6;
/// Which of as many runs is of a whole store.
const STORE_RUN: u64 = 32;

/// How thoroughly each life is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// One of so many moments at which power may fail is looked at.
    one_of: u64,
    /// States at each of them.
    states: usize,
    /// Images that are tried with other flash and with damage.
    images: usize,
    /// These with such damage only; none: with everything.
    damage_only: &'static [FaultKind],
}

impl Effort {
    /// Everything.
    pub const THOROUGH: Self = Self { one_of: 1, states: usize::MAX, images: 6, damage_only: &[] };
    /// A few moments: more lives in the same time.
    pub const QUICK: Self = Self { one_of: 16, states: 4, images: 6, damage_only: &[] };
    /// Hardly any: what goes wrong while a cache is in use.
    pub const LIVES: Self = Self { one_of: 200, states: 1, images: 0, damage_only: &[] };
    /// What a device does without a word.
    pub const DAMAGE: Self = Self { one_of: 50, states: 1, images: 8, damage_only: &SILENT };
    /// Writes that a device loses, at many moments.
    pub const LOST_WRITES: Self =
        Self { one_of: 8, images: 24, damage_only: &[FaultKind::LostWrite], ..Self::DAMAGE };
    /// Sectors that cannot be read, at many moments.
    pub const UNREADABLE: Self =
        Self { one_of: 8, images: 24, damage_only: &[FaultKind::Unreadable], ..Self::DAMAGE };
}

/// What to torture, and for how long.
#[derive(Clone, Debug)]
pub struct TortureOptions {
    /// Of everything that happens by chance.
    pub seed: u64,
    /// Ends after the run with which so many states have been recovered.
    pub states: Option<u64>,
    /// Starts no run after this time.
    pub time: Option<Duration>,
    /// Only this run.
    pub only: Option<u64>,
    /// Policies and modes to draw from.
    pub targets: Vec<Target>,
    /// How thoroughly.
    pub effort: Effort,
    /// Whether some runs are of whole stores.
    pub stores: bool,
    /// Ends after so many violations.
    pub violations_max: usize,
    /// Whether the first violation's script is shortened.
    pub shrink: bool,
    /// OS threads.
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

    /// How thoroughly run `number` is looked at.
    fn effort(&self, number: u64) -> Effort {
        match self.effort {
            _ if !number.is_multiple_of(LOOKED_AT) => Effort::LIVES,
            Effort::THOROUGH if !(number / LOOKED_AT).is_multiple_of(THOROUGH) => Effort::QUICK,
            effort => effort,
        }
    }

    /// A run of a whole store, if this is to be one.
    fn store_run(&self, number: u64) -> Option<StoreRun> {
        let is_one = self.stores && number % LOOKED_AT == STORE_RUN;
        is_one.then(|| StoreRun::draw(self.seed_of(number), &self.targets)).flatten()
    }

    /// What goes wrong in the run of `violation`, with as little as possible around it.
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

/// What one run came to.
struct Done {
    tally: Tally,
    system: String,
    found: Option<Found>,
}

/// Runs of all threads, taken into the report in the order of their numbers.
struct Desk {
    done: BTreeMap<u64, Done>,
    next: u64,
    report: TortureReport,
}

/// Carries it out.
///
/// # Panics
/// If there are no targets.
pub fn torture(options: &TortureOptions) -> TortureReport {
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
                }
            });
        }
    });
    let mut report = desk.into_inner().report;
    report.seed = options.seed;
    report.threads = threads;
    report.seconds = began.elapsed().as_secs_f64();
    // Whether a whole store was tortured, too, is a question of how many runs there were.
    let store_runs = (first..first + report.runs).any(|number| options.store_run(number).is_some());
    let store_points = if store_runs { entresol_store::POINTS } else { &[] };
    // A flash tier and SCE's cache have little in common.
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
    /// Takes in the runs that are next; true if these were enough.
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

//! The moments of a life at which power may fail, and their crash states.
//!
//! Invariant: no state is examined twice. Between two moments without a write, a sync or a new promise there
//! is no new state. States without any of the newest writes were examined before.

use super::fault::FaultKind;
use super::oracle::Oracle;
use crate::machine::{Devices, Machine, Media, Progress, Standstill};
use entresol_device::{FaultPlan, Survival};
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Maximum number of unsynced writes of which all subsets are examined.
const EXHAUSTIVE_MAX: usize = 8;
/// Number of subsets examined if there are more writes.
const SAMPLES: usize = 12;
/// Number of states with torn writes examined at each moment.
const TORN_SAMPLES: usize = 2;

/// A moment at which power may fail.
#[derive(Debug)]
pub(super) struct Point {
    /// Device operations before the moment.
    pub at: u64,
    still: Standstill,
    pub oracle: Oracle,
    /// The cache was completely created.
    pub born: bool,
    /// The fault that had struck before.
    pub trouble: Option<FaultKind>,
    /// Numbers of unsynced writes on disk and on flash of which all subsets have been examined before.
    known: Option<(usize, usize)>,
}

/// The unsynced writes that survive.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    disk: Survival,
    flash: Survival,
    /// Each sector of a write survives or not.
    pub torn: bool,
    /// Also, some of the sectors are unreadable.
    pub unreadable: bool,
}

impl Chance {
    fn torn(rng: &mut Rng) -> Self {
        let mut seed = || Survival::Seed(rng.next_u64());
        Self { disk: seed(), flash: seed(), torn: true, unreadable: false }
    }

    fn torn_unreadable(rng: &mut Rng) -> Self {
        let mut seed = || Survival::Torn(rng.next_u64());
        Self { disk: seed(), flash: seed(), torn: true, unreadable: true }
    }
}

impl Point {
    fn unsynced(&self) -> (usize, usize) {
        (self.still.disk.unsynced().0, self.still.flash.unsynced().0)
    }

    /// The machine after the program was killed without a power failure.
    pub(super) fn after_kill(&self) -> Machine {
        self.still.after_kill(FaultPlan::none(), 0)
    }

    /// Whether there are unsynced writes that a power failure after a kill could lose.
    pub(super) fn has_unsynced(&self) -> bool {
        self.unsynced() != (0, 0)
    }

    /// The media after a power failure.
    pub(super) fn media(&self, chance: &Chance) -> Media {
        let survival = |of| Survival::clone(of);
        Media {
            disk: self.still.disk.after_crash(&survival(&chance.disk)),
            log: self.still.log.after_crash(&Survival::All),
            flash: self.still.flash.after_crash(&survival(&chance.flash)),
        }
    }

    /// All survivors that were not examined before; a sample if there are too many.
    pub(super) fn chances(&self, rng: &mut Rng) -> Vec<Chance> {
        let (disk, flash) = self.unsynced();
        let writes = disk + flash;
        let chance = |chosen: Vec<bool>| {
            let (disk, flash) = chosen.split_at(disk);
            Chance {
                disk: Survival::Writes(disk.to_vec()),
                flash: Survival::Writes(flash.to_vec()),
                torn: false,
                unreadable: false,
            }
        };
        let mut chances = Vec::new();
        if writes <= EXHAUSTIVE_MAX {
            let old = |at: &usize| match self.known {
                Some((disk_known, flash_known)) => {
                    *at < disk_known || (*at >= disk && *at - disk < flash_known)
                }
                None => false,
            };
            let new: u32 = (0..writes).filter(|at| !old(at)).map(|at| 1 << at).sum();
            for mask in 0..1u32 << writes {
                if mask & new != 0 || self.known.is_none() {
                    chances.push(chance((0..writes).map(|at| mask >> at & 1 == 1).collect()));
                }
            }
        } else {
            for _ in 0..SAMPLES {
                chances.push(chance((0..writes).map(|_| rng.below(2) == 0).collect()));
            }
        }
        if writes > 0 {
            chances.extend((0..TORN_SAMPLES).map(|_| Chance::torn(rng)));
            chances.push(Chance::torn_unreadable(rng));
        }
        chances
    }

    /// One random choice of the survivors.
    pub(super) fn any_chance(&self, rng: &mut Rng) -> Chance {
        match rng.below(4) {
            0 => Chance { disk: Survival::All, flash: Survival::All, torn: false, unreadable: false },
            1 => Chance { disk: Survival::None, flash: Survival::None, torn: false, unreadable: false },
            _ => Chance::torn(rng),
        }
    }
}

/// The state of a life in progress.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// The cache was completely created.
    pub born: AtomicBool,
    /// The cache is open.
    pub opened: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    /// One of this many moments is recorded.
    one_of: u64,
    points: Vec<Point>,
    /// Promises, progress and birth at the last recorded moment.
    last: Option<(u64, Progress, bool)>,
}

/// The moments recorded so far.
#[derive(Clone, Debug)]
pub(super) struct Points(Arc<Mutex<Seen>>);

impl Points {
    /// Takes the moments out.
    pub(super) fn take(&self) -> Vec<Point> {
        std::mem::take(&mut self.0.lock().points)
    }

    fn see(
        &self,
        devices: &Devices,
        at: u64,
        oracle: &Mutex<Oracle>,
        born: bool,
        trouble: Option<FaultKind>,
    ) {
        let mut seen = self.0.lock();
        if seen.one_of > 1 && Rng::new(at).below(seen.one_of) > 0 {
            return;
        }
        let oracle = oracle.lock();
        let (promises, progress) = (oracle.promises(), devices.progress());
        let mut known = None;
        if let Some((promises_before, progress_before, born_before)) = seen.last
            && (promises, born) == (promises_before, born_before)
        {
            if progress == progress_before {
                return;
            }
            let syncs = |of: Progress| of.map(|(_, syncs)| syncs);
            if syncs(progress) == syncs(progress_before) {
                known = seen.points.last().map(Point::unsynced);
            }
        }
        seen.last = Some((promises, progress, born));
        let still = devices.standstill();
        seen.points.push(Point { at, still, oracle: oracle.clone(), born, trouble, known });
    }
}

/// Records every moment, or one of `one_of`, of the coming operations of `machine`. `stage` is that of a
/// life, whose plan may contain a fault of `kind`.
pub(super) fn observe(
    machine: &mut Machine,
    oracle: Arc<Mutex<Oracle>>,
    one_of: u64,
    stage: Option<(Arc<Stage>, Arc<FaultPlan>, Option<FaultKind>)>,
) -> Points {
    let points = Points(Arc::new(Mutex::new(Seen { one_of, ..Seen::default() })));
    let seen = points.clone();
    machine.observe(move |devices, at| {
        let (born, trouble) = match &stage {
            None => (true, None),
            Some((stage, plan, kind)) => (stage.born.load(Relaxed), kind.filter(|_| plan.struck() > 0)),
        };
        seen.see(devices, at, &oracle, born, trouble);
    });
    points
}

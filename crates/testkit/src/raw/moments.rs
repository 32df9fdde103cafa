//! Moments of a life at which power might have failed, and what an open finds after that.
//!
//! Invariant: a moment is taken without an effect on the life. It draws from random numbers of its own and
//! takes no time, so the life is the same with and without.

use super::files;
use super::life::{Life, blank_journal, devices_on};
use super::oracle::{Oracle, Shared};
use super::{restarted, simulation};
use crate::machine::Media;
use crate::watched::Observer;
use entresol_device::{FaultPlan, FaultyDevice, Moment, Survival};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::Outcome;
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// One in so many device operations is a moment that is examined.
const ONE_OF: u64 = 12;
/// Crash states of each moment.
const STATES: u64 = 2;

/// All that a crash state is made of.
struct Taken {
    /// Device operations before.
    at: u64,
    /// Flash, disk and label file.
    devices: [Moment; 3],
    oracles: Vec<Oracle>,
    files: files::State,
}

/// What is taken of a life.
pub(super) struct Moments {
    plan: Arc<FaultPlan>,
    devices: [Arc<FaultyDevice>; 3],
    oracles: Vec<Shared>,
    files: files::Known,
    /// The cache exists.
    born: AtomicBool,
    taken: parking_lot::Mutex<(Rng, Vec<Taken>)>,
}

impl Moments {
    /// Of `life`, whose clients know `oracles`.
    pub fn of(life: &Life<'_>, oracles: &[Shared], born: bool, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            plan: life.plan.clone(),
            devices: [life.flash.clone(), life.disk.clone(), life.label_file.clone()],
            oracles: oracles.to_vec(),
            files: life.known.clone(),
            born: AtomicBool::new(born),
            taken: parking_lot::Mutex::new((Rng::new(seed), Vec::new())),
        })
    }

    /// The cache was made.
    pub fn is_born(&self) {
        self.born.store(true, SeqCst);
    }

    /// Takes some of the moments at which it is called.
    pub fn observer(self: &Arc<Self>) -> Observer {
        let moments = self.clone();
        Arc::new(move |_| moments.take())
    }

    fn take(&self) {
        let mut taken = self.taken.lock();
        if taken.0.below(ONE_OF) > 0 || !self.born.load(SeqCst) {
            return;
        }
        // A file is being made or removed: a life that ends then is for that.
        let Some(files) = self.files.try_lock() else { return };
        taken.1.push(Taken {
            at: self.plan.operations(),
            devices: self.devices.each_ref().map(|device| device.moment()),
            oracles: self.oracles.iter().map(|oracle| oracle.lock().clone()).collect(),
            files: *files,
        });
    }

    /// Examines all that was taken; gives the number of crash states.
    pub fn examine(&self, life: &Life<'_>) -> Result<u64, String> {
        let (mut rng, taken) = {
            let mut taken = self.taken.lock();
            (Rng::new(taken.0.next_u64()), std::mem::take(&mut taken.1))
        };
        let states = taken.len() as u64 * STATES;
        for moment in taken {
            for _ in 0..STATES {
                let survival = super::survival(&mut rng, false);
                let found = moment.open_after(&survival, life, rng.next_u64());
                found.map_err(|what| {
                    format!("had power failed at operation {} ({survival:?}): {what}", moment.at)
                })?;
            }
        }
        Ok(states)
    }
}

impl Taken {
    /// Opens the cache after a power failure at this moment, and reads everything.
    fn open_after(&self, survival: &Survival, life: &Life<'_>, seed: u64) -> Result<(), String> {
        let [flash, disk, log] = self.devices.each_ref().map(|device| device.after_crash(survival));
        let [flash, disk, label_file] = devices_on(Media { flash, disk, log });
        let known = Arc::new(Mutex::new(Rank::Test, self.files));
        let journal = blank_journal();
        // A flash that failed is back.
        let (plan, without_flash) = (life.plan.clone(), false);
        let after = Life { known: &known, plan, flash, disk, label_file, journal, without_flash, ..*life };
        let oracles: Vec<Shared> = self
            .oracles
            .iter()
            .map(|oracle| Arc::new(parking_lot::Mutex::new(oracle.after_power())))
            .collect();
        let lived = simulation(seed).run(|| {
            let opened = after.open(false, None)?;
            oracles.iter().try_for_each(|oracle| restarted(&opened, oracle))
        });
        match lived {
            Outcome::Finished(result) => result,
            other => Err(format!("{other:?}")),
        }
    }
}

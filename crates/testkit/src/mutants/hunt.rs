//! Hunting one mutant: trials with the same judges that the sound program passes, until one of them finds something wrong.
//!
//! A round consists of a torture of random caches ([`crate::torture()`]), a campaign of crashes of a store ([`Campaign`])
//! whose system and shape change from round to round, and crashes while a store is made ([`Birth`]). The crate that a
//! mutant is in decides which comes first, and nothing else.

use super::{Mutant, find};
use crate::birth::Birth;
use crate::torture::{TortureOptions, torture};
use crate::{Bank, Campaign, System};
use entresol_core::PolicyKind;
use entresol_runtime::rng::Rng;
use std::fmt;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How a hunt went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunt {
    /// The mutant; `None`: the sound program was run.
    pub mutant: Option<&'static Mutant>,
    /// How often its place was passed.
    pub met: u64,
    /// Crash states looked at.
    pub states: u64,
    /// What gave it away; `None`: it survived.
    pub evidence: Option<String>,
}

/// Why there is no hunt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HuntError {
    /// No such mutant.
    #[error("there is no mutant {found:?}; known are {known}")]
    Unknown {
        /// What was asked for.
        found: String,
        /// All names.
        known: String,
    },
    /// The build has none.
    #[error("this build has no mutants; build it with `--features mutants`")]
    NotCompiledIn,
    /// One process, one mutant.
    #[error("another mutant lives in this process already; start another one")]
    Taken,
}

#[cfg(feature = "mutants")]
fn bring_to_life(name: &str) -> Result<(), HuntError> {
    if entresol_core::mutant::choose(name) { Ok(()) } else { Err(HuntError::Taken) }
}

#[cfg(not(feature = "mutants"))]
fn bring_to_life(_: &str) -> Result<(), HuntError> {
    Err(HuntError::NotCompiledIn)
}

fn met() -> u64 {
    #[cfg(feature = "mutants")]
    return entresol_core::mutant::met();
    #[cfg(not(feature = "mutants"))]
    return 0;
}

/// When a hunt ends without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// After the trial with which so many states were looked at.
    pub states: u64,
    /// After the trial that ends behind this time.
    pub time: Duration,
}

/// Brings the mutant `name` to life (none: the sound program) and runs trials from `seed` on until something is wrong or
/// the limit is reached.
///
/// # Errors
/// See [`HuntError`].
pub fn hunt(name: Option<&str>, seed: u64, limit: Limit) -> Result<Hunt, HuntError> {
    let mut hunt = Hunt::default();
    if let Some(name) = name {
        let known = || super::ALL.iter().map(|mutant| mutant.name).collect::<Vec<_>>().join(", ");
        let mutant =
            find(name).ok_or_else(|| HuntError::Unknown { found: name.to_owned(), known: known() })?;
        bring_to_life(mutant.name)?;
        hunt.mutant = Some(mutant);
    }
    let started = Instant::now();
    let store_first = hunt.mutant.is_some_and(|mutant| mutant.place == "store");
    let trials: [fn(&mut Hunt, u64, u64); 3] = match store_first {
        true => [Hunt::crash_a_store, Hunt::make_a_store, Hunt::torture_caches],
        false => [Hunt::torture_caches, Hunt::crash_a_store, Hunt::make_a_store],
    };
    for round in 0.. {
        for trial in trials {
            trial(&mut hunt, seed, round);
            hunt.met = met();
            let is_over = hunt.states >= limit.states || started.elapsed() >= limit.time;
            if hunt.evidence.is_some() || is_over {
                return Ok(hunt);
            }
        }
    }
    Ok(hunt)
}

/// States of the first torture; later ones are longer.
const STATES: u64 = 2000;

impl Hunt {
    fn torture_caches(&mut self, seed: u64, round: u64) {
        let options = TortureOptions {
            threads: 1,
            shrink: false,
            ..TortureOptions::new(seed + round, STATES * (1 + round.min(9)))
        };
        let report = torture(&options);
        self.states += report.tally.states();
        self.evidence = report.violations.first().map(|violation| violation.to_string());
    }

    fn crash_a_store(&mut self, seed: u64, round: u64) {
        // The systems in turn, those with most to them first.
        let systems = [
            System::Cached(PolicyKind::FaceGsc),
            System::DiskOnly,
            System::Cached(PolicyKind::Lc),
            System::Cached(PolicyKind::Face),
            System::WriteThrough(PolicyKind::FaceGsc),
            System::Cached(PolicyKind::FaceGr),
        ];
        let mut rng = Rng::new(seed ^ round << 32);
        let slow = [Some("log"), None, Some("flash"), Some("disk")][(round + round / 6) as usize % 4];
        let bank = Bank {
            clients: 2 + 2 * rng.below(4) as u32,
            long: [0, 6][round as usize % 2],
            ..Bank::default()
        };
        let campaign = Campaign {
            stride: 12,
            again: 2,
            slow,
            threads: 1,
            ..Campaign::new(systems[round as usize % systems.len()], rng.next_u64(), 24)
        };
        let report = campaign.run(&bank);
        self.states += report.crashes + report.crashes_again;
        self.evidence = report.failures.first().map(|failure| format!("with a slow {slow:?}: {failure}"));
    }

    fn make_a_store(&mut self, seed: u64, round: u64) {
        let system = System::ALL[round as usize % System::ALL.len()];
        let bank = Bank::default();
        let mut crash = || -> Result<(), String> {
            let birth = Birth::new(&bank, system, seed + round)?;
            // At every operation in turn, in the course of a few rounds.
            for at in (1 + round % 8..=birth.operations()).step_by(8) {
                self.states += 1;
                birth.crash_at(at).map_err(|why| format!("power failed at operation {at}: {why}"))?;
            }
            Ok(())
        };
        self.evidence = crash().err().map(|why| format!("making a store on {system}: {why}"));
    }
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.mutant.map_or("(none)", |mutant| mutant.name);
        write!(f, "{name}: {} crash states, met {} times: ", self.states, self.met)?;
        match &self.evidence {
            Some(evidence) => write!(f, "{evidence}"),
            None => f.write_str("nothing was noticed"),
        }
    }
}

//! Hunting one mutant.

use super::find;
use crate::{Bank, Campaign, System};
use std::fmt;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How a hunt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunt {
    /// Name of the mutant; `None`: the sound program was run.
    pub name: Option<String>,
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
    #[error("there is no mutant {0:?}; `--mutate list` names them")]
    Unknown(String),
    /// The build has none.
    #[error("this build has no mutants; build with `--features mutants`")]
    NotCompiledIn,
    /// One process, one mutant.
    #[error("another mutant lives in this process already")]
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

#[cfg(feature = "mutants")]
fn met() -> u64 {
    entresol_core::mutant::met()
}

#[cfg(not(feature = "mutants"))]
fn met() -> u64 {
    0
}

/// Brings the mutant `name` to life (none: the sound program) and runs trials from `seed` on until something is wrong or
/// the time is up.
///
/// # Errors
/// See [`HuntError`].
pub fn hunt(name: Option<&str>, seed: u64, time_max: Duration) -> Result<Hunt, HuntError> {
    if let Some(name) = name {
        let mutant = find(name).ok_or_else(|| HuntError::Unknown(name.to_owned()))?;
        bring_to_life(mutant.name)?;
    }
    let end = Instant::now() + time_max;
    let mut hunt = Hunt { name: name.map(str::to_owned), met: 0, states: 0, evidence: None };
    for seed in seed.. {
        for system in System::ALL {
            let campaign = Campaign { stride: 16, threads: 1, ..Campaign::new(system, seed, 24) };
            let report = campaign.run(&Bank::default());
            hunt.states += report.crashes + report.crashes_again;
            hunt.met = met();
            hunt.evidence = report.failures.first().map(|failure| failure.to_string());
            if hunt.evidence.is_some() || Instant::now() >= end {
                return Ok(hunt);
            }
        }
    }
    Ok(hunt)
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("(none)");
        write!(f, "{name}: {} crash states, met {} times: ", self.states, self.met)?;
        match &self.evidence {
            Some(evidence) => write!(f, "{evidence}"),
            None => f.write_str("nothing was noticed"),
        }
    }
}

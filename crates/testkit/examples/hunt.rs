//! A hunt with the rigs, for the mutant that `ENTRESOL_MUTANT` names: `cargo xtask mutants` runs it in its
//! copy of the tree. Without a mutant it must find nothing.
//!
//! ```text
//! hunt AIM SEED STATES SECONDS
//! ```
//!
//! It ends after the trial in which so many crash states were checked, or so many seconds were over. Exit
//! status: 0 nothing was noticed; 1 something was; 2 it has not hunted.

use anyhow::Context;
use entresol_testkit::mutants::{Aim, Limit, hunt};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let (aim, seed, limit) = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            println!("{error:#}");
            return ExitCode::from(2);
        }
    };
    let hunt = hunt(&aim, seed, limit);
    println!("{hunt}");
    if hunt.evidence.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn arguments() -> anyhow::Result<(Aim, u64, Limit)> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [aim, seed, states, seconds] = &words[..] else {
        anyhow::bail!("usage: hunt AIM SEED STATES SECONDS")
    };
    let number = |word: &String| word.parse().with_context(|| format!("{word:?} is no number"));
    let aim = aim.parse().map_err(anyhow::Error::msg)?;
    Ok((aim, number(seed)?, Limit { states: number(states)?, time: Duration::from_secs(number(seconds)?) }))
}

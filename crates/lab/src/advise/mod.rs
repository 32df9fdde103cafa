//! Advice before buying: how much DRAM, how much flash, which policy and mode, for a trace and prices; or no
//! flash at all.
//!
//! | file | what it does |
//! |---|---|
//! | `question` | what is asked: prices, goal, the machine |
//! | `split` | what a budget buys (3LA's equi-cost constraint) |
//! | `search` | which splits, policies and modes are replayed |
//! | `avoidable` | what is left of a response without first reads |
//! | `judge` | what is best for the goal, and whether flash pays |
//! | `advice` | the answer, as it is written to JSON |
//! | `words` | the answer in a sentence |
//!
//! The search goes from coarse to fine: sizes with one or two policies, then all policies at the best sizes,
//! then modes, then money between the steps. Every number comes from a replay of the trace itself
//! (`crate::replay`).
//!
//! Invariant: flash is advised only if it beats DRAM alone **for the same money**; what is compared was
//! replayed over the same references.

mod advice;
mod avoidable;
mod judge;
mod question;
mod search;
mod split;
mod words;

pub use advice::{Advice, Candidate, Reason, Recommendation, Sureness};
pub use question::{AdviceError, Goal, Question};

use crate::replay::{Progress, Workload};
use search::Search;

/// Answers `question` for `trace`, or for samples of it. The same trace and question give the same answer on
/// every machine.
///
/// # Errors
/// [`AdviceError`] for what cannot be asked; whatever keeps a simulation from running.
pub fn advise<'t>(
    trace: impl Into<Workload<'t>>,
    question: &Question,
    progress: Progress<'_>,
) -> anyhow::Result<Advice> {
    let mut search = Search::new(trace.into(), question, progress)?;
    search.explore()?;
    let judged = judge::judge(&search);
    let halves = search.halves(&judged)?;
    Ok(advice::assemble(&search, &judged, &halves))
}

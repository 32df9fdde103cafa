//! What is best for the goal, and whether flash pays.
//!
//! ```text
//! budget:            the shortest mean response. Flash pays if it is 5 % shorter than DRAM alone for that money.
//! response, knee:    the cheapest that is fast enough. Flash pays if DRAM alone is not, or costs 5 % more.
//! ```
//!
//! Per cents are of the avoidable part of responses (`avoidable`): what first reads take is the same whatever
//! is bought.
//!
//! Flash *hurts* where the best of it is slower than DRAM alone for the same money: what it takes from DRAM,
//! or the waiting for its writes, costs more than its hits save.
//!
//! Invariant: responses are compared between runs over the same references only.

use super::advice::{Reason, Recommendation};
use super::avoidable::Avoidable;
use super::question::{Goal, Question};
use super::search::{BEST, Choice, Run, Search};
use std::cmp::Ordering;

/// What flash must give to pay: response or money, by this factor.
pub(super) const PAYS: f64 = 1.05;
/// Below this gain at equal money flash hurts; above, up to [`PAYS`], it makes no difference.
pub(super) const HURTS: f64 = 0.99;
/// The knee: so many times the avoidable part of the shortest response is fast enough.
const KNEE: f64 = 1.10;

/// The answer in terms of runs.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub verdict: Recommendation,
    pub reason: Reason,
    /// What is advised.
    pub advised: Option<Choice>,
    /// Flash that is compared with DRAM alone for the same money.
    pub pair: Option<Choice>,
    /// DRAM alone that is best for the goal.
    pub alone: Option<Choice>,
    /// The best few: of each policy in each mode its best, DRAM alone among them.
    pub best: Vec<Choice>,
    /// Fast enough, microseconds.
    pub target_us: Option<f64>,
}

/// Mean response that is fast enough; `None`: the faster the better.
fn target_us(runs: &[&Run], goal: Goal, avoidable: Avoidable) -> Option<f64> {
    match goal {
        Goal::Budget(_) => None,
        Goal::Response(us) => Some(us),
        Goal::Knee => {
            let shortest = runs.iter().map(|run| run.response_us()).reduce(f64::min);
            shortest.map(|shortest| avoidable.times(KNEE, shortest))
        }
    }
}

/// Runs that may be advised, best for the goal first; equals in the order in which they were tried.
pub(super) fn ranked<'r>(runs: &'r [Run], question: &Question, avoidable: Avoidable) -> Vec<&'r Run> {
    let mut ranked: Vec<&Run> = runs.iter().filter(|run| lasts(run, question)).collect();
    let target = target_us(&ranked, question.goal, avoidable);
    let slow = |run: &Run| target.is_some_and(|target| run.response_us() > target);
    let by_response = |a: &Run, b: &Run| a.response_us().total_cmp(&b.response_us());
    let by_money = |a: &Run, b: &Run| a.money.total_cmp(&b.money);
    ranked.sort_by(|a, b| match (target, slow(a), slow(b)) {
        (None, ..) | (_, true, true) => by_response(a, b).then(by_money(a, b)),
        (_, true, false) => Ordering::Greater,
        (_, false, true) => Ordering::Less,
        (_, false, false) => by_money(a, b).then(by_response(a, b)),
    });
    ranked
}

/// Whether its flash is not worn out too soon.
fn lasts(run: &Run, question: &Question) -> bool {
    run.result.flash_lifetime_years.is_none_or(|years| years >= question.years_min)
}

/// DRAM alone for the same money.
pub(super) fn peer<'r>(runs: &'r [Run], choice: &Choice) -> Option<&'r Run> {
    runs.iter().find(|run| !run.has_flash() && run.choice.b == choice.b)
}

/// How many times as fast as DRAM alone for the same money; 1 for DRAM alone.
pub(super) fn gain(runs: &[Run], run: &Run) -> Option<f64> {
    Some(peer(runs, &run.choice)?.response_us() / run.response_us())
}

/// The same of what is avoidable.
fn avoidable_gain(search: &Search<'_>, run: &Run) -> Option<f64> {
    let weight = |run: &Run| search.avoidable.weight(run.response_us());
    Some(weight(peer(&search.runs, &run.choice)?) / weight(run))
}

/// Judges a search.
pub(super) fn judge(search: &Search<'_>) -> Judged {
    let runs = &search.runs;
    let ranked = ranked(runs, search.question, search.avoidable);
    let target = target_us(&ranked, search.question.goal, search.avoidable);
    let flash = ranked.iter().copied().find(|run| run.has_flash());
    let alone = ranked.iter().copied().find(|run| !run.has_flash());
    let fast = |run: &Run| target.is_none_or(|target| run.response_us() <= target);
    let best_at = |b: f64| ranked.iter().copied().find(|run| run.has_flash() && run.choice.b == b);
    let (verdict, reason, pair) = match (flash, alone) {
        (None, _) if runs.iter().any(Run::has_flash) => (Recommendation::NoFlash, Reason::WearsOut, None),
        (None, _) | (_, None) => (Recommendation::NoFlash, Reason::TooSmall, None),
        (Some(flash), Some(alone)) => match (fast(flash), fast(alone)) {
            (false, false) => (Recommendation::Unreachable, Reason::NotFastEnough, Some(flash)),
            (true, false) => (Recommendation::Flash, Reason::Pays, Some(flash)),
            (true, true) if target.is_none() => of_gain(search, flash),
            (true, true) if flash.money * PAYS <= alone.money => {
                (Recommendation::Flash, Reason::Pays, Some(flash))
            }
            // DRAM alone is as cheap, or flash is too slow.
            (_, true) => {
                let rival = best_at(alone.choice.b);
                let hurts =
                    rival.and_then(|rival| avoidable_gain(search, rival)).is_some_and(|gain| gain < HURTS);
                let reason = if hurts { Reason::Hurts } else { Reason::DoesNotPay };
                (Recommendation::NoFlash, reason, rival)
            }
        },
    };
    let advised = match verdict {
        Recommendation::Flash => flash,
        Recommendation::NoFlash => alone,
        Recommendation::Unreachable => ranked.first().copied(),
    };
    let choice = |run: &Run| run.choice;
    Judged {
        verdict,
        reason,
        advised: advised.map(choice),
        pair: pair.map(choice),
        alone: alone.map(choice),
        best: best(&ranked, advised, alone),
        target_us: target,
    }
}

/// For a given budget: by how much flash is faster.
fn of_gain<'r>(search: &Search<'_>, flash: &'r Run) -> (Recommendation, Reason, Option<&'r Run>) {
    let gain = avoidable_gain(search, flash).unwrap_or(1.0);
    let (verdict, reason) = match gain {
        gain if gain >= PAYS => (Recommendation::Flash, Reason::Pays),
        gain if gain < HURTS => (Recommendation::NoFlash, Reason::Hurts),
        _ => (Recommendation::NoFlash, Reason::DoesNotPay),
    };
    (verdict, reason, Some(flash))
}

/// What is advised, then the best of each policy in each mode on each device; DRAM alone is always there.
fn best(ranked: &[&Run], advised: Option<&Run>, alone: Option<&Run>) -> Vec<Choice> {
    let mut best: Vec<Choice> = Vec::new();
    let kind = |choice: &Choice| (choice.flash_layer, choice.mode, choice.device);
    for run in advised.iter().chain(ranked) {
        if best.len() < BEST && !best.iter().any(|other| kind(other) == kind(&run.choice)) {
            best.push(run.choice);
        }
    }
    if let Some(alone) = alone.filter(|alone| !best.contains(&alone.choice)) {
        best.push(alone.choice);
    }
    best
}

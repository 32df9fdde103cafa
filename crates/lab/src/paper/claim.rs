//! A claim of a paper as a value, and the one function that judges claims.
//!
//! A claim stands in the folder of its paper, with the paper's numbers and with the evidence that it is
//! judged by: results of runs. To add a claim:
//! 1. Add a [`Claim`] to a list `CLAIMS` of the paper, in the order of the paper. Its id is
//!    `paper.place.what`, e.g. "face.table4b.gsc-over-lc"; "s5-3" is §5.3.
//! 2. Write its function `judge` below the list. It returns a [`Check`] for each number, and none if the
//!    evidence does not have the numbers. It takes bounds from the tolerance that it is given.
//! 3. Add evidence that contradicts it to the tests of the paper: the claim, and only it, must fail.
//! 4. Run `reproduce`. If the claim does not hold, write into `reason` what is known about it, without a full
//!    stop.
//! 5. Run the golden tests of the paper with `UPDATE_EXPECT=1` and read the difference.
//!
//! A new list is also named in `claims` of its paper, and judged in the paper's chapter of
//! `crate::reproduce`.
//!
//! Invariants:
//! - An id names one claim only.
//! - A reason is a field of its claim. So the words of a claim can change, and its reason stays.
//! - [`crate::reproduce::run`] judges each claim of a paper once, in the order of `claims`.

use super::tolerance::Tolerance;
use super::verdict::{Check, Outcome, Verdict};
use serde::Serialize;

/// What a paper says and what there is to say about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statement {
    /// Its name, which stays when its words change.
    pub id: &'static str,
    /// Where the paper says so, e.g. "FaCE table 3a".
    pub source: &'static str,
    /// What it says, with the tolerance that we read into words like "about".
    pub says: &'static str,
    /// The same tolerance, as data.
    pub tolerance: Tolerance,
    /// What to run where the claim was not tested.
    pub needs: &'static str,
    /// Why it does not hold, where it does not.
    pub reason: Option<&'static str>,
}

/// A claim over evidence of type `E`: results of runs.
pub struct Claim<E: ?Sized> {
    /// What the paper says.
    pub statement: Statement,
    /// The numbers that the claim rests on; none at all if the evidence does not have them.
    pub judge: fn(&E, Tolerance) -> Vec<Check>,
}

/// A claim, judged, with what there is to say about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The claim, judged.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Why it does not hold here; empty if it holds, was not tested, or nothing is known.
    pub why: &'static str,
}

impl<E: ?Sized> Claim<E> {
    /// Judges the claim on the first of the evidence that has its numbers.
    fn judged(&self, evidence: &[&E]) -> Judged {
        let of = |evidence: &&E| (self.judge)(evidence, self.statement.tolerance);
        let checks = evidence.iter().map(of).find(|checks| !checks.is_empty()).unwrap_or_default();
        let verdict = Verdict::of(&self.statement, checks);
        let fails = verdict.outcome == Outcome::DoesNotHold;
        Judged { verdict, why: self.statement.reason.filter(|_| fails).unwrap_or_default() }
    }
}

/// Judges claims, each on the first of the evidence that has its numbers.
pub fn judged<'c, E: ?Sized + 'c>(
    claims: impl IntoIterator<Item = &'c Claim<E>>,
    evidence: &[&E],
) -> Vec<Judged> {
    claims.into_iter().map(|claim| claim.judged(evidence)).collect()
}

/// What claims say.
pub fn statements<'c, E: ?Sized + 'c>(
    claims: impl IntoIterator<Item = &'c Claim<E>>,
) -> impl Iterator<Item = Statement> {
    claims.into_iter().map(|claim| claim.statement)
}

#[cfg(test)]
#[path = "claim_tests.rs"]
pub(crate) mod tests;

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
//!    stop. If a constant of ours was set on the very figure, name it in `set_on_it`. If the bound is far
//!    from the paper's own figures, give them as `figures`.
//! 5. Run the golden tests of the paper with `UPDATE_EXPECT=1` and read the difference.
//! 6. Add its row to docs/results/CLAIMS.md; a test names what is missing there.
//!
//! A new list is also named in `claims` of its paper, and judged in the paper's chapter of
//! `crate::reproduce`.
//!
//! Invariants:
//! - An id names one claim only.
//! - A reason is a field of its claim. So the words of a claim can change, and its reason stays.
//! - A claim that a constant was set on is never counted as held.
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
    /// What to run where the claim was not judged.
    pub needs: &'static str,
    /// Why it does not hold, where it does not.
    pub reason: Option<&'static str>,
    /// The constant of ours that was set on this figure, where there is one. What it makes true is
    /// [`Outcome::Given`], never held.
    pub set_on_it: Option<&'static str>,
    /// The paper's own figures of the values that the tolerance bounds, where the bound is far from them: one
    /// for all checks, or one for each. Then a second verdict says whether ours are within 25 % of them.
    pub figures: &'static [f64],
}

impl Statement {
    /// A statement that says nothing yet: what most claims leave as it is.
    pub const BASE: Self = Self {
        id: "",
        source: "",
        says: "",
        tolerance: Tolerance::Direction,
        needs: "nothing",
        reason: None,
        set_on_it: None,
        figures: &[],
    };
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
    /// Why it does not hold here, or what gives it; empty if it holds, was not judged, or nothing is known.
    pub why: &'static str,
}

impl<E: ?Sized> Claim<E> {
    /// Judges the claim on the first of the evidence that has its numbers.
    fn judged(&self, evidence: &[&E]) -> Judged {
        let Self { statement, judge } = self;
        let numbers = |evidence: &&E| {
            let checks = judge(evidence, statement.tolerance);
            (!checks.is_empty()).then(|| (checks, self.close_to_figures(evidence)))
        };
        let (checks, close) = evidence.iter().find_map(numbers).unwrap_or_default();
        let verdict = Verdict::of(statement, checks, close);
        let why = match verdict.outcome {
            Outcome::DoesNotHold => statement.reason,
            Outcome::Given => statement.set_on_it,
            Outcome::Holds | Outcome::NotJudged => None,
        };
        Judged { verdict, why: why.unwrap_or_default() }
    }

    /// The checks of the stricter verdict; `None` where the paper's figures are not given.
    fn close_to_figures(&self, evidence: &E) -> Option<Vec<Check>> {
        let Self { statement: Statement { id, figures, .. }, judge } = self;
        let close = |figure: f64| judge(evidence, Tolerance::within_a_quarter(figure));
        match figures {
            [] => None,
            [figure] => Some(close(*figure)),
            _ => {
                let of_each: Vec<Vec<Check>> = figures.iter().map(|figure| close(*figure)).collect();
                assert!(of_each.iter().all(|checks| checks.len() == figures.len()), "{id}: a figure a check");
                Some(of_each.into_iter().enumerate().map(|(at, mut checks)| checks.swap_remove(at)).collect())
            }
        }
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

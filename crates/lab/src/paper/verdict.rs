//! The answer to "does this claim of the paper hold in our results?", always with the numbers it rests on.

use super::claim::Statement;
use serde::Serialize;
use std::fmt;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every number agrees.
    Holds,
    /// At least one number contradicts it.
    DoesNotHold,
    /// Every number agrees, and that follows from a constant that was set on this figure.
    #[serde(rename = "given_by_calibration")]
    Given,
    /// The runs at hand do not include what the claim speaks of.
    NotJudged,
}

impl Outcome {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Outcome; 4] = [Outcome::Holds, Outcome::DoesNotHold, Outcome::Given, Outcome::NotJudged];

    fn of(checks: &[Check]) -> Self {
        match checks {
            [] => Outcome::NotJudged,
            all if all.iter().all(|check| check.agrees) => Outcome::Holds,
            _ => Outcome::DoesNotHold,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Outcome::Holds => "holds",
            Outcome::DoesNotHold => "does not hold",
            Outcome::Given => "given by calibration",
            Outcome::NotJudged => "not judged",
        })
    }
}

/// One claim, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The claim's id.
    #[serde(skip)]
    pub id: &'static str,
    /// Where the paper says so, e.g. "FaCE table 3a".
    pub source: &'static str,
    /// What it says, with the tolerance that we read into words like "about".
    pub claim: &'static str,
    /// Whether it holds.
    pub outcome: Outcome,
    /// The numbers, those that contradict marked with ✗; or what to run where it was not judged.
    pub numbers: String,
    /// The stricter verdict, where the bound is far from the paper's own figure: whether ours is within 25 %
    /// of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_a_quarter: Option<bool>,
}

/// One number (or comparison) that a claim rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// It agrees with the claim.
    pub agrees: bool,
    /// It in words.
    pub numbers: String,
}

impl Verdict {
    /// Judges a claim by its checks. Without any it was not judged. `close`: the checks of the stricter
    /// verdict, if there is one.
    pub(super) fn of(statement: &Statement, checks: Vec<Check>, close: Option<Vec<Check>>) -> Self {
        let outcome = match Outcome::of(&checks) {
            Outcome::Holds if statement.set_on_it.is_some() => Outcome::Given,
            outcome => outcome,
        };
        let numbers = if checks.is_empty() {
            format!("needs {}", statement.needs)
        } else {
            let marked =
                checks.into_iter().map(|c| if c.agrees { c.numbers } else { format!("{} ✗", c.numbers) });
            marked.collect::<Vec<_>>().join("; ")
        };
        let within_a_quarter = close.map(|checks| Outcome::of(&checks) == Outcome::Holds);
        let Statement { id, source, says: claim, .. } = *statement;
        Self { id, source, claim, outcome, numbers, within_a_quarter }
    }

    /// The stricter verdict in words; empty without one.
    pub fn strictly(&self) -> &'static str {
        match self.within_a_quarter {
            None => "",
            Some(true) => "within 25 % of the paper's figure",
            Some(false) => "not within 25 % of the paper's figure",
        }
    }
}

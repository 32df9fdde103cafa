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
    /// The runs at hand do not include what the claim speaks of.
    NotTested,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Outcome::Holds => "holds",
            Outcome::DoesNotHold => "does not hold",
            Outcome::NotTested => "not tested",
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
    /// The numbers, those that contradict marked with ✗; or what to run where it was not tested.
    pub numbers: String,
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
    /// Judges a claim by its checks. Without any it was not tested.
    pub(super) fn of(statement: &Statement, checks: Vec<Check>) -> Self {
        let outcome = match checks.as_slice() {
            [] => Outcome::NotTested,
            all if all.iter().all(|check| check.agrees) => Outcome::Holds,
            _ => Outcome::DoesNotHold,
        };
        let numbers = if checks.is_empty() {
            format!("needs {}", statement.needs)
        } else {
            let marked =
                checks.into_iter().map(|c| if c.agrees { c.numbers } else { format!("{} ✗", c.numbers) });
            marked.collect::<Vec<_>>().join("; ")
        };
        Self { id: statement.id, source: statement.source, claim: statement.says, outcome, numbers }
    }
}

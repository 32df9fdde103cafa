//! What a reproduced paper consists of.

use crate::paper::{Judged, Outcome};
use crate::report::{Column, Section, Table, decimal, or_none};
use serde::Serialize;

/// One number of the paper with ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Where the paper has it, e.g. "FaCE table 3a".
    pub source: String,
    /// What it is, e.g. "lc at 8 %".
    pub what: String,
    /// Its unit, e.g. "%".
    pub unit: &'static str,
    /// The paper's; `None` where the paper only draws it.
    pub paper: Option<f64>,
    /// Ours.
    pub ours: Option<f64>,
    /// Decimals to show.
    #[serde(skip)]
    pub digits: usize,
}

/// A paper, reproduced.
#[derive(Clone, Debug, Serialize)]
pub struct Chapter {
    /// Its name on the command line.
    pub paper: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What differs from the paper's set-up, and what was tuned on what: a sentence each.
    pub setup: Vec<String>,
    /// Numbers.
    pub rows: Vec<Row>,
    /// Claims.
    pub claims: Vec<Judged>,
    /// What the verdicts depend on, and where they turn: a sentence each, shown with the summary.
    pub depends_on: Vec<String>,
    /// Plots and tables in the paper's form.
    #[serde(skip)]
    pub sections: Vec<Section>,
}

/// Collects rows of one source.
pub struct Rows {
    rows: Vec<Row>,
}

impl Rows {
    /// None yet.
    pub const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds a number, shown with so many decimals.
    pub fn add(
        &mut self,
        source: impl Into<String>,
        what: impl Into<String>,
        (unit, digits): (&'static str, usize),
        paper: Option<f64>,
        ours: Option<f64>,
    ) {
        self.rows.push(Row { source: source.into(), what: what.into(), unit, paper, ours, digits });
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<Row> {
        self.rows
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}

impl Chapter {
    /// How many claims had each outcome, in the order of [`Outcome::ALL`].
    pub fn tally(&self) -> [usize; 4] {
        Outcome::ALL
            .map(|outcome| self.claims.iter().filter(|claim| claim.verdict.outcome == outcome).count())
    }

    /// Of the claims with a stricter verdict, how many are within 25 % of the paper's figure, and how many
    /// there are.
    pub fn within_a_quarter(&self) -> [usize; 2] {
        let strict: Vec<bool> =
            self.claims.iter().filter_map(|claim| claim.verdict.within_a_quarter).collect();
        [strict.iter().filter(|within| **within).count(), strict.len()]
    }

    /// The numbers as a table.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::words("source"),
            Column::words("what"),
            Column::numbers("paper"),
            Column::numbers("ours"),
            Column::words("unit"),
        ];
        let show = |value: Option<f64>, digits| or_none(value, |value| decimal(value, digits));
        let row = |row: &Row| {
            vec![
                row.source.clone(),
                row.what.clone(),
                show(row.paper, row.digits),
                show(row.ours, row.digits),
                row.unit.to_owned(),
            ]
        };
        Table { columns, rows: self.rows.iter().map(row).collect() }
    }

    /// The verdicts alone, a line each: what a golden test compares. Numbers are left out, since they may
    /// move a little when a policy or a model is improved.
    pub fn verdict_lines(&self) -> String {
        let line = |claim: &Judged| {
            let verdict = &claim.verdict;
            let strictly = if verdict.within_a_quarter.is_some() { ", " } else { "" };
            let outcome = format!("{}{strictly}{}", verdict.outcome, verdict.strictly());
            format!("{}: {outcome}: {}: {}\n", self.paper, verdict.source, verdict.claim)
        };
        self.claims.iter().map(line).collect()
    }
}

//! Where SCE's verdicts turn with the one constant that was set on figure 1: the rate of random writes of the
//! flash.
//!
//! Invariant: all rates are judged on the small loads of a quick run, whatever the chapter's effort.

use super::{Context, Effort, Plan, all_runs, loads};
use crate::paper::sce::{self as paper, Runs};
use crate::paper::{Judged, Outcome, judged};
use crate::report::{Block, Column, NONE, Section, Table, whole};

/// Random writes of 4 KiB a second. The second is the one of the catalogue.
const RATES: [f64; 5] = [1_800.0, 5_632.0, 10_000.0, 20_000.0, 60_000.0];

/// Verdicts at each of the rates.
pub(super) struct Sweep {
    /// By rate, in the order of the claims.
    verdicts: Vec<(f64, Vec<Judged>)>,
}

impl Sweep {
    pub(super) fn new(context: &Context<'_>) -> anyhow::Result<Self> {
        let plan = Plan::of(Effort::Quick);
        let [sysbench, oltp] = loads(&plan, context.seed)?;
        let verdicts = RATES.into_iter().enumerate().map(|(at, rate)| {
            let behind = 0.5 + 0.5 * at as f64 / RATES.len() as f64;
            let runs: Runs = all_runs(context, &plan, [&sysbench, &oltp], Some(rate), behind)?;
            Ok((rate, judged(paper::CLAIMS, &[&runs])))
        });
        Ok(Self { verdicts: verdicts.collect::<anyhow::Result<_>>()? })
    }

    /// Whether a claim agrees at each rate, given or not; `None` where it was not judged.
    fn agrees(&self, claim: usize) -> Vec<Option<bool>> {
        let agrees = |(_, judged): &(f64, Vec<Judged>)| match judged[claim].verdict.outcome {
            Outcome::NotJudged => None,
            outcome => Some(outcome != Outcome::DoesNotHold),
        };
        self.verdicts.iter().map(agrees).collect()
    }

    /// The rates between which a claim turns, by its place in the list.
    fn turns(&self, claim: usize) -> Option<(f64, f64)> {
        let agrees = self.agrees(claim);
        let at = agrees.windows(2).rposition(|pair| pair[0] != pair[1])?;
        Some((RATES[at], RATES[at + 1]))
    }

    /// What the summary says of it.
    pub(super) fn sentences(&self) -> Vec<String> {
        let claims = &self.verdicts[0].1;
        let turn = |(at, claim): (usize, &Judged)| {
            let (from, to) = self.turns(at)?;
            let (id, from, to) = (claim.verdict.id, whole(from), whole(to));
            Some(format!("{id} between {from} and {to}"))
        };
        let turning: Vec<String> = claims.iter().enumerate().filter_map(turn).collect();
        vec![format!(
            "the flash's random writes of 4 KiB a second were set on figure 1 (5,632). With other rates these verdicts turn: {}; \
             the other {} do not, from {} to {}.",
            turning.join(", "),
            claims.len() - turning.len(),
            whole(RATES[0]),
            whole(RATES[RATES.len() - 1])
        )]
    }

    pub(super) fn section(&self) -> Section {
        let mut columns = vec![Column::words("source"), Column::words("claim")];
        columns.extend(RATES.map(|rate| Column::words(whole(rate)).under("random writes of 4 KiB a second")));
        let row = |(at, claim): (usize, &Judged)| {
            let mark = |agrees: Option<bool>| agrees.map_or(NONE, |agrees| if agrees { "✓" } else { "✗" });
            let cells = self.agrees(at).into_iter().map(|agrees| mark(agrees).to_owned());
            [claim.verdict.source.to_owned(), claim.verdict.id.to_owned()].into_iter().chain(cells).collect()
        };
        let rows = self.verdicts[0].1.iter().enumerate().map(row).collect();
        Section {
            title: "Sweep: the rate of the flash's random writes".into(),
            blocks: vec![Block::Table(Table { columns, rows })],
        }
    }
}

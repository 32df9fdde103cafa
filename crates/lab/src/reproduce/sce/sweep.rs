//! Where SCE's verdicts turn with what was chosen by its figures: the rate of random writes of the flash
//! (figure 1), and the shape of the OLTP load (figure 6).
//!
//! Invariant: all rates and shapes are judged on the small loads of a quick run, whatever the chapter's
//! effort.

use super::workload::Shape;
use super::{Context, Effort, Plan, all_runs, loads, oltp_load, oltp_runs};
use crate::paper::sce::{self as paper, Runs};
use crate::paper::{Judged, Outcome, judged};
use crate::report::{Block, Column, NONE, Section, Table, whole};

/// Random writes of 4 KiB a second. The second is the one of the catalogue.
const RATES: [f64; 5] = [1_800.0, 5_632.0, 10_000.0, 20_000.0, 60_000.0];

/// Shapes of the OLTP load. The first is the chosen one.
const SHAPES: [Shape; 5] = [
    Shape::CHOSEN,
    Shape { every: 4, ..Shape::CHOSEN },
    Shape { every: 16, ..Shape::CHOSEN },
    Shape { of_ten: 7, ..Shape::CHOSEN },
    Shape { of_ten: 5, ..Shape::CHOSEN },
];

/// Verdicts at each of the rates, and with each of the shapes.
pub(super) struct Sweep {
    /// By rate, in the order of the claims.
    verdicts: Vec<(f64, Vec<Judged>)>,
    shapes: Vec<(Shape, Vec<Judged>)>,
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
        let verdicts = verdicts.collect::<anyhow::Result<_>>()?;
        let mut runs: Runs = all_runs(context, &plan, [&sysbench, &oltp], None, 1.0)?;
        let mut shapes = Vec::new();
        for shape in SHAPES {
            let load = oltp_load(&plan, shape, context.seed)?;
            runs.oltp = oltp_runs(context, &plan, &load, None, 1.0)?;
            shapes.push((shape, judged(paper::CLAIMS, &[&runs])));
        }
        Ok(Self { verdicts, shapes })
    }

    /// Whether a claim agrees at each rate.
    fn agrees(&self, claim: usize) -> Vec<Option<bool>> {
        self.verdicts.iter().map(|(_, judged)| agrees(&judged[claim])).collect()
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
        let rates = format!(
            "the flash's random writes of 4 KiB a second were set on figure 1 (5,632). With other rates these verdicts turn: {}; \
             the other {} do not, from {} to {}.",
            turning.join(", "),
            claims.len() - turning.len(),
            whole(RATES[0]),
            whole(RATES[RATES.len() - 1])
        );
        vec![rates, self.sentence_of_shapes()]
    }

    /// Claims that turn with the shape of the OLTP load, by their place in the list.
    fn turning_with_shape(&self) -> Vec<usize> {
        let turns = |claim: &usize| {
            let mut outcomes = self.shapes.iter().map(|(_, judged)| agrees(&judged[*claim]));
            let chosen = outcomes.next().expect("the chosen shape");
            outcomes.any(|outcome| outcome != chosen)
        };
        (0..paper::CLAIMS.len()).filter(turns).collect()
    }

    fn sentence_of_shapes(&self) -> String {
        let ids = self.turning_with_shape().into_iter().map(|claim| paper::CLAIMS[claim].statement.id);
        let ids: Vec<&str> = ids.collect();
        let turning = match ids.as_slice() {
            [] => "no verdict turns".to_owned(),
            ids => format!("these verdicts turn: {}", ids.join(", ")),
        };
        format!(
            "the OLTP load was given its shape with figure 6 in view; with {} others {turning}.",
            SHAPES.len() - 1
        )
    }

    pub(super) fn sections(&self) -> [Section; 2] {
        [self.rates(), self.of_shapes()]
    }

    /// Figure 6's claims with each shape.
    fn of_shapes(&self) -> Section {
        let mut columns = vec![Column::words("hot fragments"), Column::words("their references")];
        let claims: Vec<usize> = (0..paper::CLAIMS.len())
            .filter(|claim| paper::CLAIMS[*claim].statement.id.starts_with("sce.figure6."))
            .collect();
        let name = |claim: &usize| paper::CLAIMS[*claim].statement.id.trim_start_matches("sce.figure6.");
        columns.extend(claims.iter().map(|claim| Column::words(name(claim)).under("figure 6")));
        let row = |(shape, judged): &(Shape, Vec<Judged>)| {
            let cell = |claim: &usize| match agrees(&judged[*claim]) {
                None => NONE.to_owned(),
                Some(_) => judged[*claim].verdict.numbers.clone(),
            };
            let shape = [format!("1 of {}", shape.every), format!("{} of 10", shape.of_ten)];
            shape.into_iter().chain(claims.iter().map(cell)).collect()
        };
        let rows = self.shapes.iter().map(row).collect();
        Section {
            title: "Sweep: the shape of the OLTP load".into(),
            blocks: vec![Block::Table(Table { columns, rows })],
        }
    }

    fn rates(&self) -> Section {
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

/// Whether a claim agrees, given or not; `None` where it was not judged.
fn agrees(judged: &Judged) -> Option<bool> {
    match judged.verdict.outcome {
        Outcome::NotJudged => None,
        outcome => Some(outcome != Outcome::DoesNotHold),
    }
}

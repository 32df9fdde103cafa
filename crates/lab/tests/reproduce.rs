//! `reproduce face --quick` as a golden test of its verdicts: which of the paper's claims hold here, and
//! which do not. Numbers are not compared, nor times. (Other papers: `reproduce_*.rs`.) `UPDATE_EXPECT=1
//! cargo test -p entresol-lab --test reproduce` rewrites the golden files; read the difference.

use entresol_lab::paper::Outcome;
use entresol_lab::reproduce::{Context, Effort, Paper, run};
use expect_test::expect_file;

/// Runs a paper and compares its verdicts.
fn as_published(paper: Paper) {
    let context = Context { effort: Effort::Quick, seed: 1, traces: None, progress: &|_, _| {} };
    let chapter = run(paper, &context).expect("an experiment of the paper");
    assert!(!chapter.rows.is_empty() && !chapter.setup.is_empty());
    let golden = format!("{}/tests/golden/reproduce-{}.txt", env!("CARGO_MANIFEST_DIR"), paper.name());
    expect_file![golden].assert_eq(&chapter.verdict_lines());
    for claim in chapter.claims.iter().filter(|claim| claim.verdict.outcome == Outcome::DoesNotHold) {
        assert!(!claim.why.is_empty(), "a claim that does not hold says why: {claim:?}");
    }
}

#[test]
fn face() {
    as_published(Paper::Face);
}

//! The verdicts on RW's claims, of short runs on the model of TPC-C: a golden test of directions, not of
//! digits.

use entresol_lab::reproduce::{self, Context, Effort, Paper};
use expect_test::expect_file;

#[test]
fn verdicts_on_rw() {
    let context = Context { effort: Effort::Quick, seed: 1, traces: None, progress: &|_, _| {} };
    let chapter = reproduce::run(Paper::Rw, &context).expect("the experiments run");
    expect_file!["golden/reproduce-rw.txt"].assert_eq(&chapter.verdict_lines());
    // Every number that the thesis prints is there, ours beside it, and so are the rows that it does not
    // have.
    assert_eq!(chapter.rows.iter().filter(|row| row.paper.is_some()).count(), 10 * 7 + 4);
    assert!(chapter.rows.iter().all(|row| row.ours.is_some_and(f64::is_finite)), "{:?}", chapter.rows);
    for claim in chapter.claims {
        let explained =
            claim.verdict.outcome != entresol_lab::paper::Outcome::DoesNotHold || !claim.why.is_empty();
        assert!(explained, "{:?} does not hold and no reason is given", claim.verdict);
    }
}

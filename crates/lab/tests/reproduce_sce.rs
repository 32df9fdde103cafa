//! The verdicts on SCE's claims, of short runs on generated loads: a golden test of directions, not of
//! digits.

use entresol_lab::paper::Outcome;
use entresol_lab::reproduce::{self, Context, Effort, Paper};
use expect_test::expect_file;

#[test]
fn verdicts_on_sce() {
    let context = Context { effort: Effort::Quick, seed: 1, traces: None, progress: &|_, _| {} };
    let chapter = reproduce::run(Paper::Sce, &context).expect("the experiments run");
    for row in &chapter.rows {
        println!("{}, {}: paper {:?}, ours {:?} {}", row.source, row.what, row.paper, row.ours, row.unit);
    }
    for claim in &chapter.claims {
        println!("{}: {} ({})", claim.verdict.outcome, claim.verdict.claim, claim.verdict.numbers);
        assert!(claim.verdict.outcome != Outcome::DoesNotHold || !claim.why.is_empty(), "{claim:?}");
    }
    assert!(chapter.rows.iter().all(|row| row.ours.is_some_and(f64::is_finite)), "{:?}", chapter.rows);
    // A verdict that turns when the fitted rate is raised, or with the chosen shape, is given by that, and no
    // other is.
    let [rates, shapes] = chapter.depends_on.as_slice() else { panic!("{:?}", chapter.depends_on) };
    for claim in Paper::Sce.claims() {
        let turns = rates.contains(&format!("{} between 5,632 and", claim.id))
            || shapes.split([' ', ',']).any(|word| word.trim_end_matches('.') == claim.id);
        assert_eq!(turns, claim.set_on_it.is_some(), "{}: {rates} {shapes}", claim.id);
    }
    expect_file!["golden/reproduce-sce.txt"].assert_eq(&chapter.verdict_lines());
}

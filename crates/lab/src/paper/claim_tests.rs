use super::*;

const HALVES: Claim<[f64]> = Claim {
    statement: Statement {
        id: "paper.table1.halves",
        source: "Paper table 1",
        says: "at most a half",
        tolerance: Tolerance::AtMost(0.5),
        needs: "a run",
        reason: Some("theirs was smaller"),
        ..Statement::BASE
    },
    judge: |shares, tolerance| {
        let check = |share: &f64| Check { agrees: tolerance.allows(*share), numbers: share.to_string() };
        shares.iter().map(check).collect()
    },
};

fn one(evidence: &[&[f64]]) -> Judged {
    judged([&HALVES], evidence).remove(0)
}

#[test]
fn a_reason_is_given_where_the_claim_fails_and_there_only() {
    let outcome = |evidence: &[f64]| {
        let judged = one(&[evidence]);
        (judged.verdict.outcome, judged.why, judged.verdict.numbers)
    };
    assert_eq!(outcome(&[0.5, 0.25]), (Outcome::Holds, "", "0.5; 0.25".into()));
    assert_eq!(outcome(&[0.5, 0.75]), (Outcome::DoesNotHold, "theirs was smaller", "0.5; 0.75 ✗".into()));
    assert_eq!(outcome(&[]), (Outcome::NotJudged, "", "needs a run".into()));
}

#[test]
fn what_a_constant_was_set_on_is_never_held() {
    let set = Statement { set_on_it: Some("a rate of ours"), ..HALVES.statement };
    let outcome = |evidence: &[f64]| {
        let judged = judged([&Claim { statement: set, ..HALVES }], &[evidence]).remove(0);
        (judged.verdict.outcome, judged.why)
    };
    assert_eq!(outcome(&[0.5]), (Outcome::Given, "a rate of ours"));
    assert_eq!(outcome(&[0.75]), (Outcome::DoesNotHold, "theirs was smaller"));
    assert_eq!(outcome(&[]), (Outcome::NotJudged, ""));
}

#[test]
fn the_stricter_verdict_is_about_the_papers_own_figure() {
    let with = Statement { figures: &[0.4], ..HALVES.statement };
    let strictly = |evidence: &[f64]| {
        let judged = judged([&Claim { statement: with, ..HALVES }], &[evidence]).remove(0);
        (judged.verdict.outcome, judged.verdict.within_a_quarter)
    };
    assert_eq!(strictly(&[0.31, 0.49]), (Outcome::Holds, Some(true)));
    assert_eq!(strictly(&[0.25]), (Outcome::Holds, Some(false)), "held, and far from the figure");
    assert_eq!(strictly(&[0.51]), (Outcome::DoesNotHold, Some(false)));
    assert_eq!(strictly(&[]), (Outcome::NotJudged, None));
    assert_eq!(one(&[&[0.25]]).verdict.within_a_quarter, None);
}

#[test]
fn each_number_has_a_figure_of_its_own_where_several_are_given() {
    let with = Statement { figures: &[0.4, 0.1], ..HALVES.statement };
    let strictly = |evidence: &[f64]| {
        judged([&Claim { statement: with, ..HALVES }], &[evidence]).remove(0).verdict.within_a_quarter
    };
    assert_eq!(strictly(&[0.31, 0.11]), Some(true));
    assert_eq!(strictly(&[0.31, 0.31]), Some(false));
    assert_eq!(strictly(&[0.11, 0.11]), Some(false));
}

#[test]
fn new_words_keep_the_reason() {
    let reworded = Claim { statement: Statement { says: "half or less", ..HALVES.statement }, ..HALVES };
    let judged = judged([&reworded], &[&[0.75]]).remove(0);
    assert_eq!((judged.verdict.claim, judged.why), ("half or less", "theirs was smaller"));
}

#[test]
fn the_first_evidence_with_numbers_counts() {
    assert_eq!(one(&[&[], &[0.75], &[0.25]]).verdict.numbers, "0.75 ✗");
    assert_eq!(one(&[&[], &[]]).verdict.outcome, Outcome::NotJudged);
    assert_eq!(one(&[]).verdict.outcome, Outcome::NotJudged);
}

#[test]
fn the_tolerance_of_the_statement_decides() {
    let wider = Statement { tolerance: Tolerance::AtMost(0.8), ..HALVES.statement };
    let judged = judged([&Claim { statement: wider, ..HALVES }], &[&[0.75]]).remove(0);
    assert_eq!(judged.verdict.outcome, Outcome::Holds);
}

#[test]
fn the_json_of_a_claim_is_its_verdict_and_its_reason() {
    let json = serde_json::to_string(&one(&[&[0.75]])).expect("plain values");
    let verdict = r#""claim":"at most a half","outcome":"does_not_hold","numbers":"0.75 ✗""#;
    let expected = format!(r#"{{"source":"Paper table 1",{verdict},"why":"theirs was smaller"}}"#);
    assert_eq!(json, expected);
}

/// The outcome of the claim with that id.
pub(crate) fn outcome_of(judged: &[Judged], id: &str) -> Outcome {
    let found: Vec<_> = judged.iter().filter(|judged| judged.verdict.id == id).collect();
    assert_eq!(found.len(), 1, "{id}");
    found[0].verdict.outcome
}

/// The id of a claim, and how to change evidence so that the claim fails.
pub(crate) type Spoiler<E> = (&'static str, fn(&mut E));

/// Asserts that each spoiler makes its claim fail, and changes the outcome of no other.
pub(crate) fn assert_spoiled<E>(
    spoilers: &[Spoiler<E>],
    evidence: impl Fn() -> E,
    judge: impl Fn(&E) -> Vec<Judged>,
) {
    let unspoiled = judge(&evidence());
    for (id, spoil) in spoilers {
        assert!(matches!(outcome_of(&unspoiled, id), Outcome::Holds | Outcome::Given), "{id}");
        let mut evidence = evidence();
        spoil(&mut evidence);
        let judged = judge(&evidence);
        for Judged { verdict, .. } in &unspoiled {
            let expected = if verdict.id == *id { Outcome::DoesNotHold } else { verdict.outcome };
            assert_eq!(outcome_of(&judged, verdict.id), expected, "{} after {id}", verdict.id);
        }
    }
}

/// Asserts that the bounds of claims come from their tolerances: one that allows nothing makes each claim
/// with a bound fail on evidence on which it was tested.
pub(crate) fn assert_tolerances_decide<'c, E: ?Sized + 'c>(
    claims: impl IntoIterator<Item = &'c Claim<E>>,
    evidence: &E,
) {
    for Claim { statement, judge } in claims {
        let own = judge(evidence, statement.tolerance);
        let none = judge(evidence, Tolerance::Between(1.0, 0.0));
        match statement.tolerance {
            Tolerance::Exact | Tolerance::Direction => assert_eq!(own, none, "{}", statement.id),
            Tolerance::AtEach(shares) => {
                assert_eq!((own.len(), none.len()), (shares.len(), 0), "{}", statement.id);
            }
            _ => assert_eq!(own.is_empty(), none.iter().all(|check| check.agrees), "{}", statement.id),
        }
    }
}

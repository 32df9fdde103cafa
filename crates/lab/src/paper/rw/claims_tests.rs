use super::super::TABLES;
use super::Contender::Rwfdb;
use super::*;
use crate::paper::claim::tests::{Spoiler, assert_spoiled, assert_tolerances_decide, outcome_of};
use crate::paper::{Outcome, judged};

fn outcome(rows: &[RwRow], id: &str) -> Outcome {
    outcome_of(&judged(CLAIMS, &[rows]), id)
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS, TABLES.as_slice());
}

/// The thesis' own rows against the thesis' own words.
#[test]
fn the_thesis_own_numbers() {
    for (id, expected) in [
        ("rw.s4-1-3.memory", Outcome::DoesNotHold), // 1,048,576 × 8 bytes is 8 MiB
        ("rw.figure5-1.hits-everywhere", Outcome::Holds),
        ("rw.s4-2.hit-gain", Outcome::Holds),
        ("rw.s4-2.collections", Outcome::Holds),
        ("rw.s4-2.twaf", Outcome::Holds),
        ("rw.table5-2.levels", Outcome::Holds),
        ("rw.figure5-2.response", Outcome::Holds),
        ("rw.figure5-2.buffer", Outcome::Holds),
        ("rw.tables.buffer-collections", Outcome::Holds),
        ("rw.s3-4.page-level", Outcome::NotJudged),
    ] {
        assert_eq!(outcome(&TABLES, id), expected, "{id}");
    }
    // The text speaks of one page size each; the other table contradicts it.
    let as_other = |of: u32, is: u32| {
        let rows = TABLES.into_iter().filter(|row| row.page_kb == of);
        rows.map(|row| RwRow { page_kb: is, ..row }).collect::<Vec<_>>()
    };
    assert_eq!(outcome(&as_other(8, 16), "rw.figure5-2.response"), Outcome::DoesNotHold, "0.80 / 0.84");
    assert_eq!(outcome(&as_other(16, 8), "rw.table5-2.levels"), Outcome::DoesNotHold);
}

#[test]
fn memory_is_what_the_arithmetic_gives() {
    let bytes = MEMORY.map(|memory| memory.bytes());
    assert_eq!(bytes, [8 << 20, 1 << 30, 512 << 20, 16 << 10]);
    let same: Vec<_> = MEMORY.iter().map(|memory| memory.bytes() == memory.paper_bytes).collect();
    assert_eq!(same, [false, false, false, true]);
}

#[test]
fn sums_of_the_tables_are_their_twaf() {
    for row in &TABLES {
        let printed = super::super::twaf_of(row).expect("a row of the thesis");
        assert!((row.twaf() - printed).abs() < 0.015, "{row:?}: {printed}");
    }
}

/// The thesis' rows, with page-level caching, which they lack.
fn as_said() -> Vec<RwRow> {
    let mut rows = TABLES.to_vec();
    let pages = RwRow { contender: Contender::FlashtierPages, gc_count: 50_000.0, clwa: 20.0, ..rows[1] };
    rows.push(pages);
    rows
}

/// The row with a write buffer of 8 MB.
fn row(rows: &mut [RwRow], contender: Contender) -> &mut RwRow {
    let row = rows.iter_mut().find(|row| (row.contender, row.buffer_mb) == (contender, 8));
    row.expect("a row of the fixture")
}

#[test]
fn each_claim_fails_on_numbers_that_contradict_it() {
    use Contender::{Flashtier, FlashtierPages};
    let spoilers: [Spoiler<Vec<RwRow>>; 9] = [
        ("rw.figure5-1.hits-everywhere", |rows| rows[4].hit_rate = 84.0),
        ("rw.s4-2.hit-gain", |rows| row(rows, Rwfdb).hit_rate = 99.9),
        ("rw.s4-2.collections", |rows| row(rows, Rwfdb).gc_count = 70_000.0),
        ("rw.s4-2.twaf", |rows| row(rows, Rwfdb).flwa = 9.0),
        ("rw.table5-2.levels", |rows| {
            rows[8].clwa += rows[8].flwa;
            rows[8].flwa = 0.0;
        }),
        ("rw.figure5-2.response", |rows| row(rows, Rwfdb).response = 0.6),
        ("rw.figure5-2.buffer", |rows| row(rows, Flashtier).response = 1.01),
        ("rw.tables.buffer-collections", |rows| row(rows, Flashtier).gc_count = 110_000.0),
        ("rw.s3-4.page-level", |rows| row(rows, FlashtierPages).gc_count = 90_000.0),
    ];
    // The claim about memory is arithmetic, which no run can contradict.
    assert_eq!(spoilers.len() + 1, CLAIMS.len());
    assert_spoiled(&spoilers, as_said, |rows| judged(CLAIMS, &[rows]));
}

#[test]
fn without_runs_only_arithmetic_is_judged() {
    let none = judged(CLAIMS, &[&[]]);
    assert!(none[1..].iter().all(|judged| judged.verdict.outcome == Outcome::NotJudged), "{none:?}");
}

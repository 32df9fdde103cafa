use super::super::TABLES;
use super::Contender::Rwfdb;
use super::*;
use crate::paper::claim::tests::{assert_tolerances_decide, outcome_of};
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
        ("rw.table5-2.levels", Outcome::DoesNotHold), // tables 5.1 and 5.2 disagree
        ("rw.figure5-2.response", Outcome::DoesNotHold), // 0.80 / 0.84 in table 5.2
        ("rw.figure5-2.buffer", Outcome::Holds),
        ("rw.tables.buffer-collections", Outcome::Holds),
        ("rw.s3-4.page-level", Outcome::NotTested),
    ] {
        assert_eq!(outcome(&TABLES, id), expected, "{id}");
    }
    let of_16: Vec<_> = TABLES.into_iter().filter(|row| row.page_kb == 16).collect();
    assert_eq!(outcome(&of_16, "rw.figure5-2.response"), Outcome::Holds);
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
    let printed = [48.34, 34.34, 33.24, 28.01, 27.88, 29.29, 15.65, 15.76, 11.83, 12.72];
    for (row, printed) in TABLES.iter().zip(printed) {
        assert!((row.twaf() - printed).abs() < 0.015, "{row:?}: {printed}");
    }
}

/// What is changed in the thesis' numbers, and the one claim that must then fail.
#[test]
fn each_claim_fails_on_numbers_that_contradict_it() {
    type Spoiler = (&'static str, fn(&mut RwRow));
    let spoilers: [Spoiler; 6] = [
        ("rw.figure5-1.hits-everywhere", |row| row.hit_rate = 90.0),
        ("rw.s4-2.hit-gain", |row| row.hit_rate = if row.contender == Rwfdb { 86.0 } else { 84.0 }),
        ("rw.s4-2.collections", |row| row.gc_count = 1000.0),
        ("rw.s4-2.twaf", |row| row.flwa += if row.contender == Rwfdb { 30.0 } else { 0.0 }),
        ("rw.figure5-2.buffer", |row| row.response = 1.0),
        ("rw.tables.buffer-collections", |row| row.gc_count += 1e6),
    ];
    for (id, spoil) in spoilers {
        let mut rows = TABLES;
        rows.iter_mut().for_each(spoil);
        assert_eq!(outcome(&rows, id), Outcome::DoesNotHold, "{id}");
    }
    let none = judged(CLAIMS, &[&[]]);
    assert!(none[1..].iter().all(|judged| judged.verdict.outcome == Outcome::NotTested), "{none:?}");
}

use super::*;
use crate::paper::Outcome;

fn outcome(rows: &[RwRow], claim: &str) -> Outcome {
    let mut found: Vec<_> = verdicts(rows).into_iter().filter(|v| v.claim.contains(claim)).collect();
    assert_eq!(found.len(), 1, "{claim}");
    found.remove(0).outcome
}

/// The thesis' own rows against the thesis' own words.
#[test]
fn the_thesis_own_numbers() {
    for (claim, expected) in [
        ("memory", Outcome::DoesNotHold), // 1,048,576 × 8 bytes is 8 MiB
        ("is above flashtier's", Outcome::Holds),
        ("up to about 10 points", Outcome::Holds),
        ("a third less often", Outcome::Holds),
        ("TWAF is below", Outcome::Holds),
        ("reduces CLWA", Outcome::DoesNotHold), // tables 5.1 and 5.2 disagree
        ("0.85 of flashtier's", Outcome::DoesNotHold), // 0.80 / 0.84 in table 5.2
        ("shortens", Outcome::Holds),
        ("halves", Outcome::Holds),
        ("instead of by block", Outcome::NotTested),
    ] {
        assert_eq!(outcome(&TABLES, claim), expected, "{claim}");
    }
    let of_16: Vec<_> = TABLES.into_iter().filter(|row| row.page_kb == 16).collect();
    assert_eq!(outcome(&of_16, "0.85 of flashtier's"), Outcome::Holds);
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
        ("is above flashtier's", |row| row.hit_rate = 90.0),
        ("up to about 10 points", |row| row.hit_rate = if row.contender == Rwfdb { 86.0 } else { 84.0 }),
        ("a third less often", |row| row.gc_count = 1000.0),
        ("TWAF is below", |row| row.flwa += if row.contender == Rwfdb { 30.0 } else { 0.0 }),
        ("shortens", |row| row.response = 1.0),
        ("halves", |row| row.gc_count += 1e6),
    ];
    for (claim, spoil) in spoilers {
        let mut rows = TABLES;
        rows.iter_mut().for_each(spoil);
        assert_eq!(outcome(&rows, claim), Outcome::DoesNotHold, "{claim}");
    }
    assert!(verdicts(&[])[1..].iter().all(|v| v.outcome == Outcome::NotTested));
}

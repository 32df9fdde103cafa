//! The papers' claims as a catalogue: their ids, their words, and that a chapter leaves none out.

use super::{Paper, assert_complete};
use crate::paper::{Statement, face, judged, rw};
use std::collections::HashSet;

fn all() -> impl Iterator<Item = (Paper, Statement)> {
    Paper::ALL.into_iter().flat_map(|paper| paper.claims().into_iter().map(move |claim| (paper, claim)))
}

#[test]
fn an_id_names_one_claim() {
    let mut ids = HashSet::new();
    for (_, claim) in all() {
        assert!(ids.insert(claim.id), "{} names two claims", claim.id);
    }
}

/// The verdicts of the quick run.
fn golden(paper: Paper) -> &'static str {
    match paper {
        Paper::Face => include_str!("../../tests/golden/reproduce-face.txt"),
        Paper::Rw => include_str!("../../tests/golden/reproduce-rw.txt"),
        Paper::ThreeLayer => include_str!("../../tests/golden/reproduce-3la.txt"),
        Paper::Sce => include_str!("../../tests/golden/reproduce-sce.txt"),
        Paper::Sbp => include_str!("../../tests/golden/reproduce-sbp.txt"),
    }
}

#[test]
fn the_golden_verdicts_are_of_these_claims() {
    for paper in Paper::ALL {
        let (golden, claims) = (golden(paper), paper.claims());
        assert_eq!(golden.lines().count(), claims.len(), "{}", paper.name());
        for (line, claim) in golden.lines().zip(claims) {
            let words = format!(": {}: {}", claim.source, claim.says);
            assert!(line.ends_with(&words), "{} is not the claim of: {line}", claim.id);
        }
    }
}

/// docs/results/CLAIMS.md has a row for each claim, with its words and its verdict in the quick run.
#[test]
fn the_page_of_claims_has_each_of_them_with_its_verdict() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/CLAIMS.md");
    let page = std::fs::read_to_string(page).expect("the page of claims");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut expected = Vec::new();
    for paper in Paper::ALL {
        for (claim, line) in paper.claims().into_iter().zip(golden(paper).lines()) {
            let words = format!(": {}: {}", claim.source, claim.says);
            let verdict = line.strip_prefix(&format!("{}: ", paper.name()));
            let verdict = verdict.and_then(|line| line.strip_suffix(&words)).expect("the claim's line");
            let verdict = verdict.replace(" of the paper's figure", "");
            let says = claim.says.replace('|', "\\|");
            expected.push(format!("| `{}` | {} | {says} | {verdict} |", claim.id, claim.source));
        }
    }
    assert_eq!(rows.len(), expected.len(), "rows of the page and claims");
    for (row, expected) in rows.into_iter().zip(expected) {
        assert!(row.starts_with(&expected), "the page has: {row}\nand should begin: {expected}");
    }
}

#[test]
fn two_claims_do_not_say_the_same() {
    let mut said = HashSet::new();
    for (_, claim) in all() {
        assert!(said.insert((claim.source, claim.says)), "{} says what another claim says", claim.id);
    }
}

#[test]
fn an_id_is_the_paper_a_place_and_a_name() {
    let plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    for (paper, claim) in all() {
        let parts: Vec<&str> = claim.id.split('.').collect();
        assert_eq!((parts.len(), parts[0]), (3, paper.name()), "{}", claim.id);
        assert!(parts.into_iter().all(plain), "{}", claim.id);
    }
}

#[test]
fn a_claim_says_where_what_and_why_as_it_is_printed() {
    for (_, claim) in all() {
        for words in [claim.source, claim.says, claim.needs].into_iter().chain(claim.reason) {
            assert!(!words.is_empty() && words.trim() == words && !words.contains("  "), "{claim:?}");
        }
        // The report ends the sentence.
        assert!(!claim.reason.is_some_and(|reason| reason.ends_with('.')), "{claim:?}");
    }
}

#[test]
fn a_chapter_with_all_claims_is_complete() {
    assert_complete(Paper::Rw, &judged(rw::CLAIMS, &[&[]]));
}

#[test]
#[should_panic(expected = "rw: the chapter judges other claims")]
fn a_claim_left_out_is_noticed() {
    assert_complete(Paper::Rw, &judged(&rw::CLAIMS[1..], &[&[]]));
}

#[test]
#[should_panic(expected = "face: the chapter judges other claims")]
fn a_list_left_out_is_noticed() {
    assert_complete(Paper::Face, &face::judged_tpcc(&[]));
}

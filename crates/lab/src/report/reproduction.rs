//! The report of `reproduce`: for each paper its claims with verdicts, its numbers with ours, and its
//! plots.

use super::model::{Block, Column, Report, Section, Table};
use super::text::whole;
use crate::paper::Outcome;
use crate::reproduce::Chapter;

/// Builds the report.
pub fn reproduction_report(chapters: &[Chapter]) -> Report {
    let mut sections = vec![summary(chapters)];
    sections.extend(chapters.iter().flat_map(of_chapter));
    Report {
        title: "Entresol: the papers' figures and ours".into(),
        notes: vec![
            "Every number of ours was computed in this run. TPC-C workloads, not TPC results.".into(),
            "A claim holds if all of its numbers agree; those that do not are marked.".into(),
        ],
        configuration: chapters.iter().map(|c| (c.paper.to_owned(), c.title.to_owned())).collect(),
        sections,
    }
}

fn summary(chapters: &[Chapter]) -> Section {
    let columns = vec![
        Column::words("paper"),
        Column::numbers("holds").under("claims"),
        Column::numbers("does not hold").under("claims"),
        Column::numbers("not tested").under("claims"),
    ];
    let row = |chapter: &Chapter| {
        let counts = chapter.tally().map(|count| whole(count as f64));
        std::iter::once(chapter.paper.to_owned()).chain(counts).collect()
    };
    let table = Table { columns, rows: chapters.iter().map(row).collect() };
    Section { title: "Summary".into(), blocks: vec![Block::Table(table)] }
}

fn of_chapter(chapter: &Chapter) -> Vec<Section> {
    let mut claims: Vec<Block> = chapter.setup.iter().map(|sentence| Block::Text(sentence.clone())).collect();
    claims.push(Block::verdicts(&chapter.claims));
    let fails = chapter.claims.iter().filter(|claim| claim.verdict.outcome == Outcome::DoesNotHold);
    for claim in fails.filter(|claim| !claim.why.is_empty()) {
        claims.push(Block::Text(format!(
            "Why not ({}: {}): {}.",
            claim.verdict.source, claim.verdict.claim, claim.why
        )));
    }
    let name = chapter.paper;
    let mut sections = vec![Section { title: format!("{name}: {}", chapter.title), blocks: claims }];
    if !chapter.rows.is_empty() {
        let numbers =
            Section { title: format!("{name}: numbers"), blocks: vec![Block::Table(chapter.table())] };
        sections.push(numbers);
    }
    let plots = chapter.sections.iter().cloned();
    sections.extend(plots.map(|section| Section { title: format!("{name}: {}", section.title), ..section }));
    sections
}

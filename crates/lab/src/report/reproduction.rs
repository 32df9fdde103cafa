//! The report of `reproduce`: for each paper its claims with verdicts, its numbers with ours, and its
//! plots.

use super::model::{Block, Column, Report, Section, Table};
use super::text::{NONE, whole};
use crate::paper::{Outcome, Verdict};
use crate::reproduce::Chapter;

/// Builds the report.
pub fn reproduction_report(chapters: &[Chapter]) -> Report {
    let mut sections = vec![summary(chapters)];
    sections.extend(chapters.iter().flat_map(of_chapter));
    Report {
        title: "Entresol: the papers' figures and ours".into(),
        answer: None,
        notes: vec![
            "Every number of ours was computed in this run. TPC-C workloads, not TPC results.".into(),
            "A claim holds if all of its numbers agree; those that do not are marked. What follows from a constant that was \
             set on the very figure is given by calibration, and is not held."
                .into(),
        ],
        configuration: chapters.iter().map(|c| (c.paper.to_owned(), c.title.to_owned())).collect(),
        sections,
    }
}

fn summary(chapters: &[Chapter]) -> Section {
    let mut columns = vec![Column::words("paper")];
    columns.extend(Outcome::ALL.map(|outcome| Column::numbers(outcome.to_string()).under("claims")));
    columns.push(Column::numbers("within 25 %"));
    let row = |chapter: &Chapter| {
        let counts = chapter.tally().map(|count| whole(count as f64));
        let [within, strict] = chapter.within_a_quarter();
        let strictly = if strict == 0 { NONE.to_owned() } else { format!("{within} of {strict}") };
        std::iter::once(chapter.paper.to_owned()).chain(counts).chain([strictly]).collect()
    };
    let table = Table { columns, rows: chapters.iter().map(row).collect() };
    let within = "Within 25 %: of the claims whose bound is far from the paper's own figure, those whose numbers are within \
                  25 % of it.";
    let mut blocks = vec![Block::Table(table), Block::Text(within.into())];
    for chapter in chapters {
        let sentences = chapter.depends_on.iter();
        blocks.extend(sentences.map(|sentence| Block::Text(format!("{}: {sentence}", chapter.paper))));
    }
    Section { title: "Summary".into(), blocks }
}

fn of_chapter(chapter: &Chapter) -> Vec<Section> {
    let mut claims: Vec<Block> = chapter.setup.iter().map(|sentence| Block::Text(sentence.clone())).collect();
    claims.push(Block::verdicts(&chapter.claims));
    for claim in chapter.claims.iter().filter(|claim| !claim.why.is_empty()) {
        let Verdict { source, claim: words, outcome, .. } = &claim.verdict;
        let what = if *outcome == Outcome::Given { "Given by" } else { "Why not" };
        claims.push(Block::Text(format!("{what} ({source}: {words}): {}.", claim.why)));
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

//! A report as one self-contained page: no font, no image and no request to anywhere. Its order is that of a
//! reader's questions: the answer, the plots, the tables, and how it was asked. A short script sorts tables
//! by the column that is clicked; without it the page is complete.

use super::model::{Block, Chart, Report, Section, Table};
use super::svg;
use crate::paper::{Outcome, Verdict};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const SORT: &str = include_str!("sort.js");

/// The report as an HTML document.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let title = escaped(&report.title);
    push(&mut out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    push(&mut out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    push(
        &mut out,
        &format!(
            "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        ),
    );
    if let Some(answer) = &report.answer {
        push(&mut out, &format!("<p class=\"answer\">{}</p>\n", escaped(answer)));
    }
    for note in &report.notes {
        push(&mut out, &format!("<p class=\"note\">{}</p>\n", escaped(note)));
    }
    let has_plot = |section: &&Section| section.blocks.iter().any(|block| matches!(block, Block::Chart(_)));
    for section in report.sections.iter().filter(has_plot) {
        render_section(&mut out, section);
    }
    for section in report.sections.iter().filter(|section| !has_plot(section)) {
        render_section(&mut out, section);
    }
    push(&mut out, "<section>\n<h2>Configuration</h2>\n<dl>\n");
    for (name, value) in &report.configuration {
        push(&mut out, &format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value)));
    }
    push(&mut out, "</dl>\n</section>\n");
    push(&mut out, &format!("</main>\n<script>\n{SORT}</script>\n</body>\n</html>\n"));
    out
}

fn push(out: &mut String, text: &str) {
    out.push_str(text);
}

fn render_section(out: &mut String, section: &Section) {
    push(out, &format!("<section>\n<h2>{}</h2>\n", escaped(&section.title)));
    // A plot and what is said of it come before the table of its figures.
    let is_table = |block: &&Block| matches!(block, Block::Table(_) | Block::Appendix(_));
    let has_plot = section.blocks.iter().any(|block| matches!(block, Block::Chart(_)));
    let mut blocks: Vec<_> = section.blocks.iter().collect();
    if has_plot {
        blocks.sort_by_key(is_table);
    }
    for block in blocks {
        match block {
            Block::Text(text) => push(out, &format!("<p>{}</p>\n", escaped(text))),
            Block::Table(table) | Block::Appendix(table) => render_table(out, table),
            Block::Chart(chart) => render_chart(out, chart),
            Block::Verdicts(verdicts) => render_verdicts(out, verdicts),
        }
    }
    push(out, "</section>\n");
}

fn render_table(out: &mut String, table: &Table) {
    push(out, "<div class=\"wide\"><table class=\"sorts\">\n<thead>\n");
    if table.columns.iter().any(|column| !column.group.is_empty()) {
        push(out, "<tr class=\"groups\">");
        for columns in table.columns.chunk_by(|a, b| a.group == b.group && !a.group.is_empty()) {
            let group = escaped(&columns[0].group);
            push(out, &format!("<th colspan=\"{}\">{group}</th>", columns.len()));
        }
        push(out, "</tr>\n");
    }
    push(out, "<tr>");
    for (index, column) in table.columns.iter().enumerate() {
        push(out, &format!("<th{}>{}</th>", cell_class(table, index), escaped(&column.name)));
    }
    push(out, "</tr>\n</thead>\n<tbody>\n");
    for row in &table.rows {
        push(out, "<tr>");
        for (index, cell) in row.iter().enumerate() {
            push(out, &format!("<td{}>{}</td>", cell_class(table, index), escaped(cell)));
        }
        push(out, "</tr>\n");
    }
    push(out, "</tbody>\n</table></div>\n");
}

/// The paper's numbers stand back; numbers are aligned to the right.
fn cell_class(table: &Table, index: usize) -> &'static str {
    let column = &table.columns[index];
    match (column.numeric, column.name.as_str()) {
        (true, "paper") => " class=\"number paper\"",
        (true, _) => " class=\"number\"",
        (false, _) => "",
    }
}

fn render_chart(out: &mut String, chart: &Chart) {
    let (title, paper) = match chart {
        Chart::Bars(chart) => (&chart.title, false),
        Chart::Lines(chart) => (&chart.title, chart.lines.iter().any(|line| line.paper)),
    };
    push(out, &format!("<figure>\n<figcaption>{}</figcaption>\n<p class=\"legend\">", escaped(title)));
    for (name, colour) in svg::legend(chart) {
        push(out, &format!("<span><i style=\"background:{colour}\"></i>{}</span>", escaped(name)));
    }
    if paper {
        push(out, "<span>solid: ours, dashed: paper</span>");
    }
    let kind = match chart {
        Chart::Bars(_) => "bars",
        Chart::Lines(_) => "lines",
    };
    write!(out, "</p>\n<div class=\"plot {kind}\">{}</div></figure>\n", svg::render(chart))
        .expect("writing to a String cannot fail");
}

fn render_verdicts(out: &mut String, verdicts: &[Verdict]) {
    push(out, "<div class=\"wide\"><table class=\"verdicts\">\n<thead>\n");
    push(
        out,
        "<tr><th>verdict</th><th>source</th><th>claim</th><th>numbers</th><th>strictly</th></tr>\n</thead>\n<tbody>\n",
    );
    for verdict in verdicts {
        let (class, mark) = match verdict.outcome {
            Outcome::Holds => ("holds", "✓"),
            Outcome::DoesNotHold => ("fails", "✗"),
            Outcome::Given => ("given", "="),
            Outcome::NotJudged => ("unjudged", "–"),
        };
        let cells = [verdict.source, verdict.claim, verdict.numbers.as_str(), verdict.strictly()];
        let [source, claim, numbers, strictly] = cells.map(escaped);
        push(out, &format!("<tr class=\"{class}\"><td>{mark} {}</td>", verdict.outcome));
        push(out, &format!("<td>{source}</td><td>{claim}</td><td>{numbers}</td><td>{strictly}</td></tr>\n"));
    }
    push(out, "</tbody>\n</table></div>\n");
}

/// Text that stands for itself in HTML, also inside quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

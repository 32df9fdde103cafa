//! A report as text for a terminal. Without colour the text is the same, less the escape sequences.

use super::model::{BarChart, Block, Chart, Column, LineChart, Report, Section, Table};
use super::text::{at_scale, whole};
use crate::paper::{Outcome, Verdict};
use comfy_table::{CellAlignment, ContentArrangement, TableComponent, presets};
use std::collections::BTreeSet;
use std::fmt::Write;
use textwrap::{Options, WordSplitter};

/// Characters of the longest bar and of a sparkline.
const CHART_WIDTH: usize = 48;
/// Columns of a line of running text, at most.
pub const TEXT_WIDTH: usize = 100;

/// Columns that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// For running text.
    pub text: usize,
    /// For tables.
    pub table: usize,
}

impl Widths {
    /// Of a file or a pipe: lines of tables are as long as they are.
    pub const UNBOUND: Self = Self { text: TEXT_WIDTH, table: usize::MAX };

    /// Of a terminal with so many columns.
    pub fn of_terminal(columns: usize) -> Self {
        Self { text: columns.min(TEXT_WIDTH), table: columns }
    }
}

/// The report as lines of text, with ANSI colours if `colour`. Charts take what they need.
pub fn render(report: &Report, colour: bool, widths: Widths) -> String {
    let (paint, width) = (Paint { colour }, widths.text);
    let mut out = String::new();
    line(&mut out, &paint.bold(&report.title));
    for note in report.answer.iter().chain(&report.notes) {
        out.push_str(&wrapped(note, width, ""));
    }
    let pairs = report.configuration.iter().map(|(name, value)| format!("{name}: {value}"));
    out.push_str(&wrapped(&format!("{}.", pairs.collect::<Vec<_>>().join("; ")), width, ""));
    for section in &report.sections {
        render_section(&mut out, section, &paint, widths);
    }
    out
}

/// A table alone, as lines of text. One that is wider than `width` is told in parts, one below the other:
/// each begins with the columns that name its rows.
pub fn render_table(table: &Table, width: usize) -> String {
    let parts: Vec<String> =
        parts(table, width).iter().map(|columns| render_columns(table, columns)).collect();
    parts.join("\n")
}

/// The columns of each part.
fn parts(table: &Table, width: usize) -> Vec<Vec<usize>> {
    let widths: Vec<usize> = (0..table.columns.len()).map(|column| width_of(table, column)).collect();
    let words = table.columns.iter().take_while(|column| !column.numeric).count();
    let taken = |columns: usize| widths[..columns].iter().sum::<usize>();
    // Columns of words at the beginning name the rows, but one alone if they would leave no room.
    let names = if words < widths.len() && 2 * taken(words) <= width { words } else { 1.min(widths.len()) };
    let mut parts: Vec<Vec<usize>> = vec![(0..names).collect()];
    let mut used = taken(names);
    for (column, wide) in widths.iter().enumerate().skip(names) {
        if used + wide - 1 > width && parts.last().is_some_and(|part| part.len() > names) {
            parts.push((0..names).collect());
            used = taken(names);
        }
        used += wide;
        parts.last_mut().expect("there is one").push(column);
    }
    parts
}

/// Characters that a column takes, with a blank on both sides, and one before the next column.
fn width_of(table: &Table, column: usize) -> usize {
    let head = &table.columns[column];
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    let texts = cells.chain([&head.group, &head.name]).flat_map(|text| text.lines());
    3 + texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

fn render_columns(table: &Table, columns: &[usize]) -> String {
    let rows = table.rows.iter();
    let table = &Table {
        columns: columns.iter().map(|column| table.columns[*column].clone()).collect(),
        rows: rows
            .map(|row| columns.iter().filter_map(|column| row.get(*column).cloned()).collect())
            .collect(),
    };
    let mut shown = comfy_table::Table::new();
    shown.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    shown
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─');
    if !table.columns.iter().all(|column| column.name.is_empty()) {
        shown.set_header(heads(&table.columns));
    }
    shown.add_rows(&table.rows);
    for (index, column) in table.columns.iter().enumerate() {
        if let (true, Some(shown)) = (column.numeric, shown.column_mut(index)) {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = shown.to_string();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Headings of one or two lines: the group stands above the first of its columns.
fn heads(columns: &[Column]) -> Vec<String> {
    let two_lines = columns.iter().any(|column| !column.group.is_empty());
    let mut group_before = "";
    let mut heads = Vec::with_capacity(columns.len());
    for column in columns {
        let group = if column.group == group_before { "" } else { column.group.as_str() };
        group_before = &column.group;
        heads.push(if two_lines { format!("{group}\n{}", column.name) } else { column.name.clone() });
    }
    heads
}

fn render_section(out: &mut String, section: &Section, paint: &Paint, widths: Widths) {
    let width = widths.text;
    line(out, "");
    line(out, &paint.bold(&section.title));
    for block in &section.blocks {
        match block {
            Block::Text(text) => out.push_str(&wrapped(text, width, "")),
            Block::Table(table) => out.push_str(&render_table(table, widths.table)),
            Block::Appendix(table) => {
                let rows = whole(table.rows.len() as f64);
                out.push_str(&wrapped(&format!("{rows} rows; --html and --json have them."), width, ""));
            }
            Block::Verdicts(verdicts) => render_verdicts(out, verdicts, paint, width),
            Block::Chart(Chart::Bars(chart)) => render_bars(out, chart),
            Block::Chart(Chart::Lines(chart)) if chart.in_terminal => render_sparklines(out, chart),
            Block::Chart(Chart::Lines(_)) => {}
        }
    }
}

/// Claims that were judged, each with its numbers; then how many were not, and what they need if that is one
/// thing.
fn render_verdicts(out: &mut String, verdicts: &[Verdict], paint: &Paint, width: usize) {
    const INDENT: &str = "                 ";
    let mut unjudged = 0;
    let mut needs = BTreeSet::new();
    for verdict in verdicts {
        let head = match verdict.outcome {
            Outcome::Holds => paint.green("✓ holds        "),
            Outcome::DoesNotHold => paint.red("✗ does not hold"),
            Outcome::Given => paint.dim("= given        "),
            Outcome::NotJudged => {
                unjudged += 1;
                needs.insert(verdict.numbers.as_str());
                continue;
            }
        };
        out.push_str(&wrapped(&format!("{head}  {}: {}", verdict.source, verdict.claim), width, INDENT));
        let strictly = if verdict.within_a_quarter.is_some() { "; " } else { "" };
        let numbers = format!("{}{strictly}{}", verdict.numbers, verdict.strictly());
        out.push_str(&paint.dim(&wrapped(&format!("{INDENT}{numbers}"), width, INDENT)));
    }
    if unjudged > 0 {
        let count = match verdicts.len() {
            all if all == unjudged => format!("None of the paper's {all} claims is judged by these runs"),
            all if unjudged == 1 => format!("One of the paper's {all} claims is not judged by these runs"),
            all => format!("{unjudged} of the paper's {all} claims are not judged by these runs"),
        };
        let why = match needs.pop_first() {
            Some(need) if needs.is_empty() => format!(": {need}."),
            _ => ".".into(),
        };
        out.push_str(&paint.dim(&wrapped(&format!("{count}{why}"), width, "")));
    }
}

fn render_bars(out: &mut String, chart: &BarChart) {
    line(out, &format!("{}, {}", chart.title, chart.y_label));
    let bars = || chart.groups.iter().flat_map(|group| &group.bars);
    let longest = bars().map(|bar| bar.value).fold(0.0, f64::max);
    let name_width = bars().map(|bar| bar.series.chars().count()).max().unwrap_or(0);
    let value_width = bars().map(|bar| at_scale(bar.value, longest).len()).max().unwrap_or(0);
    for group in &chart.groups {
        line(out, &format!("  {}", group.label));
        for bar in &group.bars {
            let name = &bar.series;
            let value = at_scale(bar.value, longest);
            let drawn = bar_of(share(bar.value, longest));
            line(out, &format!("    {name:name_width$}  {value:>value_width$}  {drawn}"));
        }
    }
}

fn share(value: f64, of: f64) -> f64 {
    if of > 0.0 && value.is_finite() { (value / of).clamp(0.0, 1.0) } else { 0.0 }
}

/// A bar of blocks, to an eighth of a character.
fn bar_of(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * CHART_WIDTH as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn render_sparklines(out: &mut String, chart: &LineChart) {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let end = points().map(|(x, _)| *x).fold(0.0, f64::max);
    line(out, &format!("{} ({}; █ = {})", chart.title, chart.y_label, at_scale(top, top)));
    let name_width = chart.lines.iter().map(|line| line.series.chars().count()).max().unwrap_or(0);
    for series in &chart.lines {
        let name = &series.series;
        line(out, &format!("  {name:name_width$}  {}", sparkline(&series.points, end, top)));
    }
    line(out, &format!("  {:name_width$}  0 … {} {}", "", whole(end), chart.x_label));
}

/// One character for each stretch of x from 0 to `end`: the mean of its points by `top`; a blank where there
/// are none.
fn sparkline(points: &[(f64, f64)], end: f64, top: f64) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = CHART_WIDTH.min(points.len().max(1));
    let mut sums = vec![(0.0, 0u32); width];
    for (x, y) in points {
        let column = ((x / end.max(f64::MIN_POSITIVE)) * (width - 1) as f64).round() as usize;
        let (sum, count) = &mut sums[column.min(width - 1)];
        *sum += y;
        *count += 1;
    }
    let level = |(sum, count): (f64, u32)| match count {
        0 => ' ',
        _ => LEVELS[(share(sum / f64::from(count), top) * 7.0).round() as usize],
    };
    sums.into_iter().map(level).collect()
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("writing to a String cannot fail");
}

/// Running text in lines of `width` columns, broken at blanks, but not at no-break ones, which are printed as
/// blanks, nor before a sign of per cent. Lines after the first begin with `indent`.
pub fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let options = Options::new(width).subsequent_indent(indent).break_words(false);
    let options = options.word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(&text.replace(" %", "\u{a0}%"), options).join("\n");
    lines.replace('\u{a0}', " ") + "\n"
}

/// ANSI escape sequences, or none.
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }

    fn green(&self, text: &str) -> String {
        self.with("32", text)
    }

    fn red(&self, text: &str) -> String {
        self.with("31", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar_of(1.0).chars().count(), CHART_WIDTH);
        assert_eq!(bar_of(0.5), "█".repeat(CHART_WIDTH / 2));
        assert_eq!(bar_of(0.0), "");
        assert_eq!(share(f64::NAN, 1.0), 0.0);
        assert_eq!(share(1.0, 0.0), 0.0);
    }

    #[test]
    fn sparklines_keep_order_height_and_gaps() {
        let points = [(0.0, 0.0), (10.0, 50.0), (20.0, 100.0)];
        assert_eq!(sparkline(&points, 20.0, 100.0), "▁▅█");
        assert_eq!(sparkline(&points[..1], 20.0, 100.0), "▁");
        assert_eq!(sparkline(&[(0.0, 100.0), (1.0, 100.0), (20.0, 100.0)], 20.0, 100.0), "█ █");
    }

    #[test]
    fn wide_tables_are_told_in_parts() {
        let columns = ["system", "a", "b"].into_iter().zip([Column::words, Column::numbers, Column::numbers]);
        let table = Table {
            columns: columns.map(|(name, column)| column(name)).collect(),
            rows: vec![vec!["face".into(), "1,000".into(), "2".into()]],
        };
        let whole = " system       a   b\n────────────────────\n face     1,000   2\n";
        assert_eq!(render_table(&table, usize::MAX), whole);
        let parts =
            " system       a\n────────────────\n face     1,000\n\n system   b\n────────────\n face     2\n";
        for width in [1, 16, 19] {
            assert_eq!(render_table(&table, width), parts, "{width}");
        }
        assert_eq!(render_table(&table, 20), whole);
    }

    #[test]
    fn running_text_is_broken_at_blanks() {
        assert_eq!(wrapped("one two-three four", 9, "  "), "one\n  two-three\n  four\n");
        assert_eq!(wrapped("one 12 % 3", 8, ""), "one 12 %\n3\n");
        assert_eq!(wrapped("one 123 % 4", 8, ""), "one\n123 % 4\n");
        assert_eq!(wrapped("", 9, ""), "\n");
    }
}

//! What a report consists of, free of any form of output.

use crate::paper::{Judged, Verdict};

/// A whole report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// What the numbers say, in a sentence, where there is one.
    pub answer: Option<String>,
    /// What the numbers are and are not, one sentence each.
    pub notes: Vec<String>,
    /// The configuration, as name and value.
    pub configuration: Vec<(String, String)>,
    /// Its parts, in order.
    pub sections: Vec<Section>,
}

/// A part of a report under one heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it shows, in order.
    pub blocks: Vec<Block>,
}

/// One thing that a section shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A table that is too long for a terminal: one line there says how long.
    Appendix(Table),
    /// A plot.
    Chart(Chart),
    /// A paper's claims, judged.
    Verdicts(Vec<Verdict>),
}

impl Block {
    /// Claims, judged, without their reasons.
    pub fn verdicts(claims: &[Judged]) -> Self {
        Block::Verdicts(claims.iter().map(|claim| claim.verdict.clone()).collect())
    }
}

/// A table. All rows have as many cells as there are columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns, left to right.
    pub columns: Vec<Column>,
    /// Cells as text.
    pub rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Heading shared with the neighbours of the same group; empty for none.
    pub group: String,
    /// Its own heading.
    pub name: String,
    /// Its cells are numbers: aligned to the right.
    pub numeric: bool,
}

impl Column {
    /// A column of words.
    pub fn words(name: impl Into<String>) -> Self {
        Self { group: String::new(), name: name.into(), numeric: false }
    }

    /// A column of numbers.
    pub fn numbers(name: impl Into<String>) -> Self {
        Self { numeric: true, ..Self::words(name) }
    }

    /// The same column under a heading shared with its neighbours.
    pub fn under(self, group: impl Into<String>) -> Self {
        Self { group: group.into(), ..self }
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Bars side by side, in groups.
    Bars(BarChart),
    /// Lines over a numeric axis.
    Lines(LineChart),
}

/// Groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Heading.
    pub title: String,
    /// What the height means, with its unit.
    pub y_label: String,
    /// Groups from left to right.
    pub groups: Vec<BarGroup>,
}

/// Bars side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct BarGroup {
    /// Text under the group.
    pub label: String,
    /// Its bars.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it stands for; bars of one series have one colour.
    pub series: String,
    /// Its height.
    pub value: f64,
}

/// How a horizontal axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Evenly.
    Even,
    /// By logarithms, with a label at each point: for sizes that double.
    Doubling,
    /// By logarithms, with labels at round numbers: for amounts over several powers of ten, all above 0.
    Powers,
}

/// Lines over a numeric axis.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Heading.
    pub title: String,
    /// What the horizontal axis means, with its unit.
    pub x_label: String,
    /// What the vertical axis means, with its unit.
    pub y_label: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// How the horizontal axis is divided.
    pub axis: Axis,
    /// Shown in a terminal too, as sparklines; otherwise on a page alone.
    pub in_terminal: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it stands for; lines of one series have one colour.
    pub series: String,
    /// The paper's rather than ours: drawn dashed.
    pub paper: bool,
    /// Points in the order of x.
    pub points: Vec<(f64, f64)>,
}

//! RW's tables and figures, the thesis' numbers with ours.

use super::super::chapter::Rows;
use crate::paper::rw::{self, MEMORY, RwRow};
use crate::report::{Bar, BarChart, BarGroup, Block, Chart, Column, Section, Table};

/// Every number that the thesis prints, and ours.
pub(super) fn rows(ours: &[RwRow]) -> Rows {
    let mut rows = Rows::new();
    for row in ours {
        let paper = rw::of(row);
        let name = format!("{}, write buffer {} MB", row.contender.name(), row.buffer_mb);
        let source = rw::table(row.page_kb);
        let mut add = |what: &str, unit, digits, of: fn(&RwRow) -> f64| {
            rows.add(source, format!("{what}, {name}"), (unit, digits), paper.map(of), Some(of(row)));
        };
        add("hit rate", "%", 1, |row| row.hit_rate);
        add("GC count", "", 0, |row| row.gc_count);
        add("CLWA", "", 2, |row| row.clwa);
        // The thesis has 0.0003.
        add("FLWA", "", 4, |row| row.flwa);
        add("response, normalised", "", 3, |row| row.response);
        let twaf = [("TWAF", row.twaf()), ("TWAF for each write request", row.twaf_of_requests())];
        for (what, ours) in twaf {
            rows.add(source, format!("{what}, {name}"), ("", 2), rw::twaf_of(row), Some(ours));
        }
    }
    for memory in &MEMORY {
        let kib = |bytes: u64| Some(bytes as f64 / 1024.0);
        rows.add("RW §4.1.3", memory.what, ("KiB", 0), kib(memory.paper_bytes), kib(memory.bytes()));
    }
    rows
}

/// Tables 5.1 and 5.2, figures 5.1 and 5.2.
pub(super) fn sections(rows: &[RwRow]) -> Vec<Section> {
    let of_size =
        |page_kb: u32| rows.iter().filter(|row| row.page_kb == page_kb).copied().collect::<Vec<_>>();
    vec![
        Section {
            title: "Table 5.1: database pages of 16 KB".into(),
            blocks: vec![Block::Table(table(&of_size(16)))],
        },
        Section {
            title: "Table 5.2: database pages of 8 KB".into(),
            blocks: vec![Block::Table(table(&of_size(8)))],
        },
        Section {
            title: "Figure 5.1: hit rate".into(),
            blocks: vec![bars(
                rows,
                "Read hits, by size of database pages and write buffer",
                "% of reads",
                |row| row.hit_rate,
            )],
        },
        Section {
            title: "Figure 5.2: normalised mean response".into(),
            blocks: vec![bars(
                rows,
                "Mean response, by size of database pages and write buffer",
                "× FlashTier, no buffer",
                |row| row.response,
            )],
        },
    ]
}

/// Rows as the thesis prints them, its numbers in the second line of columns.
fn table(rows: &[RwRow]) -> Table {
    let mut columns = vec![Column::words("cache"), Column::numbers("write buffer, MB")];
    for (name, ..) in MEASURES {
        columns.push(Column::numbers("ours").under(name));
        columns.push(Column::numbers("thesis").under(name));
    }
    let cells = |row: &RwRow| {
        let mut cells = vec![row.contender.name().to_owned(), row.buffer_mb.to_string()];
        for (_, value, thesis, digits) in MEASURES {
            cells.push(shown(value(row), digits));
            cells.push(thesis(row).map_or("–".to_owned(), |value| shown(value, digits)));
        }
        cells
    };
    Table { columns, rows: rows.iter().map(cells).collect() }
}

/// A value, with more digits where it would be zero otherwise.
fn shown(value: f64, digits: usize) -> String {
    let digits = if value > 0.0 && value < 0.5 * 0.1f64.powi(digits as i32) { 4 } else { digits };
    format!("{value:.digits$}")
}

/// Name, ours, the thesis', digits.
type Measure = (&'static str, fn(&RwRow) -> f64, fn(&RwRow) -> Option<f64>, usize);

const MEASURES: [Measure; 7] = [
    ("hit rate, %", |row| row.hit_rate, |row| rw::of(row).map(|row| row.hit_rate), 1),
    ("GC count", |row| row.gc_count, |row| rw::of(row).map(|row| row.gc_count), 0),
    ("CLWA", |row| row.clwa, |row| rw::of(row).map(|row| row.clwa), 2),
    ("FLWA", |row| row.flwa, |row| rw::of(row).map(|row| row.flwa), 2),
    ("TWAF", RwRow::twaf, rw::twaf_of, 2),
    ("TWAF of requests", RwRow::twaf_of_requests, rw::twaf_of, 2),
    ("response", |row| row.response, |row| rw::of(row).map(|row| row.response), 3),
];

/// A group for each page size and write buffer, a bar for each cache.
fn bars(rows: &[RwRow], title: &str, unit: &str, value: fn(&RwRow) -> f64) -> Block {
    let mut groups: Vec<BarGroup> = Vec::new();
    for (page_kb, buffer_mb) in [(16, 0), (16, 8), (16, 16), (8, 0), (8, 8), (8, 16)] {
        let of_group = rows.iter().filter(|row| (row.page_kb, row.buffer_mb) == (page_kb, buffer_mb));
        let bars =
            of_group.map(|row| Bar { series: row.contender.name().into(), value: value(row) }).collect();
        let buffer = if buffer_mb == 0 { "none".to_owned() } else { format!("{buffer_mb} MB") };
        groups.push(BarGroup { label: format!("{page_kb} KB, {buffer}"), bars });
    }
    Block::Chart(Chart::Bars(BarChart { title: title.into(), y_label: unit.into(), groups }))
}

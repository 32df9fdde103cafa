//! The report of `mrc`: miss-ratio curves.

use super::model::{Axis, Block, Chart, Column, Line, LineChart, Report, Section, Table};
use super::text::{decimal, estimates, percent, whole, with_half};
use crate::mrc::Curve;

/// Builds the report. `curves` are of one trace and of the same sizes.
pub fn mrc_report(curves: &[Curve]) -> Report {
    let configuration = curves.first().map_or_else(Vec::new, |first| {
        vec![
            ("trace".to_owned(), first.trace.clone()),
            ("references".into(), whole(first.references as f64)),
            (
                "different pages".into(),
                format!("{} of {} bytes", whole(first.unique_pages as f64), first.page_bytes),
            ),
        ]
    });
    let mut notes: Vec<String> = vec![
        "Misses of a single level by its size. LRU is exact for every size; the others are replayed.".into(),
    ];
    if let Some((rate, hashes)) = curves.first().and_then(|first| first.sample) {
        notes.push(estimates(rate, hashes));
    }
    Report {
        title: "Entresol: mrc".into(),
        answer: None,
        notes,
        configuration,
        sections: vec![Section {
            title: "Miss-ratio curves".into(),
            blocks: vec![table(curves), chart(curves)],
        }],
    }
}

fn table(curves: &[Curve]) -> Block {
    let heads = [Column::numbers("pages"), Column::numbers("MiB")];
    let policies = curves.iter().map(|curve| Column::numbers(&curve.policy).under("misses, %"));
    let columns = heads.into_iter().chain(policies).collect();
    let first = curves.first();
    let sizes = first.map_or(&[][..], |first| &first.points);
    let row = |(at, point): (usize, &crate::mrc::CurvePoint)| {
        let bytes = first.map_or(0, |first| first.page_bytes);
        let mib = f64::from(point.pages) * f64::from(bytes) / f64::from(1 << 20);
        let ratios = curves.iter().map(|curve| {
            let point = &curve.points[at];
            with_half(percent(point.miss_ratio), point.half_width.map(percent))
        });
        [whole(point.pages.into()), decimal(mib, 1)].into_iter().chain(ratios).collect()
    };
    Block::Table(Table { columns, rows: sizes.iter().enumerate().map(row).collect() })
}

fn chart(curves: &[Curve]) -> Block {
    let line = |curve: &Curve| Line {
        series: curve.policy.clone(),
        paper: false,
        points: curve.points.iter().map(|p| (f64::from(p.pages), p.miss_ratio * 100.0)).collect(),
    };
    Block::Chart(Chart::Lines(LineChart {
        title: "Misses by size".into(),
        x_label: "pages".into(),
        y_label: "misses, % of references".into(),
        lines: curves.iter().map(line).collect(),
        axis: Axis::Even,
        in_terminal: true,
    }))
}

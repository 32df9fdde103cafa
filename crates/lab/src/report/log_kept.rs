//! What it costs in a simulation to keep a log above so that the flash may be lost.

use super::model::{Axis, Block, Chart, Column, Line, LineChart, Section};
use super::simulation::table;
use super::text::{NONE, decimal, or_none, whole};
use crate::replay::SimulationResult;

/// The mode of a run, with the log that is kept.
pub(super) fn mode(result: &SimulationResult) -> String {
    let log = result.log.as_ref();
    log.map_or(result.mode.clone(), |log| format!("{}, {} of log", result.mode, size(log.bound_bytes)))
}

/// Bytes, in the largest unit of which there is one.
fn size(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let unit = units.into_iter().find(|(unit, _)| bytes as f64 >= *unit);
    unit.map_or(format!("{bytes} bytes"), |(unit, name)| {
        format!("{:.3}", bytes as f64 / unit).trim_end_matches('0').trim_end_matches('.').to_owned()
            + " "
            + name
    })
}

/// A row for each run with such a log, compared with the one of the same cache without.
pub(super) fn section(results: &[SimulationResult]) -> Option<Section> {
    let kept: Vec<_> = results.iter().filter(|r| r.log.is_some()).cloned().collect();
    if kept.is_empty() {
        return None;
    }
    let without =
        |r: &SimulationResult| results.iter().find(|other| other.log.is_none() && is_same(r, other));
    let columns = vec![
        Column::numbers("kept").under("log, MB"),
        Column::numbers("replayed, at most").under("log, MB"),
        Column::numbers("checkpoints"),
        Column::numbers("for the log").under("disk pages"),
        Column::numbers("writes").under("disk pages"),
        Column::numbers("writes, ×").under("of without"),
        Column::numbers("references/s, ×").under("of without"),
    ];
    let cells = |r: &SimulationResult| {
        let log = r.log.clone().unwrap_or_default();
        let ratio = |of: fn(&SimulationResult) -> f64| {
            or_none(without(r).map(|other| of(r) / of(other)), |ratio| decimal(ratio, 2))
        };
        vec![
            decimal(log.bound_bytes as f64 / 1e6, 0),
            decimal(log.most_bytes as f64 / 1e6, 1),
            whole(log.checkpoints as f64),
            whole(log.copied as f64),
            whole(r.disk_writes as f64),
            ratio(|r| r.disk_writes as f64),
            ratio(|r| r.throughput),
        ]
    };
    let change_bytes = kept[0].log.as_ref().map_or(NONE.to_owned(), |log| log.change_bytes.to_string());
    let meaning = format!(
        "A change of a page logs {change_bytes} bytes. Replayed: what a restart without the flash would read.                    Checkpoints hand down what was changed in DRAM; runs without a log make none."
    );
    let mut blocks = vec![table(&kept, columns, cells), Block::Text(meaning)];
    let mut lines: Vec<Line> = Vec::new();
    for result in &kept {
        let Some(log) = &result.log else { continue };
        let series = format!("{}, {} pages of flash", result.policy, result.flash_pages);
        let point = (log.bound_bytes as f64 / 1e6, result.disk_writes as f64);
        match lines.iter_mut().find(|line| line.series == series) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { series, paper: false, points: vec![point] }),
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    if lines.iter().any(|line| line.points.len() > 1) {
        blocks.push(Block::Chart(Chart::Lines(LineChart {
            title: "Disk writes by the log that is kept".into(),
            x_label: "MB of log kept".into(),
            y_label: "pages written to disk".into(),
            lines,
            axis: Axis::Powers,
            in_terminal: false,
        })));
    }
    Some(Section { title: "A log that replaces the flash".into(), blocks })
}

fn is_same(a: &SimulationResult, b: &SimulationResult) -> bool {
    let of = |r: &SimulationResult| {
        (r.policy.clone(), r.mode.clone(), r.flash_pages, r.dram_pages, r.write_budget)
    };
    of(a) == of(b)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_in_the_largest_unit_of_which_there_is_one() {
        let texts = [512, 1500, 256_000_000, 4_000_000_000, 1 << 30].map(size);
        assert_eq!(texts, ["512 bytes", "1.5 KB", "256 MB", "4 GB", "1.074 GB"]);
    }
}

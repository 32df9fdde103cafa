//! The report of `bench restart`: FaCE's table 6 and figure 6 with ours.

use super::model::{Axis, Block, Chart, Column, Line, LineChart, Report, Section, Table};
use super::text::{NONE, decimal, or_none, percent, whole, yes_no};
use crate::paper::face::restart::{WINDOW_S, judged_restart, windows};
use crate::paper::{NOT_A_TPC_RESULT, face};
use crate::result::RestartResult;
use entresol_core::System;

/// Builds the report. `results` are of one configuration: any systems and checkpoint intervals on one pair of
/// devices. `extra` is configuration that results do not carry (name and value).
pub fn restart_report(results: &[RestartResult], extra: &[(String, String)]) -> Report {
    let mut sections = vec![table_6(results), figure_6(results)];
    sections.push(Section {
        title: "FaCE's claims over these runs".into(),
        blocks: vec![Block::verdicts(&judged_restart(results))],
    });
    sections.push(recovery(results));
    let notes = vec![
        format!("{NOT_A_TPC_RESULT}."),
        "The kill comes in the middle of a checkpoint interval. Paper: FaCE (PVLDB 5(11), 2012), 500 warehouses (50 GB), \
         flash 8 %. Ours: the same shares of a smaller database; compare ratios, not absolute seconds."
            .into(),
    ];
    Report {
        title: "Entresol: bench restart".into(),
        notes,
        configuration: configuration(results, extra),
        sections,
    }
}

fn intervals(results: &[RestartResult]) -> Vec<f64> {
    let mut intervals: Vec<f64> = results.iter().map(|r| r.checkpoint_interval_s).collect();
    intervals.sort_by(f64::total_cmp);
    intervals.dedup();
    intervals
}

fn systems(results: &[RestartResult]) -> Vec<&str> {
    let rank = |name: &str| System::ALL.iter().position(|s| s.name() == name).unwrap_or(System::ALL.len());
    let mut names: Vec<&str> = results.iter().map(|r| r.system.as_str()).collect();
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    names
}

fn at<'a>(results: &'a [RestartResult], system: &str, interval: f64) -> Option<&'a RestartResult> {
    results.iter().find(|r| r.system == system && r.checkpoint_interval_s == interval)
}

fn table_6(results: &[RestartResult]) -> Section {
    let intervals = intervals(results);
    let heads = |interval: &f64| {
        let head = format!("every {interval} s");
        [
            Column::numbers("paper").under(&head),
            Column::numbers("ours").under(&head),
            Column::numbers("× faster").under(&head),
        ]
    };
    let columns = std::iter::once(Column::words("system")).chain(intervals.iter().flat_map(heads)).collect();
    let row = |name: &str| {
        let cells = intervals.iter().flat_map(|interval| {
            let paper = System::from_name(name).and_then(|system| face::restart_s(system, *interval));
            let ours = at(results, name, *interval).map(|r| r.restart_s);
            let disk = at(results, System::DiskOnly.name(), *interval).map(|r| r.restart_s);
            let factor = ours.zip(disk).map(|(ours, disk)| disk / ours);
            [or_none(paper, whole), or_none(ours, |s| decimal(s, 1)), or_none(factor, |x| decimal(x, 1))]
        });
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let rows = systems(results).into_iter().map(row).collect();
    Section {
        title: "Table 6: seconds to restart".into(),
        blocks: vec![
            Block::Table(Table { columns, rows }),
            Block::Text(
                "Columns: time between checkpoints. × faster: disk-only's time by the system's, both ours."
                    .into(),
            ),
        ],
    }
}

/// Throughput after the kill, at the longest interval first as in the paper.
fn figure_6(results: &[RestartResult]) -> Section {
    let mut blocks = Vec::new();
    for interval in intervals(results).into_iter().rev() {
        let line = |name: &str| {
            let means = windows(&at(results, name, interval)?.tpmC_after);
            let points = means.iter().enumerate().map(|(k, tpmc)| (k as f64 * WINDOW_S, *tpmc)).collect();
            Some(Line { series: name.into(), paper: false, points })
        };
        blocks.push(Block::Chart(Chart::Lines(LineChart {
            title: format!("Throughput after the kill, checkpoint every {interval} s"),
            x_label: "seconds since the kill".into(),
            y_label: format!("tpmC, means of {WINDOW_S:.0} s"),
            lines: systems(results).into_iter().filter_map(line).collect(),
            axis: Axis::Even,
            in_terminal: true,
        })));
    }
    blocks.push(Block::Table(minutes_after(results)));
    Section { title: "Figure 6: throughput after a restart".into(), blocks }
}

/// Mean tpmC of the first minutes after the kill, a row for each run.
fn minutes_after(results: &[RestartResult]) -> Table {
    const MINUTES: usize = 5;
    let per_minute = (60.0 / WINDOW_S) as usize;
    let mut columns = vec![
        Column::words("system"),
        Column::numbers("checkpoint, s"),
        Column::numbers("before").under("tpmC"),
    ];
    columns.extend((1..=MINUTES).map(|minute| Column::numbers(format!("minute {minute}")).under("tpmC")));
    let row = |r: &RestartResult| {
        let means = windows(&r.tpmC_after);
        let minute = |minute: usize| {
            let inside = means.get(minute * per_minute..(minute + 1) * per_minute)?;
            Some(inside.iter().sum::<f64>() / per_minute as f64)
        };
        let mut cells = vec![r.system.clone(), decimal(r.checkpoint_interval_s, 0), whole(r.tpmC_before)];
        cells.extend((0..MINUTES).map(|m| or_none(minute(m), whole)));
        cells
    };
    Table { columns, rows: ordered(results).into_iter().map(row).collect() }
}

fn ordered(results: &[RestartResult]) -> Vec<&RestartResult> {
    let of = |name| intervals(results).into_iter().filter_map(move |interval| at(results, name, interval));
    systems(results).into_iter().flat_map(of).collect()
}

fn recovery(results: &[RestartResult]) -> Section {
    let columns = vec![
        Column::words("system"),
        Column::numbers("checkpoint, s"),
        Column::numbers("restart, s"),
        Column::numbers("directory, s"),
        Column::numbers("log read, MiB"),
        Column::numbers("pages").under("redo"),
        Column::numbers("from flash, %").under("redo"),
        Column::words("consistent"),
        Column::words("digest"),
    ];
    let row = |r: &RestartResult| {
        let flash = |value: String| if r.system == System::DiskOnly.name() { NONE.into() } else { value };
        vec![
            r.system.clone(),
            decimal(r.checkpoint_interval_s, 0),
            decimal(r.restart_s, 2),
            flash(decimal(r.directory_restore_s, 3)),
            decimal(r.log_bytes as f64 / (1 << 20) as f64, 1),
            whole(r.redo_pages as f64),
            flash(percent(r.redo_from_flash_share)),
            yes_no(r.consistency_ok),
            r.digest.clone(),
        ]
    };
    let rows = ordered(results).into_iter().map(row).collect();
    Section { title: "Recovery".into(), blocks: vec![Block::Table(Table { columns, rows })] }
}

fn configuration(results: &[RestartResult], extra: &[(String, String)]) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    if let Some(first) = results.first() {
        let cached = results.iter().find(|r| System::from_name(&r.system).is_some_and(System::has_cache));
        rows = vec![
            ("flash device".into(), first.flash_device.clone()),
            ("disk device".into(), first.disk_device.clone()),
            (
                "flash".into(),
                cached.map_or(NONE.into(), |r| format!("{} % of the database", r.flash_percent)),
            ),
            ("warehouses".into(), first.warehouses.to_string()),
            ("clients".into(), first.clients.to_string()),
            ("seed".into(), first.seed.to_string()),
        ];
    }
    rows.extend_from_slice(extra);
    rows
}

//! The report of `bench restart`: FaCE's table 6 and figure 6 with ours, a row for each system and log.

use super::model::{Axis, Block, Chart, Column, Line, LineChart, Report, Section, Table};
use super::text::{NONE, decimal, or_none, percent, seconds, whole, yes_no};
use crate::config::Redo;
use crate::paper::face::restart::{WINDOW_S, judged_restart, windows};
use crate::paper::{NOT_A_TPC_RESULT, face};
use crate::result::RestartResult;
use entresol_core::System;

/// Builds the report. `results` are of one configuration: any systems and checkpoint intervals on one pair of
/// devices, under any logs. `extra` is configuration that results do not carry (name and value).
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
        answer: None,
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

/// A row of the tables: a system, and what its log tells redo.
type Kind<'a> = (&'a str, &'a str);

/// Systems under each log, logs in the order of [`Redo::ALL`].
fn kinds(results: &[RestartResult]) -> Vec<Kind<'_>> {
    let system = |name: &str| System::ALL.iter().position(|s| s.name() == name);
    let log = |name: &str| Redo::ALL.iter().position(|redo| redo.name() == name);
    let mut kinds: Vec<Kind<'_>> = results.iter().map(|r| (r.system.as_str(), r.redo.as_str())).collect();
    kinds.sort_by_key(|kind| (log(kind.1), system(kind.0).is_none(), system(kind.0), *kind));
    kinds.dedup();
    kinds
}

fn about(redo: &str) -> String {
    Redo::from_name(redo).map_or_else(|| redo.to_owned(), |redo| redo.about().to_owned())
}

fn at<'a>(results: &'a [RestartResult], kind: Kind<'_>, interval: f64) -> Option<&'a RestartResult> {
    results
        .iter()
        .find(|r| (r.system.as_str(), r.redo.as_str()) == kind && r.checkpoint_interval_s == interval)
}

fn table_6(results: &[RestartResult]) -> Section {
    let intervals = intervals(results);
    let heads = |interval: &f64| {
        let head = format!("every {} s", seconds(*interval));
        [
            Column::numbers("paper").under(&head),
            Column::numbers("ours").under(&head),
            Column::numbers("× faster").under(&head),
        ]
    };
    let mut columns = vec![Column::words("system"), Column::words("log")];
    columns.extend(intervals.iter().flat_map(heads));
    let row = |(name, redo): Kind<'_>| {
        let cells = intervals.iter().flat_map(|interval| {
            let paper = System::from_name(name).and_then(|system| face::restart_s(system, *interval));
            let paper = paper.filter(|_| redo == Redo::Plain.name());
            let ours = at(results, (name, redo), *interval).map(|r| r.restart_s);
            let disk = at(results, (System::DiskOnly.name(), redo), *interval).map(|r| r.restart_s);
            let factor = ours.zip(disk).map(|(ours, disk)| disk / ours);
            [or_none(paper, whole), or_none(ours, |s| decimal(s, 1)), or_none(factor, |x| decimal(x, 1))]
        });
        [name.to_owned(), about(redo)].into_iter().chain(cells).collect()
    };
    let rows = kinds(results).into_iter().map(row).collect();
    Section {
        title: "Table 6: seconds to restart".into(),
        blocks: vec![
            Block::Table(Table { columns, rows }),
            Block::Text(
                "Columns: time between checkpoints. × faster: disk-only's time by the system's, both ours, under the same log. \
                 The paper's PostgreSQL had no notes of durable pages."
                    .into(),
            ),
        ],
    }
}

/// Throughput after the kill, at the longest interval first as in the paper.
fn figure_6(results: &[RestartResult]) -> Section {
    let mut blocks = Vec::new();
    let kinds = kinds(results);
    let mut logs: Vec<&str> = kinds.iter().map(|kind| kind.1).collect();
    logs.dedup();
    for (interval, log) in
        intervals(results).into_iter().rev().flat_map(|i| logs.iter().map(move |l| (i, *l)))
    {
        let line = |kind: &Kind<'_>| {
            let means = windows(&at(results, *kind, interval)?.tpmC_after);
            let points = means.iter().enumerate().map(|(k, tpmc)| (k as f64 * WINDOW_S, *tpmc)).collect();
            Some(Line { series: kind.0.into(), paper: false, points })
        };
        let with = if logs.len() > 1 { format!("; log: {}", about(log)) } else { String::new() };
        blocks.push(Block::Chart(Chart::Lines(LineChart {
            title: format!("Throughput after the kill, checkpoint every {} s{with}", seconds(interval)),
            x_label: "seconds since the kill".into(),
            y_label: format!("tpmC, means of {WINDOW_S:.0} s"),
            lines: kinds.iter().filter(|kind| kind.1 == log).filter_map(line).collect(),
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
        Column::words("log"),
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
        let mut cells = vec![r.system.clone(), about(&r.redo)];
        cells.extend([seconds(r.checkpoint_interval_s), whole(r.tpmC_before)]);
        cells.extend((0..MINUTES).map(|m| or_none(minute(m), whole)));
        cells
    };
    Table { columns, rows: ordered(results).into_iter().map(row).collect() }
}

fn ordered(results: &[RestartResult]) -> Vec<&RestartResult> {
    let of = |kind| intervals(results).into_iter().filter_map(move |interval| at(results, kind, interval));
    kinds(results).into_iter().flat_map(of).collect()
}

/// What each restart read and wrote: where its time went.
fn recovery(results: &[RestartResult]) -> Section {
    let mut columns = vec![Column::words("system"), Column::words("log")];
    let numbers = ["checkpoint, s", "restart, s", "directory, s", "log read, MiB", "turnover"];
    columns.extend(numbers.map(Column::numbers));
    columns.extend(
        ["touched", "fetched", "from flash, %"].map(|name| Column::numbers(name).under("pages of redo")),
    );
    let io = ["flash reads", "flash writes", "disk reads", "disk writes"];
    columns.extend(io.map(|name| Column::numbers(name).under("pages")));
    columns.extend(["consistent", "digest"].map(Column::words));
    let row = |r: &RestartResult| {
        let cached = System::from_name(&r.system).is_some_and(System::has_cache);
        let flash = |value: String| if cached { value } else { NONE.into() };
        let [flash_reads, flash_writes, disk_reads, disk_writes] =
            r.restart_io.map(|pages| whole(pages as f64));
        vec![
            r.system.clone(),
            about(&r.redo),
            seconds(r.checkpoint_interval_s),
            decimal(r.restart_s, 2),
            flash(decimal(r.directory_restore_s, 3)),
            decimal(r.log_bytes as f64 / (1 << 20) as f64, 1),
            flash(decimal(r.turnover, 2)),
            whole(r.pages_touched as f64),
            whole(r.redo_pages as f64),
            flash(percent(r.redo_from_flash_share)),
            flash(flash_reads),
            flash(flash_writes),
            disk_reads,
            disk_writes,
            yes_no(r.consistency_ok),
            r.digest.clone(),
        ]
    };
    let rows = ordered(results).into_iter().map(row).collect();
    let text = "Turnover: pages written to flash from the last checkpoint until the kill, by its slots. Touched: different pages; \
                a page that DRAM evicts meanwhile is fetched again.";
    Section {
        title: "Recovery".into(),
        blocks: vec![Block::Table(Table { columns, rows }), Block::Text(text.into())],
    }
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

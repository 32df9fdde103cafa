//! The report of `bench tpcc`: FaCE's tables 3 and 4 and figure 4 with ours, and what else was
//! measured.
//!
//! Every system is a row; every number of the paper stands left of ours under "paper".

use super::model::{
    Axis, Bar, BarChart, BarGroup, Block, Chart, Column, Line, LineChart, Report, Section, Table,
};
use super::text::{NONE, decimal, or_none, percent, whole, yes_no};
use crate::bench::image::PAGE_BYTES;
use crate::paper::{NOT_A_TPC_RESULT, face};
use crate::result::TpccResult;
use entresol_core::System;

/// Builds the report. `results` are of one configuration: any systems and flash sizes on one pair of devices.
/// `extra` is configuration that results do not carry (name and value), e.g. the checkpoint interval.
pub fn tpcc_report(results: &[TpccResult], extra: &[(String, String)]) -> Report {
    let sizes = sizes(results);
    let mut sections = vec![
        sized("Table 3: flash hits and write reduction", results, &sizes, &[HITS, REDUCTION]),
        sized(
            "Table 4: utilisation and page I/Os of the flash device",
            results,
            &sizes,
            &[UTILISATION, IOPS],
        ),
        throughput(results, &sizes),
    ];
    sections.push(Section {
        title: "FaCE's claims over these runs".into(),
        blocks: vec![Block::verdicts(&face::judged_tpcc(&[results]))],
    });
    sections.push(measured(results));
    sections.push(proof(results));
    Report {
        title: "Entresol: bench tpcc".into(),
        answer: None,
        notes: notes(results),
        configuration: configuration(results, extra),
        sections,
    }
}

/// A number with a table of its own in the paper.
struct Metric {
    table: face::SizeTable,
    /// Heading where several numbers share a table.
    short: &'static str,
    ours: fn(&TpccResult) -> f64,
    show: fn(f64) -> String,
}

const HITS: Metric =
    Metric { table: face::FLASH_HITS, short: "flash hits, %", ours: |r| r.flash_hits() * 100.0, show: one };
const REDUCTION: Metric = Metric {
    table: face::WRITE_REDUCTION,
    short: "write reduction, %",
    ours: |r| r.write_reduction * 100.0,
    show: one,
};
const UTILISATION: Metric = Metric {
    table: face::FLASH_UTILISATION,
    short: "utilisation, %",
    ours: |r| r.flash_utilisation * 100.0,
    show: one,
};
const IOPS: Metric =
    Metric { table: face::FLASH_IOPS, short: "page I/Os a second", ours: |r| r.flash_iops, show: whole };

fn one(value: f64) -> String {
    decimal(value, 1)
}

fn has_cache(result: &TpccResult) -> bool {
    System::from_name(&result.system).is_some_and(System::has_cache)
}

fn system_rank(name: &str) -> usize {
    System::ALL.iter().position(|system| system.name() == name).unwrap_or(System::ALL.len())
}

/// Flash sizes that ran, rising.
fn sizes(results: &[TpccResult]) -> Vec<f64> {
    let mut sizes: Vec<f64> = results.iter().filter(|r| has_cache(r)).map(|r| r.flash_percent).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// Systems that ran, in the order of figure 4.
fn systems(results: &[TpccResult], cached_only: bool) -> Vec<&str> {
    let mut names: Vec<&str> =
        results.iter().filter(|r| !cached_only || has_cache(r)).map(|r| r.system.as_str()).collect();
    names.sort_by_key(|name| (system_rank(name), *name));
    names.dedup();
    names
}

fn at<'a>(results: &'a [TpccResult], system: &str, size: f64) -> Option<&'a TpccResult> {
    results.iter().find(|r| r.system == system && r.flash_percent == size)
}

fn baseline(results: &[TpccResult], system: System) -> Option<&TpccResult> {
    results.iter().find(|r| r.system == system.name())
}

/// The tables of one number of the paper after another; side by side where only one size ran.
fn sized(title: &str, results: &[TpccResult], sizes: &[f64], metrics: &[Metric]) -> Section {
    let mut blocks = Vec::new();
    if sizes.is_empty() {
        blocks.push(Block::Text("No system with a flash cache ran.".into()));
    } else if let [size] = sizes {
        let shown: Vec<_> = metrics.iter().map(|m| (m, *size, m.short.to_owned())).collect();
        let meanings =
            metrics.iter().map(|m| format!("{} ({})", m.table.title, m.table.source)).collect::<Vec<_>>();
        blocks.push(Block::Text(format!(
            "Flash {} of the database; {}.",
            size_name(*size),
            meanings.join("; ")
        )));
        blocks.push(Block::Table(pairs(results, &shown)));
    } else {
        for metric in metrics {
            let shown: Vec<_> = sizes.iter().map(|size| (metric, *size, size_name(*size))).collect();
            blocks.push(Block::Text(format!("{}: {}.", metric.table.source, metric.table.title)));
            blocks.push(Block::Table(pairs(results, &shown)));
            blocks.push(Block::Chart(Chart::Lines(over_size(results, sizes, metric))));
        }
    }
    Section { title: title.into(), blocks }
}

fn size_name(size: f64) -> String {
    format!("{size} %")
}

/// One row a system; for each (number, flash size, heading) the paper's and ours.
fn pairs(results: &[TpccResult], shown: &[(&Metric, f64, String)]) -> Table {
    let heads = |(_, _, head): &(&Metric, f64, String)| {
        [Column::numbers("paper").under(head), Column::numbers("ours").under(head)]
    };
    let columns = std::iter::once(Column::words("system")).chain(shown.iter().flat_map(heads)).collect();
    let row = |name: &str| {
        let cells = shown.iter().flat_map(|(metric, size, _)| {
            let paper = System::from_name(name).and_then(|system| metric.table.at(system, *size));
            let ours = at(results, name, *size).map(metric.ours);
            [or_none(paper, metric.show), or_none(ours, metric.show)]
        });
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    Table { columns, rows: systems(results, true).into_iter().map(row).collect() }
}

fn over_size(results: &[TpccResult], sizes: &[f64], metric: &Metric) -> LineChart {
    let mut lines = Vec::new();
    for name in systems(results, true) {
        let ours =
            sizes.iter().filter_map(|size| Some((*size, (metric.ours)(at(results, name, *size)?)))).collect();
        lines.push(Line { series: name.into(), paper: false, points: ours });
        let in_paper = |size: &f64| Some((*size, metric.table.at(System::from_name(name)?, *size)?));
        let paper: Vec<_> = sizes.iter().filter_map(in_paper).collect();
        if !paper.is_empty() {
            lines.push(Line { series: name.into(), paper: true, points: paper });
        }
    }
    LineChart {
        title: format!("{}: {}", metric.table.source, metric.table.title),
        x_label: "flash, % of the database".into(),
        y_label: metric.table.title.into(),
        lines,
        axis: Axis::Even,
        in_terminal: false,
    }
}

/// Figure 4.
fn throughput(results: &[TpccResult], sizes: &[f64]) -> Section {
    let flash_only = baseline(results, System::FlashOnly).map(|r| r.tpmC);
    let disk_only = baseline(results, System::DiskOnly).map(|r| r.tpmC);
    let columns = vec![
        Column::words("system"),
        Column::numbers("flash, %"),
        Column::numbers("paper").under("tpmC"),
        Column::numbers("ours").under("tpmC"),
        Column::numbers("× disk-only").under("ours"),
        Column::numbers("× flash-only").under("ours"),
        Column::numbers("× lc").under("ours"),
    ];
    let times = |ours: f64, other: Option<f64>| or_none(other.map(|other| ours / other), |x| decimal(x, 2));
    let row = |r: &TpccResult| {
        let paper = System::from_name(&r.system).and_then(|system| face::tpmc(system, r.flash_percent));
        let lc = if has_cache(r) { at(results, "lc", r.flash_percent).map(|lc| lc.tpmC) } else { None };
        vec![
            r.system.clone(),
            flash_size(r),
            or_none(paper.filter(|_| r.flash_device == "mlc"), whole),
            whole(r.tpmC),
            times(r.tpmC, disk_only),
            times(r.tpmC, flash_only),
            times(r.tpmC, lc),
        ]
    };
    let rows = ordered(results).into_iter().map(row).collect();
    let source = "The paper draws figure 4 without numbers; those of face-gsc are in its table 5 (the same set-up, on MLC).";
    Section {
        title: "Figure 4: throughput".into(),
        blocks: vec![
            Block::Table(Table { columns, rows }),
            Block::Chart(Chart::Bars(bars(results, sizes))),
            Block::Text(source.into()),
        ],
    }
}

/// In the order of figure 4, then by size.
fn ordered(results: &[TpccResult]) -> Vec<&TpccResult> {
    let mut rows: Vec<_> = results.iter().collect();
    rows.sort_by(|a, b| {
        (system_rank(&a.system), &a.system)
            .cmp(&(system_rank(&b.system), &b.system))
            .then(a.flash_percent.total_cmp(&b.flash_percent))
    });
    rows
}

fn flash_size(result: &TpccResult) -> String {
    if has_cache(result) { format!("{}", result.flash_percent) } else { NONE.into() }
}

fn bars(results: &[TpccResult], sizes: &[f64]) -> BarChart {
    let rows = ordered(results);
    let group = |label: String, of: &dyn Fn(&TpccResult) -> bool| BarGroup {
        label,
        bars: rows
            .iter()
            .filter(|r| of(r))
            .map(|r| Bar { series: r.system.clone(), value: r.tpmC })
            .collect(),
    };
    let mut groups = vec![group("no flash cache".into(), &|r| !has_cache(r))];
    for size in sizes {
        groups.push(group(format!("flash {size} %"), &|r| has_cache(r) && r.flash_percent == *size));
    }
    groups.retain(|group| !group.bars.is_empty());
    BarChart { title: "Figure 4: committed new-orders a minute".into(), y_label: "tpmC".into(), groups }
}

fn measured(results: &[TpccResult]) -> Section {
    let columns = vec![
        Column::words("system"),
        Column::numbers("flash, %"),
        Column::numbers("tx/s"),
        Column::numbers("p50").under("new-order, ms"),
        Column::numbers("p99").under("new-order, ms"),
        Column::numbers("DRAM").under("hits, %"),
        Column::numbers("flash").under("hits, %"),
        Column::numbers("duplicates, %"),
        Column::numbers("util, %").under("flash device"),
        Column::numbers("IOPS").under("flash device"),
        Column::numbers("WA").under("flash device"),
        Column::numbers("GB a day").under("flash device"),
        Column::numbers("util, %").under("disk device"),
        Column::numbers("IOPS").under("disk device"),
    ];
    let row = |r: &TpccResult| {
        let cached = |value: String| if has_cache(r) { value } else { NONE.into() };
        let flash = |value: String| if r.system == System::DiskOnly.name() { NONE.into() } else { value };
        let disk = |value: String| if r.system == System::FlashOnly.name() { NONE.into() } else { value };
        vec![
            r.system.clone(),
            flash_size(r),
            decimal(r.transactions_per_second, 1),
            decimal(r.new_order_ms_p50, 1),
            decimal(r.new_order_ms_p99, 1),
            percent(r.dram_hit_rate),
            cached(percent(r.flash_hits())),
            cached(percent(r.duplicate_share)),
            flash(percent(r.flash_utilisation)),
            flash(whole(r.flash_iops)),
            flash(decimal(r.flash_write_amplification, 2)),
            r.flash_writes.map_or(NONE.into(), |pages| whole(gigabytes_a_day(pages, r.virtual_minutes))),
            disk(percent(r.disk_utilisation)),
            disk(whole(r.disk_iops)),
        ]
    };
    let rows = ordered(results).into_iter().map(row).collect();
    Section { title: "Also measured".into(), blocks: vec![Block::Table(Table { columns, rows })] }
}

/// 10⁹ bytes of the store's pages, of so many in `minutes`.
fn gigabytes_a_day(pages: u64, minutes: f64) -> f64 {
    (pages * u64::from(PAGE_BYTES)) as f64 / 1e9 * 24.0 * 60.0 / minutes
}

fn proof(results: &[TpccResult]) -> Section {
    let columns = vec![
        Column::words("system"),
        Column::numbers("flash, %"),
        Column::words("consistent"),
        Column::numbers("deadlocks"),
        Column::numbers("wall, s"),
        Column::numbers("× real time"),
        Column::words("digest"),
    ];
    let row = |r: &TpccResult| {
        vec![
            r.system.clone(),
            flash_size(r),
            yes_no(r.consistency_ok),
            whole(r.deadlocks as f64),
            decimal(r.wall_seconds, 1),
            decimal(r.speedup, 1),
            r.digest.clone(),
        ]
    };
    let rows = ordered(results).into_iter().map(row).collect();
    let meaning = "Consistent: conditions 1 to 4 of TPC-C's clause 3.3.2 held after the run. The digest depends on the \
                   arguments and the seed alone.";
    Section {
        title: "Consistency and digests".into(),
        blocks: vec![Block::Table(Table { columns, rows }), Block::Text(meaning.into())],
    }
}

fn notes(results: &[TpccResult]) -> Vec<String> {
    let mut notes = vec![
        format!("{NOT_A_TPC_RESULT}."),
        "Paper: FaCE (PVLDB 5(11), 2012), PostgreSQL with 500 warehouses (50 GB) and a Samsung 470 (MLC). Ours: the same \
         shares of a smaller database; compare ratios, not absolute tpmC."
            .into(),
    ];
    if let Some(best) = results.iter().max_by(|a, b| a.tpmC.total_cmp(&b.tpmC)) {
        let size =
            if has_cache(best) { format!(" with flash of {} %", best.flash_percent) } else { String::new() };
        notes.push(format!(
            "Highest throughput on {} over {}: {}{size}, {} tpmC.",
            best.flash_device,
            best.disk_device,
            best.system,
            whole(best.tpmC)
        ));
    }
    notes
}

fn configuration(results: &[TpccResult], extra: &[(String, String)]) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    if let Some(first) = results.first() {
        let pages = |pages: u64| format!("{} pages", whole(pages as f64));
        rows = vec![
            ("flash device".into(), first.flash_device.clone()),
            ("disk device".into(), first.disk_device.clone()),
            ("warehouses".into(), first.warehouses.to_string()),
            ("clients".into(), first.clients.to_string()),
            ("database".into(), pages(first.database_pages)),
            ("DRAM".into(), dram(first)),
            ("warm-up".into(), span("minutes", results.iter().map(|r| r.warmup_minutes))),
            ("measured".into(), span("minutes", results.iter().map(|r| r.virtual_minutes))),
            ("seed".into(), first.seed.to_string()),
        ];
    }
    rows.extend_from_slice(extra);
    rows
}

/// DRAM as it was: where the database is small and the clients are many, it is more than was asked for.
fn dram(result: &TpccResult) -> String {
    let actual = result.dram_pages as f64 / result.database_pages.max(1) as f64 * 100.0;
    let pages = whole(result.dram_pages as f64);
    let asked = result.dram_percent;
    if (actual / asked - 1.0).abs() < 0.05 {
        return format!("{pages} pages ({asked} % of the database)");
    }
    format!("{pages} pages ({actual:.2} % of the database; {asked} % would be too few for the clients)")
}

/// "3.0 minutes", or "1.5 to 3.0 minutes" where runs differ.
fn span(unit: &str, values: impl Iterator<Item = f64>) -> String {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = (decimal(low, 1), decimal(high, 1));
    if low == high { format!("{low} {unit}") } else { format!("{low} to {high} {unit}") }
}

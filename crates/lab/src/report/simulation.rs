//! The report of `simulate`: a row for each run, curves over the flash size, the warm-up, and who had what of
//! it.

use super::model::{Axis, Block, Chart, Column, Line, LineChart, Report, Section, Table};
use super::text::{NONE, decimal, estimates, or_none, percent, time_of, whole, with_half};
use crate::replay::{HalfWidths, SimulationResult};

/// Relations shown for each run.
const RELATIONS_SHOWN: usize = 12;

/// Builds the report. `results` are runs over one trace.
pub fn simulation_report(results: &[SimulationResult]) -> Report {
    let mut sections = vec![hits(results), times(results), wear(results)];
    sections.extend(curves(results));
    sections.extend(budgets(results));
    sections.extend(super::log_kept::section(results));
    sections.extend(warm_up(results));
    sections.extend(relations(results));
    Report {
        title: "Entresol: simulate".into(),
        answer: answer(results),
        notes: notes(results),
        configuration: configuration(results),
        sections,
    }
}

fn name(result: &SimulationResult) -> String {
    if result.flash_pages == 0 {
        format!("{} ({})", result.policy, result.replacement)
    } else {
        result.policy.clone()
    }
}

fn has_flash(result: &SimulationResult) -> bool {
    result.flash_pages > 0
}

/// A figure of the intervals of several samples.
fn half(result: &SimulationResult, show: impl Fn(&HalfWidths) -> String) -> Option<String> {
    result.half_widths().map(show)
}

/// A table of all runs: policy and sizes, then `columns`.
pub(super) fn table(
    results: &[SimulationResult],
    columns: Vec<Column>,
    cells: impl Fn(&SimulationResult) -> Vec<String>,
) -> Block {
    let heads = vec![
        Column::words("policy"),
        Column::words("mode"),
        Column::numbers("DRAM").under("pages"),
        Column::numbers("flash").under("pages"),
        Column::numbers("flash, %"),
    ];
    let row = |result: &SimulationResult| {
        let flash = |value: String| if has_flash(result) { value } else { NONE.into() };
        let mut row = vec![
            name(result),
            flash(super::log_kept::mode(result)),
            whole(result.dram_pages.into()),
            flash(whole(result.flash_pages.into())),
            flash(decimal(result.flash_percent, 2)),
        ];
        row.extend(cells(result));
        row
    };
    Block::Table(Table {
        columns: heads.into_iter().chain(columns).collect(),
        rows: results.iter().map(row).collect(),
    })
}

fn hits(results: &[SimulationResult]) -> Section {
    let columns = vec![
        Column::numbers("DRAM").under("hits, %"),
        Column::numbers("flash").under("hits, %"),
        Column::numbers("saved, %").under("disk writes"),
        Column::numbers("reads").under("flash pages"),
        Column::numbers("writes").under("flash pages"),
        Column::numbers("reads").under("disk pages"),
        Column::numbers("writes").under("disk pages"),
        Column::numbers("duplicates, %"),
    ];
    let cells = |r: &SimulationResult| {
        let flash = |value: String| if has_flash(r) { value } else { NONE.into() };
        vec![
            with_half(percent(r.dram_hit_rate), half(r, |half| percent(half.dram_hit_rate))),
            flash(with_half(percent(r.flash_hit_rate), half(r, |half| percent(half.flash_hit_rate)))),
            flash(with_half(percent(r.write_reduction), half(r, |half| percent(half.write_reduction)))),
            flash(whole(r.flash_reads as f64)),
            flash(with_half(whole(r.flash_writes as f64), half(r, |half| whole(half.flash_writes)))),
            with_half(whole(r.disk_reads as f64), half(r, |half| whole(half.disk_reads))),
            with_half(whole(r.disk_writes as f64), half(r, |half| whole(half.disk_writes))),
            flash(percent(r.duplicate_share)),
        ]
    };
    let meaning = "Flash hits: of DRAM's misses. Saved: 1 − disk writes / dirty evictions of DRAM. Duplicates: superseded \
                   versions of all occupied slots, at the end.";
    Section {
        title: "Hits and traffic".into(),
        blocks: vec![table(results, columns, cells), Block::Text(meaning.into())],
    }
}

fn times(results: &[SimulationResult]) -> Section {
    let columns = vec![
        Column::numbers("mean, µs").under("response"),
        Column::numbers("p99, µs").under("response"),
        Column::numbers("references/s"),
        Column::numbers("flash").under("utilisation, %"),
        Column::numbers("disk").under("utilisation, %"),
        Column::numbers("T_v, s"),
        Column::numbers("energy, J"),
        Column::numbers("price"),
    ];
    let cells = |r: &SimulationResult| {
        vec![
            with_half(decimal(r.mean_response_us, 1), half(r, |half| decimal(half.mean_response_us, 1))),
            whole(r.p99_response_us),
            whole(r.throughput),
            if has_flash(r) { percent(r.flash_utilisation) } else { NONE.into() },
            percent(r.disk_utilisation),
            decimal(r.tv_ms / 1e3, 2),
            or_none(r.energy_j, |joules| decimal(joules, 2)),
            or_none(r.money, |money| format!("{money:.3} {}", r.currency)),
        ]
    };
    let meaning = "Response: of a host request, hits included. T_v: device access times added up (3LA eq. 5). Energy: of \
                   DRAM and flash during T_v (3LA eq. 8). Price: of DRAM and flash.";
    Section {
        title: "Time, energy, money".into(),
        blocks: vec![table(results, columns, cells), Block::Text(meaning.into())],
    }
}

fn wear(results: &[SimulationResult]) -> Section {
    let columns = vec![
        Column::numbers("CLWA"),
        Column::numbers("FLWA"),
        Column::numbers("TWAF"),
        Column::numbers("collections"),
        Column::numbers("lifetime, years"),
        Column::numbers("second chances"),
        Column::words("decisions"),
    ];
    let cells = |r: &SimulationResult| {
        let flash = |value: String| if has_flash(r) { value } else { NONE.into() };
        vec![
            flash(decimal(r.clwa, 2)),
            or_none(r.flwa, |flwa| decimal(flwa, 2)),
            or_none(r.twaf, |twaf| decimal(twaf, 2)),
            or_none(r.gc_count.map(|count| count as f64), whole),
            or_none(r.flash_lifetime_years, |years| decimal(years, 2)),
            flash(whole(r.second_chances as f64)),
            flash(r.decision_hash.clone()),
        ]
    };
    let meaning = "CLWA: pages that the cache wrote by pages that the workload wrote; FLWA: pages that garbage collection \
                   copied by the same; TWAF: their sum (RW §2.3). Lifetime: of the whole flash device at its \
                   rated writes; all that the chip programs counts, garbage collection included.";
    Section {
        title: "Wear".into(),
        blocks: vec![table(results, columns, cells), Block::Text(meaning.into())],
    }
}

type Value = fn(&SimulationResult) -> f64;

/// Curves over the flash size, where there are several.
fn curves(results: &[SimulationResult]) -> Option<Section> {
    let mut sizes: Vec<u32> = results.iter().filter(|r| has_flash(r)).map(|r| r.flash_pages).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let charts: [(&str, &str, Value); 4] = [
        ("Flash hits of DRAM's misses", "flash hits, %", |r| r.flash_hit_rate * 100.0),
        ("Disk writes saved", "saved, %", |r| r.write_reduction * 100.0),
        ("Mean response", "µs", |r| r.mean_response_us),
        ("Pages written to flash", "pages", |r| r.flash_writes as f64),
    ];
    let blocks = charts.map(|(title, y_label, value)| {
        Block::Chart(Chart::Lines(LineChart {
            title: title.into(),
            x_label: "flash, % of the trace's pages".into(),
            y_label: y_label.into(),
            lines: policies(results).iter().map(|policy| line(results, policy, value)).collect(),
            axis: Axis::Even,
            in_terminal: false,
        }))
    });
    Some(Section { title: "Over the flash size".into(), blocks: blocks.to_vec() })
}

/// Budgets of writes to flash, and what became of them.
fn budgets(results: &[SimulationResult]) -> Option<Section> {
    let limited: Vec<_> = results.iter().filter(|r| r.write_budget.is_some()).cloned().collect();
    if limited.is_empty() {
        return None;
    }
    let columns = vec![
        Column::numbers("allowed").under("GB a day"),
        Column::numbers("written").under("GB a day"),
        Column::numbers("written, %"),
        Column::numbers("flash hits, %"),
    ];
    let gigabytes = |r: &SimulationResult| (r.write_budget.unwrap_or(0) as f64 / 1e9, r.written_per_day);
    let cells = |r: &SimulationResult| {
        let (allowed, written) = gigabytes(r);
        vec![
            decimal(allowed, 1),
            or_none(written, |written| decimal(written / 1e9, 1)),
            or_none(written, |written| percent(written / 1e9 / allowed)),
            percent(r.flash_hit_rate),
        ]
    };
    let mut blocks = vec![table(&limited, columns, cells)];
    let line = |(policy, mode): &(&str, &str)| {
        let of_policy = limited.iter().filter(|r| r.policy == *policy && r.mode == *mode);
        let mut points: Vec<_> = of_policy.map(|r| (gigabytes(r).0, r.flash_hit_rate * 100.0)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { series: (*policy).into(), paper: false, points }
    };
    if limited.iter().any(|r| r.write_budget != limited[0].write_budget) {
        blocks.push(Block::Chart(Chart::Lines(LineChart {
            title: "Flash hits within a budget of writes".into(),
            x_label: "GB written to flash a day".into(),
            y_label: "flash hits, %".into(),
            lines: policies(&limited).iter().map(line).collect(),
            axis: Axis::Powers,
            in_terminal: false,
        })));
    }
    Some(Section { title: "Budgets of writes to flash".into(), blocks })
}

/// Policies with flash, each with its mode where several ran.
fn policies(results: &[SimulationResult]) -> Vec<(&str, &str)> {
    let mut names: Vec<_> =
        results.iter().filter(|r| has_flash(r)).map(|r| (r.policy.as_str(), r.mode.as_str())).collect();
    names.dedup();
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(*name);
            true
        }
    });
    names
}

fn line(results: &[SimulationResult], (policy, mode): &(&str, &str), value: Value) -> Line {
    let mut points: Vec<_> = results
        .iter()
        .filter(|r| has_flash(r) && r.policy == *policy && r.mode == *mode && r.log.is_none())
        .map(|r| (r.flash_percent, value(r)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Line { series: (*policy).into(), paper: false, points }
}

/// Hit rates from the start of the runs at the largest flash size.
fn warm_up(results: &[SimulationResult]) -> Option<Section> {
    let largest = results.iter().map(|r| r.flash_pages).max()?;
    let shown: Vec<_> = results.iter().filter(|r| r.flash_pages == largest && r.warm_up.len() > 1).collect();
    if largest == 0 || shown.is_empty() {
        return None;
    }
    let line = |r: &&SimulationResult| Line {
        series: r.policy.clone(),
        paper: false,
        points: r.warm_up.iter().map(|point| (point[1] / 1e6, point[3] * 100.0)).collect(),
    };
    let chart = LineChart {
        title: format!("Flash hits while the cache fills, {} pages of flash", whole(largest.into())),
        x_label: "million references since the start".into(),
        y_label: "flash hits, %".into(),
        lines: shown.iter().map(line).collect(),
        axis: Axis::Even,
        in_terminal: true,
    };
    Some(Section { title: "Warm-up".into(), blocks: vec![Block::Chart(Chart::Lines(chart))] })
}

/// Who had what of it, in the run with the fewest disk reads.
fn relations(results: &[SimulationResult]) -> Option<Section> {
    let best = results.iter().filter(|r| !r.relations.is_empty()).min_by_key(|r| r.disk_reads)?;
    let columns = vec![
        Column::words("relation"),
        Column::numbers("references"),
        Column::numbers("DRAM").under("hits, %"),
        Column::numbers("flash").under("hits, %"),
        Column::numbers("disk reads"),
        Column::numbers("dirty evictions"),
    ];
    let row = |r: &crate::replay::RelationResult| {
        vec![
            r.relation.clone(),
            whole(r.references as f64),
            percent(r.dram_hit_rate),
            percent(r.flash_hit_rate),
            whole(r.disk_reads as f64),
            whole(r.dirty_evictions as f64),
        ]
    };
    let rows = best.relations.iter().take(RELATIONS_SHOWN).map(row).collect();
    let text = format!(
        "In the run with the fewest disk reads: {}, {} pages of flash.",
        name(best),
        whole(best.flash_pages.into())
    );
    Some(Section {
        title: "By relation".into(),
        blocks: vec![Block::Text(text), Block::Table(Table { columns, rows })],
    })
}

/// The run with the shortest response, and what it is without flash.
fn answer(results: &[SimulationResult]) -> Option<String> {
    let responses = || results.iter().filter(|r| r.mean_response_us.is_finite());
    let best = responses().min_by(|a, b| a.mean_response_us.total_cmp(&b.mean_response_us));
    let bare = responses().find(|r| !has_flash(r));
    let best = best?;
    let beside = bare
        .filter(|bare| has_flash(best) && bare.mean_response_us > 0.0)
        .map(|bare| format!("; without flash {}", time_of(bare.mean_response_us)));
    Some(format!(
        "Shortest mean response: {} with {} pages of flash, {}{}.",
        name(best),
        whole(best.flash_pages.into()),
        time_of(best.mean_response_us),
        beside.unwrap_or_default()
    ))
}

fn notes(results: &[SimulationResult]) -> Vec<String> {
    let mut notes = vec![
        "Decisions are those of the policies themselves; times are of a queueing model of the devices, in virtual time."
            .to_owned(),
    ];
    if let Some(sample) = results.first().and_then(|first| first.sample.as_ref()) {
        notes.push(format!(
            "{} They do not say what a small cache does otherwise than a large one: groups are smaller, and requests of several \
             pages are torn apart, which changes times.",
            estimates(sample.rate, sample.hashes)
        ));
    }
    notes.extend(results.iter().filter(|result| !result.forecasts.is_empty()).map(forecast));
    notes.extend(results.iter().filter(|result| !result.switches.is_empty()).map(switches));
    notes
}

/// How the policy of a run changed.
fn switches(result: &SimulationResult) -> String {
    let changes = result.switches.iter().map(|change| {
        format!(
            "to {} after {} misses of DRAM ({})",
            change.policy,
            whole(change.after_fetches as f64),
            change.why
        )
    });
    format!(
        "{} with {} pages of flash changed {}.",
        name(result),
        whole(result.flash_pages.into()),
        changes.collect::<Vec<_>>().join("; ")
    )
}

/// What the shadows of a run said.
fn forecast(result: &SimulationResult) -> String {
    let told = result.forecasts.iter().map(|told| {
        let size = if told.size_percent == 100 {
            String::new()
        } else {
            format!(" at {} % of the size", told.size_percent)
        };
        format!("{}{size} {} %", told.policy, decimal(told.flash_hit_rate * 100.0, 1))
    });
    format!(
        "Shadows of {} with {} pages of flash, which hit {} %: {}.",
        name(result),
        whole(result.flash_pages.into()),
        decimal(result.flash_hit_rate * 100.0, 1),
        told.collect::<Vec<_>>().join(", ")
    )
}

fn configuration(results: &[SimulationResult]) -> Vec<(String, String)> {
    let Some(first) = results.first() else { return Vec::new() };
    let flash = results.iter().find(|r| has_flash(r)).map_or(NONE.into(), |r| r.flash_device.clone());
    vec![
        ("trace".into(), first.trace.clone()),
        (
            "pages of the trace".into(),
            format!("{} of {} bytes", whole(first.trace_pages as f64), first.page_bytes),
        ),
        ("references measured".into(), whole(first.references as f64)),
        ("DRAM replacement".into(), first.replacement.clone()),
        ("flash device".into(), flash),
        ("disk device".into(), first.disk_device.clone()),
        ("memory".into(), first.memory.clone()),
        (
            "arrival".into(),
            match first.clients {
                0 => "at the times of the trace".into(),
                1 => "one client".into(),
                clients => format!("{clients} clients, closed loop"),
            },
        ),
    ]
}

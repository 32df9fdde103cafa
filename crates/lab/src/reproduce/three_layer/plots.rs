//! 3LA's figures in the paper's form.

use crate::paper::three_layer::{B_TABLE_2, FACTORS, POLICIES, Run, Workload};
use crate::report::{Axis, Bar, BarChart, BarGroup, Block, Chart, Line, LineChart, Section};

/// Plots of all workloads.
pub(super) fn sections(workloads: &[Workload]) -> Vec<Section> {
    let mut sections: Vec<Section> = workloads.iter().map(over_b).collect();
    if let Some(first) = workloads.first() {
        sections.push(accesses(first));
        sections.push(breakdown(first));
        sections.push(energy(first));
    }
    sections
}

fn bars(title: &str, charts: Vec<BarChart>) -> Section {
    let blocks = charts.into_iter().map(|chart| Block::Chart(Chart::Bars(chart))).collect();
    Section { title: title.into(), blocks }
}

/// Figures 2a, 3, 4 and 5: T_v over b.
fn over_b(workload: &Workload) -> Section {
    let line = |series: String, of: &dyn Fn(u32) -> Option<f64>| {
        let point = |b: u32| Some((f64::from(b), of(b)?));
        let points = workload.budgets().into_iter().filter_map(point).collect();
        Line { series, paper: false, points }
    };
    let mut lines = vec![line("2LA".into(), &|b| workload.two_layers(b).map(Run::tv_s))];
    for policy in POLICIES {
        for n in [2.0, 8.0] {
            let series = format!("{}, n = {n}", policy.name());
            lines.push(line(series, &|b| workload.at(b, Some(policy), n).map(Run::tv_s)));
        }
    }
    let chart = LineChart {
        title: format!("Virtual execution time, {}", workload.name),
        x_label: "money, as pages of DRAM (b)".into(),
        y_label: "T_v, s".into(),
        lines,
        axis: Axis::Doubling,
        in_terminal: true,
    };
    Section {
        title: format!("{}: T_v over b, {}", capitalised(workload.figure), workload.name),
        blocks: vec![Block::Chart(Chart::Lines(chart))],
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A group of bars for two layers, then for each algorithm and n.
fn groups(workload: &Workload, b: u32, bars: impl Fn(&Run) -> Vec<(&'static str, f64)>) -> Vec<BarGroup> {
    let group = |label: String, run: &Run| BarGroup {
        label,
        bars: bars(run).into_iter().map(|(series, value)| Bar { series: series.into(), value }).collect(),
    };
    let mut groups: Vec<BarGroup> =
        workload.two_layers(b).map(|run| group("2LA".into(), run)).into_iter().collect();
    for policy in POLICIES {
        let of_n = |n: &f64| {
            workload.at(b, Some(policy), *n).map(|run| group(format!("{}, n={n}", policy.name()), run))
        };
        groups.extend(FACTORS.iter().filter_map(of_n));
    }
    groups
}

/// Figure 2b: accesses to devices.
fn accesses(workload: &Workload) -> Section {
    let chart = BarChart {
        title: format!("Device accesses, b = {B_TABLE_2}, by algorithm and n"),
        y_label: "thousand pages".into(),
        groups: groups(workload, B_TABLE_2, |run| {
            let thousands = |pages: u64| pages as f64 / 1e3;
            vec![
                ("flash reads", thousands(run.result.flash_reads)),
                ("flash writes", thousands(run.result.flash_writes)),
                ("disk reads", thousands(run.result.disk_reads)),
                ("disk writes", thousands(run.result.disk_writes)),
            ]
        }),
    };
    bars("Figure 2b: device accesses", vec![chart])
}

/// Figure 6a: the shares of the time.
fn breakdown(workload: &Workload) -> Section {
    let chart = BarChart {
        title: format!("Device times, b = {} (flash for all pages), by algorithm and n", workload.b_all),
        y_label: "seconds".into(),
        groups: groups(workload, workload.b_all, |run| {
            vec![("flash", run.result.tf_ms / 1e3), ("disk", run.result.td_ms / 1e3)]
        }),
    };
    bars("Figure 6a: device times where flash holds all pages", vec![chart])
}

/// Figure 6b: energy by 2LA's.
fn energy(workload: &Workload) -> Section {
    let chart = |b: u32| {
        let two = workload.two_layers(b).map_or(f64::NAN, Run::energy_j);
        BarChart {
            title: format!("Energy, b = {b}, by algorithm and n"),
            y_label: "% of 2LA's".into(),
            groups: groups(workload, b, |run| vec![("energy", run.energy_j() / two * 100.0)]),
        }
    };
    bars("Table 2, figure 6b: energy", vec![chart(B_TABLE_2), chart(workload.b_all)])
}

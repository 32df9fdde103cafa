//! The kernel's caches and ours, in turn, in one boot of a guest: the same loads on the same two virtual
//! disks, both limited to so many requests a second. `benches/guest/peers.py` runs in the guest.
//!
//! A round measures every peer once, in an order that each round rotates. With `--power-cuts` the guest is
//! also killed while a peer is written to. The next boot opens the cache, and reads every block.

use crate::block::guest::{Guest, Job, KernelArgs, Monitor, Power, need_guest};
use crate::block::rig::{Filled, Rig, make_file};
use crate::report::write_json;
use anyhow::{Context, Result, bail};
use clap::Args;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(super) struct PeersArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Rounds of measurements.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The number of the first round, which decides its order and its seeds.
    #[arg(long, default_value_t = 0)]
    first: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    /// Requests a second of the disk.
    #[arg(long, default_value_t = 150)]
    disk_iops: u64,
    /// Requests a second of the flash.
    #[arg(long, default_value_t = 1500)]
    flash_iops: u64,
    /// Size of the disk, MiB; the flash has a quarter of it.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Some of the peers, separated by `|`.
    #[arg(long, value_delimiter = '|', default_values_t = PEERS.map(str::to_owned))]
    peers: Vec<String>,
    /// Some of the loads, separated by `|` [default: all].
    #[arg(long, value_delimiter = '|')]
    loads: Vec<String>,
    /// Cuts the power under each peer, too, after so many synced writes.
    #[arg(long, value_name = "WRITES", default_value_t = 0)]
    power_cuts: u64,
    /// More measurements of other runs, of `--json`: the tables are of all.
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Draws the rates as bars in an SVG file.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
}

/// Those of the table. `ours` alone is with the policy that `volume create` takes.
const PEERS: [&str; 14] = [
    "raw",
    "dm-cache wt",
    "bcache wt",
    "bcache wt, no bypass",
    "ours wt",
    "ours wt, nbd",
    "ours wt, sce",
    "dm-cache wb",
    "dm-writecache wb",
    "bcache wb",
    "bcache wb, no bypass",
    "ours wb",
    "ours wb, nbd",
    "ours wb, reuse",
];

/// While the cache fills, both devices are so many times as quick: their relation is the same.
const WARM_TIMES: u64 = 10;

/// One line of the guest.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Measured {
    peer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    load: Option<String>,
    /// Requests a second.
    #[serde(default)]
    rate: f64,
    #[serde(default)]
    p99_ms: f64,
    /// Of each request: reads, bytes read, writes, bytes written, flushes.
    #[serde(default)]
    disk: Vec<f64>,
    #[serde(default)]
    flash: Vec<f64>,
    /// Memory that the peer has taken since it began, and bytes that only flash has, at the round's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dram_kib: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dirty: Option<u64>,
    /// After a power failure: seconds to open the cache, and blocks without what was synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opened_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks_wrong: Option<u64>,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &PeersArgs,
    json: Option<&Path>,
) -> Result<()> {
    let mut all = Vec::new();
    for file in &arguments.with {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        all.extend(serde_json::from_str::<Vec<Measured>>(&text)?);
    }
    if arguments.rounds > 0 || arguments.power_cuts > 0 {
        need_guest(&[
            ("fio", "fio"),
            ("dmsetup", "dmsetup"),
            ("make-bcache", "bcache-tools"),
            ("nbd-client", "nbd-client"),
        ])?;
        run(&rig()?, arguments, &mut all)?;
    }
    write_json(json, &all)?;
    println!("{}", tables(&all));
    arguments.chart.as_deref().map_or(Ok(()), |file| draw(file, &all))
}

fn run(rig: &Rig, arguments: &PeersArgs, all: &mut Vec<Measured>) -> Result<()> {
    for (name, mib) in [("disk", arguments.mib), ("flash", arguments.mib / 4), ("state", 64)] {
        make_file(&rig.file(name), mib, Filled::Zeros)?;
    }
    let variables = [
        ("peers", arguments.peers.join("|")),
        ("loads", arguments.loads.join("|")),
        ("rounds", arguments.rounds.to_string()),
        ("first", arguments.first.to_string()),
        ("seconds", arguments.seconds.to_string()),
    ];
    if arguments.rounds > 0 {
        let guest = guest(rig, arguments, "rounds", &variables)?;
        println!("Linux {}", guest.version);
        guest.run(|line, monitor| heard(line, monitor, arguments, all).map(|_| Power::On))?;
    }
    for peer in arguments.peers.iter().filter(|peer| arguments.power_cuts > 0 && *peer != "raw") {
        let mut variables = variables.to_vec();
        variables.push(("peer", peer.clone()));
        let mut synced = 0;
        guest(rig, arguments, "before", &variables)?.run(|line, monitor| {
            synced = heard(line, monitor, arguments, all)?.unwrap_or(synced);
            Ok(if synced >= arguments.power_cuts { Power::Off } else { Power::On })
        })?;
        println!("{peer}: power cut after {synced} synced writes");
        variables.push(("synced", synced.to_string()));
        guest(rig, arguments, "after", &variables)?
            .run(|line, monitor| heard(line, monitor, arguments, all).map(|_| Power::On))?;
    }
    Ok(())
}

fn guest<'a>(
    rig: &'a Rig,
    arguments: &PeersArgs,
    what: &str,
    variables: &[(&str, String)],
) -> Result<Guest<'a>> {
    let modules = ["dm_cache", "dm_cache_smq", "dm_writecache", "bcache", "nbd", "ublk_drv"];
    let call = format!("python3 /mnt/repository/benches/guest/peers.py {what}");
    let drives = ["disk", "flash", "state"];
    Guest::new(rig, &arguments.kernel, &Job { modules: &modules, call: &call, variables, drives: &drives })
}

/// A line of the guest for the host: how many writes are synced, if it says that.
fn heard(
    line: &str,
    monitor: &mut Monitor,
    arguments: &PeersArgs,
    all: &mut Vec<Measured>,
) -> Result<Option<u64>> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match (word, rest) {
        ("throttle", "on") => throttle(monitor, arguments.disk_iops, arguments.flash_iops)?,
        ("throttle", "warm") => {
            throttle(monitor, WARM_TIMES * arguments.disk_iops, WARM_TIMES * arguments.flash_iops)?
        }
        ("throttle", "off") => throttle(monitor, 0, 0)?,
        ("result", json) => {
            let measured: Measured =
                serde_json::from_str(json).with_context(|| format!("not a result: {json}"))?;
            if let Some(load) = &measured.load {
                println!("{}: {load}: {:.0}/s, p99 {:.1} ms", measured.peer, measured.rate, measured.p99_ms);
            }
            all.push(measured);
        }
        ("synced", number) => return Ok(Some(number.parse()?)),
        _ => bail!("the guest says: {line}"),
    }
    Ok(None)
}

fn throttle(monitor: &mut Monitor, disk: u64, flash: u64) -> Result<()> {
    monitor.throttle(0, disk)?;
    monitor.throttle(1, flash)
}

/// Different values, in the order in which they come.
fn names<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The middle one of some numbers, and the least and the greatest.
fn middle(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let half = values.len() / 2;
    let middle =
        if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) };
    Some((middle, least, most))
}

/// The peers and loads of some measurements, and what a peer had under a load.
struct Cells<'a> {
    all: &'a [Measured],
    peers: Vec<&'a str>,
    loads: Vec<&'a str>,
}

impl<'a> Cells<'a> {
    fn of(all: &'a [Measured]) -> Self {
        let ordered = PEERS.iter().copied().filter(|peer| all.iter().any(|one| one.peer == *peer));
        let peers = names(ordered.chain(all.iter().map(|one| one.peer.as_str())));
        Self { all, peers, loads: names(all.iter().filter_map(|one| one.load.as_deref())) }
    }

    fn cell(&self, peer: &str, load: &str, figure: impl Fn(&Measured) -> f64) -> Option<(f64, f64, f64)> {
        let of_it = self.all.iter().filter(|one| one.peer == peer && one.load.as_deref() == Some(load));
        middle(of_it.map(figure).collect())
    }

    fn table(&self, title: &str, figure: impl Fn(&Measured) -> f64 + Copy, digits: usize) -> String {
        let mut text = format!(
            "{title}\n\n| | {} |\n|---|{}\n",
            self.loads.join(" | "),
            "---|".repeat(self.loads.len())
        );
        for peer in &self.peers {
            let cells = self.loads.iter().map(|load| match self.cell(peer, load, figure) {
                Some((middle, least, most)) if most > least => {
                    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
                }
                Some((middle, ..)) => format!("{middle:.digits$}"),
                None => String::new(),
            });
            text += &format!("| {peer} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        text
    }

    /// Ours with its usual policy by ublk, compared with the best of the other caches of that mode.
    fn verdicts(&self, mode: &str) -> String {
        let ours = format!("ours {mode}");
        let is_other = |peer: &str| !peer.starts_with("ours") && peer.contains(&format!(" {mode}"));
        let others: Vec<_> = self.peers.iter().copied().filter(|peer| is_other(peer)).collect();
        let mut text =
            format!("Ours, {mode}, compared with the best of the others (a tie: the intervals overlap)\n\n");
        text += "| load | ours | the best of the others | ratio | |\n|---|---|---|---|---|\n";
        for load in &self.loads {
            let Some(own) = self.cell(&ours, load, |one| one.rate) else { continue };
            let of_others =
                others.iter().filter_map(|peer| Some((*peer, self.cell(peer, load, |one| one.rate)?)));
            let Some((peer, best)) = of_others.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { continue };
            let verdict = match () {
                () if own.1 > best.2 => "first",
                () if own.2 < best.1 => "behind",
                () => "a tie",
            };
            text += &format!(
                "| {load} | {:.0} | {peer}: {:.0} | {:.2} | {verdict} |\n",
                own.0,
                best.0,
                own.0 / best.0
            );
        }
        text
    }

    /// At the ends of rounds, and after power failures.
    fn ends(&self) -> String {
        let mut text = String::from("| | DRAM, MiB | newer on flash, MiB |\n|---|---|---|\n");
        for peer in &self.peers {
            let of_it = || self.all.iter().filter(|one| one.peer == *peer);
            let dram =
                middle(of_it().filter_map(|one| one.dram_kib).map(|kib| kib as f64 / 1024.0).collect());
            let dirty =
                middle(of_it().filter_map(|one| one.dirty).map(|bytes| bytes as f64 / 1048576.0).collect());
            if let (Some(dram), Some(dirty)) = (dram, dirty) {
                text += &format!("| {peer} | {:.1} | {:.1} |\n", dram.0, dirty.0);
            }
        }
        text += "\n| after a power failure | open, s | clustered reads/s | blocks compared | wrong |\n|---|---|---|---|---|\n";
        for one in self.all {
            if let (Some(opened), Some(blocks), Some(wrong)) = (one.opened_s, one.blocks, one.blocks_wrong) {
                text += &format!("| {} | {opened:.2} | {:.0} | {blocks} | {wrong} |\n", one.peer, one.rate);
            }
        }
        text
    }
}

fn tables(all: &[Measured]) -> String {
    let cells = Cells::of(all);
    let each = |title: &str, of: fn(&Measured) -> &Vec<f64>| {
        cells.table(
            title,
            move |one| {
                let it = of(one);
                it.first().unwrap_or(&0.0) + it.get(2).unwrap_or(&0.0)
            },
            2,
        )
    };
    [
        cells.table("Requests a second: the median of the rounds, and their range", |one| one.rate, 0),
        cells.table("99th percentile, ms", |one| one.p99_ms, 0),
        each("Requests to the disk for each", |one| &one.disk),
        each("Requests to the flash for each", |one| &one.flash),
        cells.verdicts("wt"),
        cells.verdicts("wb"),
        cells.ends(),
    ]
    .join("\n")
}

/// A panel for each load, a bar for each peer.
fn draw(file: &Path, all: &[Measured]) -> Result<()> {
    try_draw(file, &Cells::of(all))
        .map_err(|error| anyhow::anyhow!("{} cannot be drawn: {error}", file.display()))
}

fn try_draw(file: &Path, cells: &Cells<'_>) -> Result<(), Box<dyn std::error::Error>> {
    const PANEL: (u32, u32) = (460, 300);
    let rows = cells.loads.len().div_ceil(2).max(1);
    let root = SVGBackend::new(file, (2 * PANEL.0, rows as u32 * PANEL.1)).into_drawing_area();
    root.fill(&WHITE)?;
    for (panel, load) in root.split_evenly((rows, 2)).iter().zip(&cells.loads) {
        let rates: Vec<_> = cells.peers.iter().map(|peer| cells.cell(peer, load, |one| one.rate)).collect();
        let most = rates.iter().flatten().map(|rate| rate.2).fold(1.0, f64::max) * 1.1;
        let bars = rates.len() as f64;
        let mut chart = ChartBuilder::on(panel)
            .caption(format!("{load}, requests/s"), ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(130)
            .build_cartesian_2d(0.0..most, 0.0..bars)?;
        chart.configure_mesh().disable_y_mesh().y_labels(0).x_labels(5).draw()?;
        for (at, rate) in rates.iter().enumerate() {
            let low = bars - at as f64 - 1.0;
            let peer = cells.peers[at];
            let color =
                if peer.starts_with("ours") { RGBColor(0, 114, 178) } else { RGBColor(150, 150, 150) };
            if let Some((middle, least, most)) = rate {
                let bar = Rectangle::new([(0.0, low + 0.15), (*middle, low + 0.85)], color.filled());
                let range = PathElement::new([(*least, low + 0.5), (*most, low + 0.5)], BLACK);
                chart.plotting_area().draw(&bar)?;
                chart.plotting_area().draw(&range)?;
            }
            let (_, y) = chart.plotting_area().map_coordinate(&(0.0, low + 0.5));
            let style = ("sans-serif", 12).into_font().color(&BLACK);
            root.draw(&Text::new(peer, (panel.get_pixel_range().0.start + 6, y - 6), style))?;
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Measured, middle, tables};

    fn measured(peer: &str, round: u32, rate: f64) -> Measured {
        let line =
            format!(r#"{{"peer": "{peer}", "round": {round}, "load": "zipf", "rate": {rate}, "p99_ms": 2}}"#);
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn the_middle_of_an_even_number_of_rounds_is_between_two() {
        assert_eq!(middle(vec![4.0, 1.0, 2.0]), Some((2.0, 1.0, 4.0)));
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(middle(Vec::new()), None);
    }

    #[test]
    fn ours_is_first_only_if_the_intervals_do_not_overlap() {
        let rounds = |ours: [f64; 2], theirs: [f64; 2]| {
            let own = ours.iter().enumerate().map(|(round, rate)| measured("ours wb", round as u32, *rate));
            let other =
                theirs.iter().enumerate().map(|(round, rate)| measured("bcache wb", round as u32, *rate));
            tables(&own.chain(other).collect::<Vec<_>>())
        };
        assert!(rounds([110.0, 120.0], [90.0, 100.0]).contains("| 1.21 | first |"));
        assert!(rounds([95.0, 120.0], [90.0, 100.0]).contains("| a tie |"));
        assert!(rounds([80.0, 85.0], [90.0, 100.0]).contains("| 0.87 | behind |"));
    }
}

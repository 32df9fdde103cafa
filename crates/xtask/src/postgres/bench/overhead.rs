//! `bench overhead`: what the patches and the cache cost a server that has everything in DRAM.
//!
//! Three servers run at once: PostgreSQL as it is, the patched one without a module, and the patched one with
//! a flash cache. In each round every server is measured once, in turn, the first one being another each
//! time; a round's ratios are of neighbours in time, and their median is shown.

use super::Rig;
use super::throttled::flash;
use crate::postgres::build::Build;
use crate::postgres::server::Server;
use crate::programs::output;
use crate::report::{Mean, write_json};
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct OverheadArgs {
    /// Rounds.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// pgbench's scale: 15 MB each.
    #[arg(long, default_value_t = 10)]
    scale: u32,
    /// Connections.
    #[arg(long, default_value_t = 2)]
    clients: u32,
    /// Leaves out PostgreSQL without patches, which is built for this, once.
    #[arg(long)]
    no_stock: bool,
}

const SETTINGS: &str = "
shared_buffers = 512MB
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
bgwriter_lru_maxpages = 0
synchronous_commit = off
";

/// pgbench's work.
const WORKS: [(&str, &[&str]); 2] = [("select", &["-S"]), ("tpcb", &[])];

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Point {
    pub transactions: f64,
    pub per_second: f64,
    /// Processor time of the server's processes for each transaction.
    pub cpu_us: f64,
}

/// A work, a server and its points, by rounds.
#[derive(Debug, Serialize)]
struct Series {
    work: &'static str,
    server: &'static str,
    points: Vec<Point>,
}

pub(super) fn measure(rig: &Rig, arguments: &OverheadArgs) -> Result<()> {
    let stock = if arguments.no_stock { None } else { Some(rig.build.stock()?) };
    let flash = flash(rig, 256)?;
    let cache =
        format!("shared_preload_libraries = 'entresol'\nentresol.flash = '{}'\n", flash.device().display());
    let mut servers = vec![
        ("off", start(rig, &rig.build, "overhead off", "", arguments)?),
        ("on", start(rig, &rig.build, "overhead on", &cache, arguments)?),
    ];
    if let Some(stock) = &stock {
        servers.push(("stock", start(rig, stock, "overhead stock", "", arguments)?));
    }
    let mut all: Vec<Series> = Vec::new();
    for (work, _) in WORKS {
        for (server, _) in &servers {
            all.push(Series { work, server, points: Vec::new() });
        }
    }
    for round in 0..arguments.rounds {
        for (work, options) in WORKS {
            for at in 0..servers.len() {
                let (name, server) = &servers[(at + round as usize) % servers.len()];
                let point = once(server, options, arguments.clients, arguments.seconds)?;
                let series = all.iter_mut().find(|series| series.work == work && series.server == *name);
                series.context("a series for each")?.points.push(point);
            }
        }
        write_json(rig.json.as_deref(), &all)?;
    }
    summary(&all);
    Ok(())
}

fn start<'a>(
    rig: &'a Rig,
    build: &'a Build,
    name: &str,
    more: &str,
    arguments: &OverheadArgs,
) -> Result<Server<'a>> {
    let server = Server::start(build, &rig.user, name, &["-k"], &format!("{SETTINGS}{more}"))?;
    prepare(&server, arguments.scale)?;
    // Every page is in shared buffers, and every backend's catalogue caches are as the next one's.
    server.query(
        "CREATE EXTENSION pg_prewarm; SELECT sum(pg_prewarm(oid)) FROM pg_class WHERE relkind IN ('r', 'i')",
    )?;
    Ok(server)
}

/// pgbench's tables, so that nothing is left to do to them.
pub(super) fn prepare(server: &Server<'_>, scale: u32) -> Result<()> {
    output(server.client("pgbench").args(["-i", "-q", "-s", &scale.to_string()]))?;
    server.query("VACUUM FREEZE ANALYZE")?;
    server.query("CHECKPOINT").map(drop)
}

/// One measurement of pgbench with these options.
pub(super) fn once(server: &Server<'_>, options: &[&str], clients: u32, seconds: u32) -> Result<Point> {
    let before = cpu_us(server)?;
    let mut pgbench = server.client("pgbench");
    pgbench.args(["-n", "-M", "prepared", "-c", &clients.to_string()]);
    let said = output(pgbench.args(options).args(["-T", &seconds.to_string()]))?;
    let spent = cpu_us(server)? - before;
    let line = |start: &str| -> Result<f64> {
        let found = said.lines().find_map(|line| line.strip_prefix(start)).context("pgbench's report")?;
        Ok(found.split([' ', '/']).next().unwrap_or_default().parse()?)
    };
    let transactions = line("number of transactions actually processed: ")?;
    Ok(Point { transactions, per_second: line("tps = ")?, cpu_us: spent / transactions })
}

/// Processor time of the postmaster, of its children, and of those that have ended.
fn cpu_us(server: &Server<'_>) -> Result<f64> {
    let (postmaster, children) = (server.postmaster()?, server.children("pid=")?);
    let mut ticks = stat(&postmaster, 13..17)?;
    for child in children.split_whitespace() {
        // It may have ended: then the postmaster has its time.
        ticks += stat(child, 13..15).unwrap_or(0);
    }
    let per_second: f64 = output(Command::new("getconf").arg("CLK_TCK"))?.parse()?;
    Ok(ticks as f64 * 1e6 / per_second)
}

/// The sum of some fields of `/proc/PID/stat`, counted from 0.
fn stat(pid: &str, fields: std::ops::Range<usize>) -> Result<u64> {
    let text = fs::read_to_string(Path::new("/proc").join(pid).join("stat"))?;
    // The name, which may have spaces, is in parentheses.
    let rest = text.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    let values: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    Ok(values.get(fields.start - 2..fields.end - 2).context("a short line")?.iter().sum())
}

/// The median of the ratios of two series, in per cent, and what it lies between with 95 %. That interval
/// assumes nothing of how other work on the machine spreads them: it is that of the sign test.
fn ratio(one: &Series, other: &Series, of: fn(&Point) -> f64) -> (f64, f64, f64) {
    let mut ratios: Vec<f64> = one
        .points
        .iter()
        .zip(&other.points)
        .map(|(one, other)| 100.0 * (of(one) / of(other) - 1.0))
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let Some(last) = ratios.len().checked_sub(1) else { return (f64::NAN, f64::NAN, f64::NAN) };
    let median = (ratios[last / 2] + ratios[last.div_ceil(2)]) / 2.0;
    let low = outside(ratios.len());
    (median, ratios[low], ratios[last - low])
}

/// Of `n` sorted values, how many may be left out at each end: the median lies between the others with 95 %.
fn outside(n: usize) -> usize {
    let (mut below, mut each, mut out) = (0.0, 0.5_f64.powi(n as i32), 0);
    loop {
        below += each;
        if below > 0.025 || out + 1 >= n.div_ceil(2) {
            return out.saturating_sub(1);
        }
        each *= (n - out) as f64 / (out + 1) as f64;
        out += 1;
    }
}

fn summary(all: &[Series]) {
    println!("| work | server | transactions/s | CPU µs each |");
    println!("|---|---|---|---|");
    for series in all {
        let mean = |of: fn(&Point) -> f64| Mean::of(&series.points.iter().map(of).collect::<Vec<_>>());
        let (rate, cpu) = (mean(|point| point.per_second), mean(|point| point.cpu_us));
        println!(
            "| {} | {} | {:.0} ± {:.0} | {:.1} ± {:.1} |",
            series.work, series.server, rate.mean, rate.deviation, cpu.mean, cpu.deviation
        );
    }
    println!("\n| work | | transactions/s | CPU each |");
    println!("|---|---|---|---|");
    let find = |work: &str, server: &str| all.iter().find(|one| one.work == work && one.server == server);
    for (work, _) in WORKS {
        for (one, other) in [("on", "off"), ("off", "stock"), ("on", "stock")] {
            let (Some(first), Some(second)) = (find(work, one), find(work, other)) else { continue };
            let (rate, rate_low, rate_high) = ratio(first, second, |point| point.per_second);
            let (cpu, low, high) = ratio(first, second, |point| point.cpu_us);
            println!(
                "| {work} | {one} against {other} | {rate:+.1} % ({rate_low:+.1} to {rate_high:+.1}) \
                 | {cpu:+.1} % ({low:+.1} to {high:+.1}) |"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::outside;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // From tables of the sign test: the ranks of the interval's ends, from 1.
        for (n, rank) in [(6, 1), (10, 2), (20, 6), (30, 10), (50, 18)] {
            assert_eq!(outside(n) + 1, rank, "{n}");
        }
        assert_eq!(outside(1), 0);
    }
}

//! `bench hits`: backends that find every page on flash, one and more at a time, and what they wait for.
//!
//! Two servers with few shared buffers run at once: one with a flash cache that has the whole database, and
//! one that reads its files. In each round each is measured once with each number of connections. The kernel
//! has the files of both in its own cache, so the second is the fastest that a disk could be.

use super::Rig;
use super::overhead::{Point, once, prepare};
use super::throttled::flash;
use crate::device::Loop;
use crate::postgres::server::Server;
use crate::report::{Mean, write_json};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct HitsArgs {
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// pgbench's scale: 15 MB each.
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    clients: Vec<u32>,
    /// The flash: a file that is made and removed, as on a tmpfs, or a device [default: a loop device over a
    /// file on the machine's disk].
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
}

const SETTINGS: &str = "
shared_buffers = 1MB
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
";

/// A server with a number of connections.
#[derive(Debug, Serialize)]
struct Series {
    server: &'static str,
    clients: u32,
    points: Vec<Point>,
    /// Pages that were read from the cache, by a transaction.
    hits: Vec<f64>,
    /// Pages that it did not have, by a transaction.
    misses: Vec<f64>,
}

pub(super) fn measure(rig: &Rig, arguments: &HitsArgs) -> Result<()> {
    let mib = u64::from(arguments.scale) * 40 + 64;
    let device = if arguments.flash.is_none() { Some(flash(rig, mib)?) } else { None };
    let flash = device.as_ref().map(Loop::device).or(arguments.flash.as_deref()).context("a flash")?;
    let made = (!flash.exists()).then_some(flash);
    let size = made.map_or("0".to_owned(), |_| format!("{mib}MB"));
    let cache = format!(
        "shared_preload_libraries = 'entresol'\nentresol.flash = '{}'\nentresol.size = {size}\n",
        flash.display()
    );
    let start = |name: &str, more: &str| {
        let server = Server::start(&rig.build, &rig.user, name, &["-k"], &format!("{SETTINGS}{more}"))?;
        prepare(&server, arguments.scale)?;
        Ok::<_, anyhow::Error>(server)
    };
    let servers = [("flash", start("hits flash", &cache)?), ("files", start("hits files", "")?)];
    let brought = servers[0].1.query(
        "CREATE EXTENSION entresol; SELECT entresol_prewarm('pgbench_accounts') + entresol_prewarm('pgbench_accounts_pkey')",
    )?;
    println!("{brought} pages were brought to flash");
    let mut all: Vec<Series> = Vec::new();
    for round in 0..arguments.rounds {
        for clients in &arguments.clients {
            for at in 0..2 {
                let (name, server) = &servers[(at + round as usize) % 2];
                add(&mut all, name, *clients, server, arguments)?;
            }
        }
        write_json(rig.json.as_deref(), &all)?;
    }
    if let Some(made) = made {
        servers[0].1.stop_at_once()?;
        fs::remove_file(made)?;
    }
    summary(&all)
}

/// Measures `server` once more.
fn add(
    all: &mut Vec<Series>,
    name: &'static str,
    clients: u32,
    server: &Server<'_>,
    arguments: &HitsArgs,
) -> Result<()> {
    let counters = || -> Result<[f64; 2]> {
        if name == "files" {
            return Ok([0.0; 2]);
        }
        let said = server.query("SELECT flash_hits + staging_hits, misses FROM entresol_stat")?;
        let (hits, misses) = said.split_once('|').context("two counters")?;
        Ok([hits.parse()?, misses.parse()?])
    };
    let before = counters()?;
    let point = once(server, &["-S"], clients, arguments.seconds)?;
    let after = counters()?;
    let transactions = point.transactions;
    let at = all.iter().position(|series| series.server == name && series.clients == clients);
    let at = at.unwrap_or_else(|| {
        all.push(Series { server: name, clients, points: vec![], hits: vec![], misses: vec![] });
        all.len() - 1
    });
    all[at].points.push(point);
    all[at].hits.push((after[0] - before[0]) / transactions);
    all[at].misses.push((after[1] - before[1]) / transactions);
    Ok(())
}

fn summary(all: &[Series]) -> Result<()> {
    println!("| server | connections | transactions/s | CPU µs each | hits each | misses each |");
    println!("|---|---|---|---|---|---|");
    for series in all {
        let of = |what: fn(&Point) -> f64| Mean::of(&series.points.iter().map(what).collect::<Vec<_>>());
        let (rate, cpu) = (of(|point| point.per_second), of(|point| point.cpu_us));
        let (hits, misses) = (Mean::of(&series.hits).mean, Mean::of(&series.misses).mean);
        println!(
            "| {} | {} | {:.0} ± {:.0} | {:.1} ± {:.1} | {hits:.3} | {misses:.4} |",
            series.server, series.clients, rate.mean, rate.deviation, cpu.mean, cpu.deviation
        );
        if series.server == "flash" && misses > 0.01 * hits {
            bail!("of {hits:.3} pages of a transaction {misses:.4} were not on flash: this was not measured");
        }
    }
    Ok(())
}

//! `bench scans`: scans that find every page on flash, with as many reads under way as PostgreSQL 18 asks
//! for.
//!
//! Two servers with few shared buffers, which read and write past the kernel's cache: one whose pages are all
//! in the flash cache, and one whose files are on a device of the same kind. Each is measured in turn with
//! each of its settings. The depth is the mean number of requests that the device has under way while it has
//! any.

use super::Rig;
use super::disk::Disk;
use super::throttled::flash;
use crate::postgres::server::Server;
use crate::programs::output;
use crate::report::{Mean, write_json};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct ScansArgs {
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// MB of the table.
    #[arg(long, default_value_t = 400)]
    megabytes: u64,
    /// I/O method of the servers.
    #[arg(long, default_value = "worker")]
    io_method: String,
}

const SETTINGS: &str = "
shared_buffers = 16MB
debug_io_direct = data
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
max_parallel_workers_per_gather = 0
";

/// Rows of a MB: eight in each of 128 pages.
const ROWS_PER_MB: u64 = 1000;

/// The scans, by what they turn off. A bitmap has an eighth of the pages, which are seldom adjacent.
const SCANS: [(&str, &str, &str); 2] = [
    (
        "sequential",
        "SET enable_indexscan = off; SET enable_bitmapscan = off",
        "SELECT count(filler) FROM scanned",
    ),
    (
        "bitmap heap",
        "SET enable_indexscan = off; SET enable_seqscan = off",
        "SELECT count(filler) FROM scanned WHERE key < ROWS / 60",
    ),
];

/// Where pages are, and with which settings.
struct Case {
    server: &'static str,
    /// Of the report.
    setting: &'static str,
    /// Said by the session before the scan.
    session: &'static str,
    /// `io_method = sync`, whatever the arguments say.
    is_sync: bool,
}

const CASES: [Case; 5] = [
    Case { server: "flash", setting: "", session: "", is_sync: false },
    Case { server: "flash", setting: ONE_BLOCK, session: SET_ONE_BLOCK, is_sync: false },
    Case { server: "flash", setting: "io_method = sync", session: "", is_sync: true },
    Case { server: "files", setting: "", session: "", is_sync: false },
    Case { server: "files", setting: ONE_BLOCK, session: SET_ONE_BLOCK, is_sync: false },
];

const ONE_BLOCK: &str = "io_combine_limit = 1";
const SET_ONE_BLOCK: &str = "SET io_combine_limit = 1; ";

/// A case, on one scan.
#[derive(Debug, Serialize)]
struct Series {
    scan: &'static str,
    server: &'static str,
    setting: &'static str,
    milliseconds: Vec<f64>,
    depth: Vec<f64>,
}

pub(super) fn measure(rig: &Rig, arguments: &ScansArgs) -> Result<()> {
    if rig.build.version().major < 18 {
        bail!("PostgreSQL {} reads nothing asynchronously; name version 18", rig.build.version());
    }
    let device = flash(rig, arguments.megabytes * 2 + 256)?;
    let disk = Disk::new(&rig.folder, arguments.megabytes * 2 + 1024)?;
    rig.user.own(disk.folder())?;
    let cached = cached(rig, arguments, device.device())?;
    let files = on_disk(rig, arguments, &disk)?;

    let mut all: Vec<Series> = Vec::new();
    let rows = (arguments.megabytes * ROWS_PER_MB).to_string();
    for round in 0..arguments.rounds {
        for case in &CASES {
            let (server, device) = match case.server {
                "flash" => (&cached, device.device()),
                _ => (&files, disk.device()),
            };
            server.stop()?;
            server.set("io_method", if case.is_sync { "sync" } else { &arguments.io_method })?;
            server.start_again()?;
            for (scan, plan, statement) in SCANS {
                let before = format!("{}{plan}", case.session);
                add(&mut all, scan, case, once(server, device, &before, &statement.replace("ROWS", &rows))?);
            }
        }
        println!("round {}", round + 1);
        write_json(rig.json.as_deref(), &all)?;
    }
    let misses: u64 = cached.query("SELECT misses FROM entresol_stat")?.parse()?;
    let hits: u64 = cached.query("SELECT flash_hits FROM entresol_stat")?.parse()?;
    if misses * 50 > hits {
        bail!("{misses} pages were not on flash, {hits} were: this was not measured");
    }
    summary(&all);
    Ok(())
}

/// A server whose pages are all on this flash.
fn cached<'a>(rig: &'a Rig, arguments: &ScansArgs, flash: &Path) -> Result<Server<'a>> {
    let cache = format!(
        "shared_preload_libraries = 'entresol'\nentresol.flash = '{}'\nentresol.size = 0\n",
        flash.display()
    );
    let server = filled(rig, arguments, "scans flash", &cache)?;
    let brought = server.query("CREATE EXTENSION entresol; SELECT entresol_prewarm('scanned')")?;
    println!("{brought} pages were brought to flash");
    Ok(server)
}

/// A server whose files are on this disk.
fn on_disk<'a>(rig: &'a Rig, arguments: &ScansArgs, disk: &Disk) -> Result<Server<'a>> {
    let server = filled(rig, arguments, "scans files", "")?;
    server.stop()?;
    let moved = disk.folder().join("data");
    output(Command::new("cp").arg("-a").arg(server.data()).arg(&moved))?;
    // The other one has a socket in the same place, which would be removed with this one's.
    drop(server);
    let server = Server::over(&rig.build, &rig.user, moved, "scans files")?;
    server.start_again()?;
    Ok(server)
}

/// A server with the table.
fn filled<'a>(rig: &'a Rig, arguments: &ScansArgs, name: &str, settings: &str) -> Result<Server<'a>> {
    let configuration = format!("{SETTINGS}io_method = {}\n{settings}", arguments.io_method);
    let server = Server::start(&rig.build, &rig.user, name, &["-k"], &configuration)?;
    fill(&server, arguments.megabytes)?;
    Ok(server)
}

/// A table with keys in random order, and everything about it settled.
fn fill(server: &Server<'_>, megabytes: u64) -> Result<()> {
    let rows = megabytes * ROWS_PER_MB;
    server.query(&format!(
        "CREATE TABLE scanned AS SELECT (hashint8(i) & 2147483647)::bigint % {rows} AS key, repeat('x', 960) AS filler \
         FROM generate_series(1, {rows}) i; CREATE INDEX ON scanned (key)"
    ))?;
    server.query("VACUUM FREEZE ANALYZE scanned")?;
    server.query("CHECKPOINT").map(drop)
}

/// Milliseconds of the statement's execution, and the device's depth meanwhile.
fn once(server: &Server<'_>, device: &Path, before: &str, statement: &str) -> Result<(f64, f64)> {
    let explain = format!("{before}; EXPLAIN (ANALYZE, TIMING OFF, BUFFERS OFF) {statement}");
    let busy = busy(device)?;
    let said = server.query(&explain)?;
    let now = self::busy(device)?;
    let time =
        said.lines().find_map(|line| line.trim().strip_prefix("Execution Time: ")).context("a time")?;
    let time = time.trim_end_matches(" ms").parse()?;
    Ok((time, (now.1 - busy.1) / (now.0 - busy.0).max(1.0)))
}

/// Milliseconds in which a device had requests under way, and the sum of all requests' milliseconds.
fn busy(device: &Path) -> Result<(f64, f64)> {
    let name = device.file_name().unwrap_or_default();
    let text = fs::read_to_string(Path::new("/sys/block").join(name).join("stat"))?;
    let fields: Vec<f64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |at: usize| fields.get(at).copied().context("a device without statistics");
    Ok((field(9)?, field(10)?))
}

fn add(all: &mut Vec<Series>, scan: &'static str, case: &Case, (time, depth): (f64, f64)) {
    let Case { server, setting, .. } = *case;
    let key = (scan, server, setting);
    let at = all.iter().position(|series| (series.scan, series.server, series.setting) == key);
    let at = at.unwrap_or_else(|| {
        all.push(Series { scan, server, setting, milliseconds: Vec::new(), depth: Vec::new() });
        all.len() - 1
    });
    all[at].milliseconds.push(time);
    all[at].depth.push(depth);
}

fn summary(all: &[Series]) {
    println!("| scan | pages are on | setting | ms | requests under way |");
    println!("|---|---|---|---|---|");
    for series in all {
        let (time, depth) = (Mean::of(&series.milliseconds), Mean::of(&series.depth));
        println!(
            "| {} | {} | {} | {:.0} ± {:.0} | {:.1} ± {:.1} |",
            series.scan,
            series.server,
            series.setting,
            time.mean,
            time.deviation,
            depth.mean,
            depth.deviation
        );
    }
}

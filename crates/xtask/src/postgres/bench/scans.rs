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
use crate::report::{Mean, write_json};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::Path;

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

/// A server with a setting, on one scan.
#[derive(Debug, Serialize)]
struct Series {
    scan: &'static str,
    server: &'static str,
    setting: &'static str,
    milliseconds: Vec<f64>,
    depth: Vec<f64>,
}

pub(super) fn measure(rig: &Rig, arguments: &ScansArgs) -> Result<()> {
    let device = flash(rig, arguments.megabytes * 2 + 256)?;
    let disk = Disk::new(&rig.folder, arguments.megabytes * 2 + 1024)?;
    rig.user.own(disk.folder())?;
    let cache = format!(
        "shared_preload_libraries = 'entresol'\nentresol.flash = '{}'\nentresol.size = 0\n",
        device.device().display()
    );
    let method = |method: &str| format!("io_method = {method}\n");
    let start = |name: &str, more: &str| {
        let configuration = format!("{SETTINGS}{}{more}", method(&arguments.io_method));
        let server = Server::start(&rig.build, &rig.user, name, &["-k"], &configuration)?;
        fill(&server, arguments.megabytes)?;
        Ok::<_, anyhow::Error>(server)
    };
    let cached = start("scans flash", &cache)?;
    let brought = cached.query("CREATE EXTENSION entresol; SELECT entresol_prewarm('scanned')")?;
    println!("{brought} pages were brought to flash");
    let files = start("scans files", "")?;
    files.stop()?;
    // Onto a device of the same kind.
    let moved = disk.folder().join("data");
    crate::programs::output(std::process::Command::new("cp").arg("-a").arg(files.data()).arg(&moved))?;
    let files = Server::over(&rig.build, &rig.user, moved, "scans files")?;
    files.start_again()?;

    let mut all: Vec<Series> = Vec::new();
    for round in 0..arguments.rounds {
        for (server, setting) in [
            ("flash", ""),
            ("flash", "io_combine_limit = 1"),
            ("flash", "sync"),
            ("files", ""),
            ("files", "io_combine_limit = 1"),
        ] {
            let (on, device) =
                if server == "flash" { (&cached, device.device()) } else { (&files, disk.device()) };
            let before = if setting == "sync" { method("sync") } else { method(&arguments.io_method) };
            if server == "flash" {
                restart(on, &before)?;
            }
            for (scan, plan, statement) in SCANS {
                let rows = (arguments.megabytes * ROWS_PER_MB).to_string();
                let set = if setting.contains('=') { format!("SET {setting}; ") } else { String::new() };
                let one = once(on, device, &format!("{set}{plan}"), &statement.replace("ROWS", &rows))?;
                add(&mut all, (scan, server, setting), one);
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

/// The server again, with other settings.
fn restart(server: &Server<'_>, settings: &str) -> Result<()> {
    let (name, value) = settings.trim().split_once(" = ").context("a setting")?;
    server.stop()?;
    server.set(name, value)?;
    server.start_again()
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

fn add(all: &mut Vec<Series>, key: (&'static str, &'static str, &'static str), (time, depth): (f64, f64)) {
    let (scan, server, setting) = key;
    let is_it = |series: &Series| (series.scan, series.server, series.setting) == key;
    let at = all.iter().position(is_it).unwrap_or_else(|| {
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

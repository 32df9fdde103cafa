//! `bench restart`: the postmaster is killed under load on a slow disk, some time after a checkpoint.
//! Measured is the time until the server answers again, and what it does in the first minute after that.

use super::disk::Disk;
use super::load::{Kind, Load};
use super::throttled::{Configuration, DISK_MIB, cache_settings, counters, flash, settings};
use super::{Rig, chart, golden};
use crate::postgres::server::Server;
use crate::report::{Mean, write_json};
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct RestartArgs {
    /// Warehouses of the load.
    #[arg(long, value_name = "N", default_value_t = 10)]
    scale: u32,
    /// Sizes of the flash in MiB; 0 is a server without.
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "0,256")]
    flash: Vec<u64>,
    /// How much of the log is kept so that a lost flash is survived, as `16GB`; 0: none.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    keep_wal: String,
    /// Values of `full_page_writes`.
    #[arg(long, value_delimiter = ',', default_value = "on,off")]
    full_page_writes: Vec<String>,
    /// Reads a second of the disk, and writes a second.
    #[arg(long, default_value_t = 1000)]
    iops: u32,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    clients: u32,
    /// Seconds of load before the checkpoint.
    #[arg(long, default_value_t = 75)]
    warmup: u32,
    /// Seconds of load between the end of the checkpoint and the kill.
    #[arg(long, default_value_t = 85)]
    after: u32,
    /// Runs of each configuration.
    #[arg(long, default_value_t = 1)]
    repeats: u32,
    /// PostgreSQL's `shared_buffers`, in MB.
    #[arg(long, value_name = "MB", default_value_t = 32)]
    buffers: u32,
    /// Draws the transactions of each second after the kill.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// One restart.
#[derive(Debug, Serialize)]
struct Restart {
    flash_mib: u64,
    full_page_writes: String,
    repeat: u32,
    /// From the start of the postmaster until the first answer.
    seconds: f64,
    wal_bytes: u64,
    disk_reads: u64,
    disk_writes: u64,
    flash_read_bytes: u64,
    counters: BTreeMap<String, i64>,
    /// Of all kinds, in each second after the first answer.
    transactions: Vec<u32>,
}

/// How long the throughput after the restart is watched.
const WATCHED_S: u32 = 60;

pub(super) fn measure(rig: &Rig, arguments: &RestartArgs) -> Result<()> {
    let load = Load { kind: Kind::Tpcc, scale: arguments.scale, clients: arguments.clients };
    let golden = golden::golden(rig, &load)?;
    let disk = Disk::new(&rig.folder, DISK_MIB)?;
    rig.user.own(disk.folder())?;
    let mut all = Vec::new();
    for repeat in 0..arguments.repeats {
        for full_page_writes in &arguments.full_page_writes {
            for flash_mib in &arguments.flash {
                let which = (*flash_mib, full_page_writes.as_str(), repeat);
                let restart = one(rig, arguments, (&load, &golden), &disk, which)?;
                println!("{}", line(&restart));
                all.push(restart);
                write_json(rig.json.as_deref(), &all)?;
            }
        }
    }
    if let Some(file) = &arguments.svg {
        draw(file, &all)?;
    }
    Ok(())
}

fn one(
    rig: &Rig,
    arguments: &RestartArgs,
    (load, golden): (&Load, &Path),
    disk: &Disk,
    (flash_mib, full_page_writes, repeat): (u64, &str, u32),
) -> Result<Restart> {
    disk.limit(0)?;
    let data = disk.folder().join("data");
    golden::copy(rig, golden, &data)?;
    let flash = if flash_mib == 0 { None } else { Some(flash(rig, flash_mib)?) };
    // Checkpoints come when they are asked for.
    let more = [format!("full_page_writes={full_page_writes}"), "checkpoint_timeout=1h".to_owned()];
    let mut text = settings(arguments.buffers, &more);
    if let Some(flash) = &flash {
        let (policy, mode) = ("face-gsc".to_owned(), "write-back".to_owned());
        text += &cache_settings(
            flash.device(),
            &Configuration { flash_mib, policy, mode, keep_wal: arguments.keep_wal.clone() },
        );
    }
    fs::write(data.join("bench.conf"), text)?;
    let mut server = Server::over(&rig.build, &rig.user, data, "restart")?;
    server.listen()?;
    server.run_in(disk.group());
    disk.limit(arguments.iops)?;
    server.start_again()?;
    let wal_bytes = run_and_kill(rig, arguments, load, &server)?;

    // Of the log, nothing is in memory.
    disk.forget_cached()?;
    let flash_traffic = || flash.as_ref().map_or(Ok(Default::default()), |flash| flash.traffic());
    let (disk_before, flash_before) = (disk.traffic()?, flash_traffic()?);
    let began = Instant::now();
    server.start_again()?;
    server.query("SELECT 1")?;
    let seconds = began.elapsed().as_secs_f64();
    let (on_disk, on_flash) = (disk.traffic()? - disk_before, flash_traffic()? - flash_before);
    let transactions = load.run_by_seconds(rig, &server, WATCHED_S)?;
    let counters = counters(&server, flash.is_some())?;
    server.stop_at_once()?;
    disk.limit(0)?;
    Ok(Restart {
        flash_mib,
        full_page_writes: full_page_writes.to_owned(),
        repeat,
        seconds,
        wal_bytes,
        disk_reads: on_disk.reads,
        disk_writes: on_disk.writes,
        flash_read_bytes: on_flash.read_bytes,
        counters,
        transactions,
    })
}

/// Load, a checkpoint, load, and a kill of the postmaster. Returns the length of the log since the
/// checkpoint.
fn run_and_kill(rig: &Rig, arguments: &RestartArgs, load: &Load, server: &Server<'_>) -> Result<u64> {
    let whole = arguments.warmup + arguments.after + 300;
    let mut running = load.program(rig, server, whole, false)?;
    running.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = running.spawn().context("the load cannot be started")?;
    let outcome = (|| {
        thread::sleep(Duration::from_secs(arguments.warmup.into()));
        server.query("CHECKPOINT")?;
        thread::sleep(Duration::from_secs(arguments.after.into()));
        let since =
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)::bigint FROM pg_control_checkpoint()";
        let bytes: u64 = server.query(since)?.parse()?;
        server.kill()?;
        Ok(bytes)
    })();
    let _ = running.kill();
    running.wait()?;
    outcome
}

fn name(flash_mib: u64, full_page_writes: &str) -> String {
    let cache = if flash_mib == 0 { "off".to_owned() } else { format!("{flash_mib} MiB") };
    format!("{cache}, full_page_writes {full_page_writes}")
}

fn line(restart: &Restart) -> String {
    let first: u32 = restart.transactions.iter().sum();
    format!(
        "{}: answers after {:.1} s ({} MB of log, {} disk reads, {} writes, {} MB read from flash); \
         {first} transactions in the first {WATCHED_S} s",
        name(restart.flash_mib, &restart.full_page_writes),
        restart.seconds,
        restart.wal_bytes >> 20,
        restart.disk_reads,
        restart.disk_writes,
        restart.flash_read_bytes >> 20,
    )
}

/// Transactions a second against the time since the postmaster was started: the mean of the repeats, and of
/// five seconds.
fn draw(file: &Path, all: &[Restart]) -> Result<()> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut names: Vec<String> = all.iter().map(|one| name(one.flash_mib, &one.full_page_writes)).collect();
    names.sort();
    names.dedup();
    for wanted in names {
        let own: Vec<_> =
            all.iter().filter(|one| name(one.flash_mib, &one.full_page_writes) == wanted).collect();
        let start = Mean::of(&own.iter().map(|one| one.seconds).collect::<Vec<_>>()).mean;
        let mut points = vec![(0.0, 0.0), (start, 0.0)];
        for from in (0..WATCHED_S as usize).step_by(5) {
            let rates: Vec<f64> = own
                .iter()
                .map(|one| {
                    let some = one.transactions.iter().skip(from).take(5);
                    some.map(|n| f64::from(*n)).sum::<f64>() / 5.0
                })
                .collect();
            points.push((start + from as f64 + 2.5, Mean::of(&rates).mean));
        }
        lines.push((wanted, points));
    }
    chart::draw(file, "Throughput after kill -9", ("s since the start", "transactions/s"), &lines)
}

//! `bench replay`: the flash is lost under load, and the server replays its log in its place. Measured is the
//! time until it answers. The report has the forecast of the server, too.
//!
//! The log is kept from the beginning of each load on, so it is the longer, the longer the load runs. The
//! first loss has no forecast by a loss before.

use super::disk::Disk;
use super::load::{Kind, Load};
use super::throttled::{Configuration, DISK_MIB, cache_settings, flash, settings};
use super::{Rig, golden};
use crate::postgres::lost::await_promise;
use crate::postgres::server::Server;
use crate::report::write_json;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct ReplayArgs {
    /// Warehouses of the load.
    #[arg(long, value_name = "N", default_value_t = 10)]
    scale: u32,
    /// Size of the flash in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    flash: u64,
    /// Policy of the cache.
    #[arg(long, value_name = "POLICY", default_value = "face-gsc")]
    policy: String,
    /// `entresol.wal_keep_size`.
    #[arg(long, value_name = "SIZE", default_value = "16GB")]
    keep_wal: String,
    /// Seconds of load before each loss.
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "30,30,60,120")]
    losses: Vec<u32>,
    /// Reads a second of the disk, and writes a second, of each run; 0: as quick as it is.
    #[arg(long, value_delimiter = ',', default_value = "1000,0")]
    iops: Vec<u32>,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    clients: u32,
    /// PostgreSQL's `shared_buffers`, in MB.
    #[arg(long, value_name = "MB", default_value_t = 32)]
    buffers: u32,
    /// More of postgresql.conf, as in `full_page_writes=off`. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// One loss.
#[derive(Debug, Serialize)]
struct Replay {
    iops: u32,
    /// Of the load before it.
    load_s: u32,
    wal_bytes: u64,
    /// Pages that only the flash had with older changes than redo begins with.
    pages_behind: u64,
    /// By the rate of the redo before. `None`: there was none.
    forecast_s: Option<f64>,
    /// From the start of the postmaster until the first answer.
    seconds: f64,
    disk_reads: u64,
    disk_writes: u64,
}

pub(super) fn measure(rig: &Rig, arguments: &ReplayArgs) -> Result<()> {
    let load = Load { kind: Kind::Tpcc, scale: arguments.scale, clients: arguments.clients };
    let golden = golden::golden(rig, &load)?;
    let disk = Disk::new(&rig.folder, DISK_MIB)?;
    rig.user.own(disk.folder())?;
    let mut all = Vec::new();
    for iops in &arguments.iops {
        one(rig, arguments, (&load, &golden), &disk, *iops, &mut all)?;
    }
    summary(&all);
    Ok(())
}

fn one(
    rig: &Rig,
    arguments: &ReplayArgs,
    (load, golden): (&Load, &Path),
    disk: &Disk,
    iops: u32,
    all: &mut Vec<Replay>,
) -> Result<()> {
    disk.limit(0)?;
    let data = disk.folder().join("data");
    golden::copy(rig, golden, &data)?;
    let device = flash(rig, arguments.flash)?;
    let configuration = Configuration {
        flash_mib: arguments.flash,
        policy: arguments.policy.clone(),
        mode: "write-back".to_owned(),
        keep_wal: arguments.keep_wal.clone(),
    };
    let text = settings(arguments.buffers, &arguments.settings);
    fs::write(data.join("bench.conf"), text + &cache_settings(device.device(), &configuration))?;
    let signal = data.join("flash_lost.signal");
    let mut server = Server::over(&rig.build, &rig.user, data, "replay")?;
    server.listen()?;
    server.run_in(disk.group());
    disk.limit(iops)?;
    server.start_again()?;
    // The cluster was loaded without page images: log from before a checkpoint replaces nothing.
    server.query("CREATE EXTENSION IF NOT EXISTS entresol; CHECKPOINT")?;
    for load_s in &arguments.losses {
        await_promise(&server, || Ok(()))?;
        let [wal_bytes, pages_behind, forecast] = run_and_kill(rig, load, &server, *load_s)?;
        // The first MiB has all that says what it is.
        fs::File::options().write(true).open(device.device())?.write_all(&vec![0; 1 << 20])?;
        fs::write(&signal, "")?;
        server.own(&signal)?;
        disk.forget_cached()?;
        let before = disk.traffic()?;
        let began = Instant::now();
        server.start_again()?;
        server.query("SELECT 1")?;
        let seconds = began.elapsed().as_secs_f64();
        let traffic = disk.traffic()? - before;
        let replay = Replay {
            iops,
            load_s: *load_s,
            wal_bytes: wal_bytes.parse()?,
            pages_behind: pages_behind.parse()?,
            forecast_s: forecast.parse().ok(),
            seconds,
            disk_reads: traffic.reads,
            disk_writes: traffic.writes,
        };
        println!("{}", line(&replay));
        all.push(replay);
        write_json(rig.json.as_deref(), all)?;
        // The next start makes a new cache.
        server.stop()?;
        server.start_again()?;
    }
    server.stop_at_once()?;
    disk.limit(0)
}

/// The load, and a kill of the postmaster in it. What the server had said of a loss: bytes of the log, pages
/// behind the last checkpoint, seconds.
fn run_and_kill(rig: &Rig, load: &Load, server: &Server<'_>, seconds: u32) -> Result<[String; 3]> {
    let mut running = load.program(rig, server, seconds + 300, false)?;
    running.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = running.spawn().context("the load cannot be started")?;
    let outcome = (|| {
        thread::sleep(Duration::from_secs(seconds.into()));
        let said =
            server.query("SELECT wal_to_replay, pages_behind, replay_seconds FROM entresol_flash_loss()")?;
        server.kill()?;
        let parts: Vec<String> = said.split('|').map(str::to_owned).collect();
        <[String; 3]>::try_from(parts).map_err(|_| anyhow::anyhow!("entresol_flash_loss() said {said}"))
    })();
    let _ = running.kill();
    running.wait()?;
    outcome
}

fn name(iops: u32) -> String {
    if iops == 0 { "no limit".to_owned() } else { format!("{iops} I/Os a second") }
}

fn line(replay: &Replay) -> String {
    let forecast = replay.forecast_s.map_or("none".to_owned(), |seconds| format!("{seconds:.1} s"));
    format!(
        "{}, {} s of load: {} MB of log replayed in {:.1} s, forecast {forecast}; {} disk reads, {} writes",
        name(replay.iops),
        replay.load_s,
        replay.wal_bytes >> 20,
        replay.seconds,
        replay.disk_reads,
        replay.disk_writes,
    )
}

fn summary(all: &[Replay]) {
    println!("\n| disk | log, MB | replay, s | s a GB | forecast, s | of the truth |");
    println!("|---|---|---|---|---|---|");
    for replay in all {
        let (forecast, ratio) = replay.forecast_s.map_or(("–".to_owned(), "–".to_owned()), |seconds| {
            (format!("{seconds:.1}"), format!("{:.2}", seconds / replay.seconds))
        });
        println!(
            "| {} | {} | {:.1} | {:.1} | {forecast} | {ratio} |",
            name(replay.iops),
            replay.wal_bytes >> 20,
            replay.seconds,
            replay.seconds / (replay.wal_bytes as f64 / f64::from(1 << 30)),
        );
    }
}

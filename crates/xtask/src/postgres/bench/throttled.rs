//! `bench throttled`: the server on a slow disk, without a flash cache and with caches of several sizes.
//!
//! Each run has a copy of the same loaded cluster and an empty flash. The load runs for some time to fill the
//! cache, and then is measured. Runs that are to be compared follow each other.

use super::disk::Disk;
use super::load::{Done, Kind, Load};
use super::{Rig, golden};
use crate::device::{Loop, Traffic};
use crate::postgres::server::Server;
use crate::report::{Mean, write_json};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// MiB of the slow disk's file system; the file is sparse.
pub(super) const DISK_MIB: u64 = 8 << 10;

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct ThrottledArgs {
    /// The load.
    #[arg(long, value_enum, default_value = "tpcc")]
    load: Kind,
    /// Warehouses (100 MB each), or pgbench's scale (15 MB each) [default: 10, or 100].
    #[arg(long, value_name = "N")]
    scale: Option<u32>,
    /// Sizes of the flash in MiB; 0 is a server without.
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "0,128,256,512")]
    flash: Vec<u64>,
    /// Policies of the cache.
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "face-gsc")]
    policy: Vec<String>,
    /// Modes of the cache.
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "write-back")]
    mode: Vec<String>,
    /// In write-back mode, how much of the log is kept so that a lost flash is survived, as `16GB`; 0: none.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "0")]
    keep_wal: Vec<String>,
    /// Reads a second of the disk, and writes a second.
    #[arg(long, default_value_t = 1000)]
    iops: u32,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    clients: u32,
    /// Seconds of load before the measurement.
    #[arg(long, default_value_t = 75)]
    warmup: u32,
    /// Seconds of the measurement.
    #[arg(long, default_value_t = 180)]
    measured: u32,
    /// Runs of each configuration.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// PostgreSQL's `shared_buffers`, in MB.
    #[arg(long, value_name = "MB", default_value_t = 32)]
    buffers: u32,
    /// More of postgresql.conf, as in `full_page_writes=off`. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// One configuration of the server.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(super) struct Configuration {
    /// 0: no cache.
    pub flash_mib: u64,
    pub policy: String,
    pub mode: String,
    /// `entresol.wal_keep_size`; 0: a loss of the flash is fatal.
    pub keep_wal: String,
}

/// One run.
#[derive(Debug, Serialize)]
struct Run {
    configuration: Configuration,
    repeat: u32,
    transactions: f64,
    per_minute: f64,
    disk_reads: u64,
    disk_writes: u64,
    disk_flushes: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
    flash_read_bytes: u64,
    flash_written_bytes: u64,
    /// The cache's own counters, over the measured time.
    counters: BTreeMap<String, i64>,
}

impl ThrottledArgs {
    pub fn check(&self) -> Result<()> {
        if self.settings.iter().any(|setting| !setting.contains('=')) {
            bail!("--set takes NAME=VALUE");
        }
        if self.warmup == 0 || self.measured == 0 || self.repeats == 0 || self.clients == 0 {
            bail!("--warmup, --measured, --repeats and --clients are at least 1");
        }
        Ok(())
    }

    fn load(&self) -> Load {
        let scale = self.scale.unwrap_or(match self.load {
            Kind::Tpcc => 10,
            Kind::Pgbench => 100,
        });
        Load { kind: self.load, scale, clients: self.clients }
    }

    /// What is measured, in order.
    fn configurations(&self) -> Vec<Configuration> {
        let mut all: Vec<Configuration> = Vec::new();
        let modes = || self.mode.iter().flat_map(|mode| self.keep_wal.iter().map(move |kept| (mode, kept)));
        for flash_mib in &self.flash {
            for (policy, (mode, kept)) in
                self.policy.iter().flat_map(|policy| modes().map(move |mode| (policy, mode)))
            {
                let (policy, mode) = match flash_mib {
                    0 => ("off".to_owned(), "off".to_owned()),
                    _ => (policy.clone(), mode.clone()),
                };
                let keep_wal = if mode == "write-back" { kept.clone() } else { "0".to_owned() };
                let next = Configuration { flash_mib: *flash_mib, policy, mode, keep_wal };
                if !all.contains(&next) {
                    all.push(next);
                }
            }
        }
        all
    }
}

pub(super) fn measure(rig: &Rig, arguments: &ThrottledArgs) -> Result<()> {
    let load = arguments.load();
    let golden = golden::golden(rig, &load)?;
    let disk = Disk::new(&rig.folder, DISK_MIB)?;
    rig.user.own(disk.folder())?;
    let configurations = arguments.configurations();
    let mut runs = Vec::new();
    for repeat in 0..arguments.repeats {
        for configuration in &configurations {
            let run = one(rig, arguments, (&load, &golden), &disk, configuration, repeat)?;
            println!("{}", line(&run, &load));
            runs.push(run);
            write_json(rig.json.as_deref(), &runs)?;
        }
    }
    summary(&configurations, &runs, &load);
    Ok(())
}

/// A flash of `mib` MiB that the user of the server may use.
pub(super) fn flash(rig: &Rig, mib: u64) -> Result<Loop> {
    let flash = Loop::new(rig.folder.join("flash.img"), mib)?;
    rig.user.own(flash.device())?;
    Ok(flash)
}

/// The settings of a server on the slow disk.
pub(super) fn settings(buffers_mb: u32, more: &[String]) -> String {
    let mut text = format!(
        "shared_buffers = {buffers_mb}MB\n\
         debug_io_direct = data\nmax_connections = 100\nmax_wal_size = 4GB\ncheckpoint_timeout = 120s\n"
    );
    for setting in more {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        text += &format!("{name} = '{value}'\n");
    }
    text
}

/// The settings of a cache on `flash`.
pub(super) fn cache_settings(flash: &Path, configuration: &Configuration) -> String {
    let Configuration { policy, mode, keep_wal, .. } = configuration;
    let survives = match keep_wal.as_str() {
        "0" => "entresol.flash_loss = fatal\n".to_owned(),
        size => format!("entresol.flash_loss = survive\nentresol.wal_keep_size = '{size}'\n"),
    };
    format!(
        "{survives}shared_preload_libraries = 'entresol'\nentresol.flash = '{}'\nentresol.policy = '{policy}'\n\
         entresol.mode = '{mode}'\nentresol.objects = 4096\n",
        flash.display()
    )
}

fn one(
    rig: &Rig,
    arguments: &ThrottledArgs,
    (load, golden): (&Load, &Path),
    disk: &Disk,
    configuration: &Configuration,
    repeat: u32,
) -> Result<Run> {
    disk.limit(0)?;
    let data = disk.folder().join("data");
    golden::copy(rig, golden, &data)?;
    let flash = match configuration.flash_mib {
        0 => None,
        mib => Some(flash(rig, mib)?),
    };
    let mut text = settings(arguments.buffers, &arguments.settings);
    if let Some(flash) = &flash {
        text += &cache_settings(flash.device(), configuration);
    }
    fs::write(data.join("bench.conf"), text)?;
    let mut server = Server::over(&rig.build, &rig.user, data, "throttled")?;
    server.listen()?;
    server.run_in(disk.group());
    disk.limit(arguments.iops)?;
    server.start_again()?;
    // The clusters were loaded without page images: of log that is kept, this is the first that counts.
    server.query("CHECKPOINT")?;
    load.run(rig, &server, arguments.warmup)?;
    let look = || -> Result<(Traffic, Traffic, BTreeMap<String, i64>)> {
        let flashed = flash.as_ref().map_or(Ok(Traffic::default()), Loop::traffic)?;
        Ok((disk.traffic()?, flashed, counters(&server, flash.is_some())?))
    };
    let (disk_before, flash_before, counted_before) = look()?;
    let Done { transactions, per_minute } = load.run(rig, &server, arguments.measured)?;
    let (disk_after, flash_after, mut counters) = look()?;
    for (name, counted) in &mut counters {
        // Present values stay what they are.
        if !name.starts_with("slots") && !name.starts_with("objects") {
            *counted -= counted_before.get(name).copied().unwrap_or(0);
        }
    }
    server.check_log()?;
    server.stop_at_once()?;
    disk.limit(0)?;
    let (on_disk, on_flash) = (disk_after - disk_before, flash_after - flash_before);
    Ok(Run {
        configuration: configuration.clone(),
        repeat,
        transactions,
        per_minute,
        disk_reads: on_disk.reads,
        disk_writes: on_disk.writes,
        disk_flushes: on_disk.flushes,
        disk_read_bytes: on_disk.read_bytes,
        disk_written_bytes: on_disk.written_bytes,
        flash_read_bytes: on_flash.read_bytes,
        flash_written_bytes: on_flash.written_bytes,
        counters,
    })
}

/// The counters of the cache, if there is one.
pub(super) fn counters(server: &Server<'_>, is_there: bool) -> Result<BTreeMap<String, i64>> {
    if !is_there {
        return Ok(BTreeMap::new());
    }
    let counted = server.counters()?;
    Ok(counted.into_iter().map(|(name, n)| (name, n as i64)).collect())
}

fn name(configuration: &Configuration) -> String {
    match configuration.flash_mib {
        0 => "off".to_owned(),
        mib if configuration.keep_wal == "0" => {
            format!("{mib} MiB, {}, {}", configuration.policy, configuration.mode)
        }
        mib => format!("{mib} MiB, {}, {} of WAL kept", configuration.policy, configuration.keep_wal),
    }
}

/// A run in a line.
fn line(run: &Run, load: &Load) -> String {
    let each = |n: u64| n as f64 / run.transactions;
    let mut text = format!(
        "{}: {:.0} {}; a transaction: {:.2} disk reads, {:.2} writes, {:.2} flushes, {:.0} flash bytes written",
        name(&run.configuration),
        run.per_minute,
        load.unit(),
        each(run.disk_reads),
        each(run.disk_writes),
        each(run.disk_flushes),
        each(run.flash_written_bytes),
    );
    if let Some(rate) = hit_rate(run) {
        text += &format!("; {rate:.1} % of the reads are hits");
    }
    text
}

/// Of the pages that were read past DRAM, those that the cache had, in per cent.
fn hit_rate(run: &Run) -> Option<f64> {
    let of = |name: &str| run.counters.get(name).copied().map(|n| n as f64);
    let hits = of("staging_hits")? + of("flash_hits")?;
    Some(100.0 * hits / (hits + of("misses")?))
}

/// A table of all configurations, each compared with the server without a cache.
fn summary(configurations: &[Configuration], runs: &[Run], load: &Load) {
    let off = |repeat: u32| {
        runs.iter()
            .find(|run| run.configuration.flash_mib == 0 && run.repeat == repeat)
            .map(|run| run.per_minute)
    };
    println!("\n| | {} | of off | hits | disk reads, writes | flash KB written |", load.unit());
    println!("|---|---|---|---|---|---|");
    for configuration in configurations {
        let own: Vec<&Run> = runs.iter().filter(|run| run.configuration == *configuration).collect();
        let mean = |of: &dyn Fn(&Run) -> Option<f64>| {
            Mean::of(&own.iter().filter_map(|run| of(run)).collect::<Vec<_>>())
        };
        let rate = mean(&|run| Some(run.per_minute));
        let ratio = mean(&|run| Some(run.per_minute / off(run.repeat)?));
        let each = |of: fn(&Run) -> u64| mean(&|run| Some(of(run) as f64 / run.transactions)).mean;
        println!(
            "| {} | {:.0} ± {:.0} | {:.2} ± {:.2} | {:.1} % | {:.2}, {:.2} | {:.1} |",
            name(configuration),
            rate.mean,
            rate.deviation,
            ratio.mean,
            ratio.deviation,
            mean(&hit_rate).mean,
            each(|run| run.disk_reads),
            each(|run| run.disk_writes),
            each(|run| run.flash_written_bytes) / 1024.0,
        );
    }
}

//! `entresol bench …`: the experiments and their options.

use super::machine::MachineArgs;
use super::values;
use clap::{Args, Subcommand};
use entresol_core::System;
use entresol_engine::DailyWrites;
use entresol_lab::config::Redo;
use entresol_lab::report::terminal;
use std::path::PathBuf;
use std::time::Duration;

/// Experiments.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Throughput, hit rates and utilisation: FaCE's tables 3 and 4 and figure 4
    ///
    /// Loads a TPC-C database once, then runs the workload on each system at each flash size, in parallel on
    /// the cores, each under a virtual clock on modelled devices: the same arguments and seed give the same
    /// results to the last digit on every machine. Prints the paper's numbers with ours and judges the
    /// paper's claims. A TPC-C workload, not a TPC result.
    #[command(after_help = tpcc_examples())]
    Tpcc(Box<TpccArgs>),
    /// Kill and restart: FaCE's table 6 and figure 6
    ///
    /// Runs TPC-C until warm, kills the system in the middle of a checkpoint interval, and restarts it, for
    /// each system and interval. Prints how long the restart took, where recovery found its pages, and the
    /// throughput afterwards.
    #[command(after_help = RESTART_EXAMPLES)]
    Restart(Box<RestartArgs>),
}

/// The systems with their descriptions, and examples.
fn tpcc_examples() -> String {
    let line = |system: System| match system.cache() {
        Some(cache) => row(system.name(), cache.about()),
        None => String::new(),
    };
    format!("{TPCC_SYSTEMS}{}\n{TPCC_EXAMPLES}", System::ALL.map(line).concat())
}

/// A row of the list of systems: lines of at most 80 columns, the text below itself.
fn row(name: &str, text: &str) -> String {
    terminal::wrapped(&format!("  {name:<11} {text}"), 80, "              ")
}

const TPCC_SYSTEMS: &str = "\
Systems:
  disk-only   the database on the disk device, no flash
  flash-only  the database on the flash device
Systems with a flash cache:
";

const TPCC_EXAMPLES: &str = "\
Examples:
  # the paper's whole tables
  entresol bench tpcc --flash-percent 4,8,12,16,20 --html figures.html
  # figure 4b
  entresol bench tpcc --flash-device slc --system lc,face-gsc
  # on a drive of today
  entresol bench tpcc --flash-device nvme --json today.json
  # a trace for `simulate` and `mrc`
  entresol bench tpcc --system face-gsc --record tpcc.etr
  # on real files, whose content is lost
  entresol bench tpcc --real --flash flash.img --disk disk.img --log log.img \\
      --minutes 10";

const RESTART_EXAMPLES: &str = "\
Examples:
  entresol bench restart --checkpoint-interval 180 \\
      --system disk-only,face-gsc --html restart.html
  # what the log's help is worth
  entresol bench restart --redo plain,imaged,noted,usual \\
      --checkpoint-interval 60
  # on real files, whose content is lost
  entresol bench restart --real --flash flash.img --disk disk.img --log log.img";

/// `entresol bench tpcc`.
#[derive(Debug, Args)]
pub struct TpccArgs {
    /// Systems to run, separated by commas
    #[arg(long = "system", value_name = "NAMES", value_delimiter = ',', value_parser = values::system)]
    #[arg(default_value = "disk-only,flash-only,lc,face,face-gr,face-gsc", help_heading = "What to run")]
    pub systems: Vec<System>,
    /// Flash cache sizes in per cent of the database, separated by commas
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', value_parser = values::percent, default_value = "8")]
    #[arg(allow_negative_numbers = true, help_heading = "What to run")]
    pub flash_percent: Vec<f64>,
    /// Measured time in minutes (of virtual time; of real time with --real)
    #[arg(long, value_name = "MINUTES", value_parser = values::minutes, default_value = "5")]
    #[arg(allow_negative_numbers = true, help_heading = "What to run")]
    pub minutes: Duration,
    /// Budget of writes to flash, for policies that weigh what a write is worth (reuse, reuse-slots): device
    /// writes such as `1x`, or bytes such as `200G`; the bucket holds ten seconds' worth
    #[arg(long, value_name = "BUDGET", value_parser = DailyWrites::read, default_value = "unlimited")]
    #[arg(conflicts_with = "real", help_heading = "What to run")]
    pub flash_writes_per_day: DailyWrites,
    /// Seconds between database checkpoints
    #[arg(long, value_name = "SECONDS", value_parser = values::interval, default_value = "180")]
    #[arg(allow_negative_numbers = true, help_heading = "What to run")]
    pub checkpoint_interval: Duration,
    /// The machine, the workload and the destinations of results.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Record the page references of the one system run, from the clients' start on, as a trace (see
    /// `entresol trace`)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub record: Option<PathBuf>,
}

/// `entresol bench restart`.
#[derive(Debug, Args)]
pub struct RestartArgs {
    /// Systems to kill and restart, separated by commas (see `entresol bench tpcc --help`)
    #[arg(long = "system", value_name = "NAMES", value_delimiter = ',', value_parser = values::system)]
    #[arg(default_value = "disk-only,lc,face-gsc", help_heading = "What to run")]
    pub systems: Vec<System>,
    /// Flash cache size in per cent of the database
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, default_value = "8")]
    #[arg(allow_negative_numbers = true, help_heading = "What to run")]
    pub flash_percent: f64,
    /// Seconds between database checkpoints, separated by commas; the kill is in the middle of an interval
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', value_parser = values::interval)]
    #[arg(default_value = "60,120,180", allow_negative_numbers = true, help_heading = "What to run")]
    pub checkpoint_interval: Vec<Duration>,
    /// What the log tells redo besides the changes, several separated by commas: plain (nothing, as FaCE's
    /// claims are judged), imaged (images of pages), noted (and notes of durable pages under every system),
    /// usual (notes only where groups of a log on flash prove them at no cost)
    #[arg(long, value_name = "LOGS", value_delimiter = ',', value_parser = values::redo, default_value = "usual")]
    #[arg(conflicts_with = "real", help_heading = "What to run")]
    pub redo: Vec<Redo>,
    /// Minutes to run after the restart
    #[arg(long, value_name = "MINUTES", value_parser = values::minutes, default_value = "5")]
    #[arg(allow_negative_numbers = true, help_heading = "What to run")]
    pub minutes: Duration,
    /// The machine, the workload and the destinations of results.
    #[command(flatten)]
    pub machine: MachineArgs,
}

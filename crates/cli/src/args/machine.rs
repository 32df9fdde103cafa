//! What all experiments have in common: workload, devices, real paths, outputs.

use super::{FragmentArgs, LcArgs, values};
use clap::Args;
use entresol_lab::config::Warmup;
use entresol_store::Replacement;
use std::path::PathBuf;
use std::time::Duration;

/// Options of every experiment.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// TPC-C warehouses (about 0.1 GB each)
    #[arg(long, value_name = "N", value_parser = values::warehouses, default_value = "10", help_heading = "Workload")]
    #[arg(allow_negative_numbers = true)]
    pub warehouses: u32,
    /// Concurrent clients
    #[arg(long, value_name = "N", value_parser = values::clients, default_value = "50", help_heading = "Workload")]
    #[arg(allow_negative_numbers = true)]
    pub clients: u32,
    /// Think time of a client between transactions, milliseconds
    #[arg(long, value_name = "MS", value_parser = values::think, default_value = "0", help_heading = "Workload")]
    #[arg(allow_negative_numbers = true)]
    pub think_ms: Duration,
    /// Time before measuring: minutes, or `auto` (until the flash cache has been filled three times over;
    /// sce: until it is full and its hit rate stands still; at most 20 minutes)
    #[arg(long, value_name = "auto|MINUTES", value_parser = values::warmup, default_value = "auto")]
    #[arg(allow_negative_numbers = true, help_heading = "Workload")]
    pub warmup: Warmup,
    /// Seed of the load, the clients and the simulation
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1", help_heading = "Workload")]
    #[arg(allow_negative_numbers = true)]
    pub seed: u64,

    /// DRAM buffer pool in per cent of the database (the paper: 200 MB of 50 GB)
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, default_value = "0.4")]
    #[arg(allow_negative_numbers = true, help_heading = "Machine")]
    pub dram_percent: f64,
    /// Which DRAM frame is evicted first: lru or clock
    #[arg(long, value_name = "NAME", value_parser = values::replacement, default_value = "lru")]
    #[arg(help_heading = "Machine")]
    pub replacement: Replacement,
    /// Modelled flash device: mlc, slc, nvme, … (see `entresol devices`)
    #[arg(long, value_name = "PROFILE", value_parser = values::flash_device, default_value = "mlc")]
    #[arg(help_heading = "Machine")]
    pub flash_device: String,
    /// Modelled disk device: raid0-8, sata-disk, cloud, … (see `entresol devices`)
    #[arg(long, value_name = "PROFILE", value_parser = values::disk_device, default_value = "raid0-8")]
    #[arg(help_heading = "Machine")]
    pub disk_device: String,

    /// What is in the slots of lc, reuse-slots, s3-fifo, lru, fifo, clock and sieve survives a crash, and a
    /// checkpoint copies no page to disk
    #[arg(long, help_heading = "Machine")]
    pub keep_slots: bool,
    /// Keep the log back to the oldest change that only the flash has, so that a lost flash costs a longer
    /// restart: about so much of it, e.g. 256MB. Dirty pages that need more are copied to disk
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, conflicts_with_all = ["keep_slots", "real"])]
    #[arg(help_heading = "Machine")]
    pub keep_log: Option<f64>,

    /// SCE's knobs.
    #[command(flatten)]
    pub fragments: FragmentArgs,
    /// LC's knobs.
    #[command(flatten)]
    pub lc: LcArgs,

    /// Run on real files or block devices, under the wall clock. Their content is lost
    #[arg(long, requires_all = ["flash", "disk", "log"], conflicts_with_all = ["flash_device", "disk_device"])]
    #[arg(help_heading = "Real devices")]
    pub real: bool,
    /// File or block device of the flash cache
    #[arg(long, value_name = "PATH", requires = "real", help_heading = "Real devices")]
    pub flash: Option<PathBuf>,
    /// File or block device of the database
    #[arg(long, value_name = "PATH", requires = "real", help_heading = "Real devices")]
    pub disk: Option<PathBuf>,
    /// File or block device of the write-ahead log
    #[arg(long, value_name = "PATH", requires = "real", help_heading = "Real devices")]
    pub log: Option<PathBuf>,
    /// Use these paths even if they have content, also a database of Entresol
    #[arg(long, requires = "real", help_heading = "Real devices")]
    pub overwrite: bool,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Write the results as one self-contained page with tables and plots
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub html: Option<PathBuf>,
}

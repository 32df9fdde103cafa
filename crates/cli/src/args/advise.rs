//! `entresol advise`: what to buy for a trace.

use super::replay::{DramArgs, LoadArgs};
use super::simulate::{OutputArgs, SourceArgs};
use super::values::{self, Latency};
use clap::Args;
use entresol_core::Cache;

/// `entresol advise`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseArgs {
    /// The trace.
    #[command(flatten)]
    pub source: SourceArgs,

    /// What things cost: a TOML file (see docs/LAB.md), or one of the built-in lists: today, face-2012,
    /// 3la-2010
    #[arg(long, value_name = "FILE|LIST", default_value = "today", help_heading = "Money")]
    pub prices: String,
    /// Size of the real database, e.g. 2TB or 500GiB: sizes and money are for it instead of for the trace's
    /// pages
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, help_heading = "Money")]
    #[arg(allow_hyphen_values = true)]
    pub database_size: Option<f64>,
    /// Money for DRAM and flash of the trace's (or the database's) size, in the currency of the prices: the
    /// fastest for that is advised
    #[arg(long, value_name = "MONEY", value_parser = values::money, conflicts_with = "target_latency")]
    #[arg(allow_negative_numbers = true, help_heading = "Money")]
    pub budget: Option<f64>,
    /// Sufficient mean response, e.g. 500us or 2ms: advises the cheapest configuration that has it [default:
    /// within 10 % of the shortest that was found]
    #[arg(long, value_name = "TIME", value_parser = values::latency, help_heading = "Money")]
    #[arg(allow_hyphen_values = true)]
    pub target_latency: Option<Latency>,
    /// Flash that is worn out sooner is not advised
    #[arg(long, value_name = "YEARS", value_parser = values::years, default_value = "1", help_heading = "Money")]
    #[arg(allow_negative_numbers = true)]
    pub min_years: f64,

    /// Policies to choose from, separated by commas: any that `simulate` has; no flash is always considered.
    /// The first are tried at every size
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',', value_parser = values::flash_policy)]
    #[arg(default_value = "face-gsc,lc,loc,glb,tac,face-gr,flashcache", help_heading = "Layers")]
    pub policies: Vec<Cache>,
    /// DRAM.
    #[command(flatten)]
    pub dram: DramArgs,

    /// Flash devices to choose from, separated by commas [default: those of the prices]
    #[arg(long = "flash-device", value_name = "DEVICES", value_delimiter = ',', help_heading = "Machine")]
    pub flash_devices: Vec<String>,
    /// Device under the database [default: that of the prices]
    #[arg(long, value_name = "DEVICE", help_heading = "Machine")]
    pub disk_device: Option<String>,
    /// Kind of memory [default: that of the prices]
    #[arg(long, value_name = "MEMORY", help_heading = "Machine")]
    pub memory: Option<String>,
    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,

    /// Destinations of results.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  entresol advise --trace pg.bin.zst      which policy, how much flash?
  entresol advise --trace pg.bin.zst --quick
                                          an estimate in a tenth of the time
  entresol advise --trace pg.bin.zst --budget 0.2
                                          the fastest for 0.2 USD
  entresol advise --trace pg.bin.zst --target-latency 500us
                                          the cheapest that is so fast
  entresol advise --trace pg.bin.zst --database-size 2TB --budget 1500
                                          the same for the real database
  entresol advise --trace pg.bin.zst --prices ours.toml --html advice.html";

//! `entresol torture`: what to torture, and for how long.

use super::values;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `entresol torture`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TortureArgs {
    /// Stop when so many crash states have been recovered and verified (100000, unless --seconds says when to
    /// stop)
    #[arg(long, value_name = "N", value_parser = states)]
    pub states: Option<u64>,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub seconds: Option<Duration>,
    /// Seed of everything that happens by chance
    #[arg(long, default_value = "1", value_parser = values::seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Policies, or policies with a mode, separated by commas
    #[arg(long = "system", value_name = "NAMES", value_delimiter = ',', default_value = "all")]
    pub systems: Vec<String>,
    /// Only this run (as a violation's replay line says)
    #[arg(long, value_name = "N", value_parser = values::seed, allow_negative_numbers = true)]
    pub run: Option<u64>,
    /// Stop after so many violations
    #[arg(long, value_name = "N", default_value = "1", value_parser = violations)]
    pub violations: usize,
    /// Threads; all cores, if not given
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Caches of raw pages (a block device's) instead: flushed, forgotten, in place, under power failures
    /// and kills
    #[arg(long, conflicts_with_all = ["run", "json", "violations"])]
    pub raw: bool,
    /// Caches behind a door instead: NBD clients of a volume, under power failures; --states counts restarts
    #[arg(long, value_parser = ["block"], conflicts_with_all = ["run", "json", "violations", "raw"])]
    pub door: Option<String>,
    /// Stores instead whose flash dies, and whose log is kept for that (face, face-gr, face-gsc, reuse)
    #[arg(long, conflicts_with_all = ["raw", "door"])]
    pub flash_dies: bool,
    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Crash states to look at.
fn states(text: &str) -> Result<u64, String> {
    values::whole(text, "crash states", 1..=1 << 40)
}

/// Violations after which a torture ends.
fn violations(text: &str) -> Result<usize, String> {
    values::count(text, "violations", 1..=1000).map(|violations| violations as usize)
}

/// OS threads.
fn threads(text: &str) -> Result<usize, String> {
    values::count(text, "threads", 1..=1024).map(|threads| threads as usize)
}

/// Seconds that a torture may take: up to a week.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds_max = values::MINUTES_MAX * 60.0;
    let value =
        values::number(text).map_err(|()| format!("{text:?} is not a number of seconds; give e.g. 60"))?;
    if value > 0.0 && value <= seconds_max {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(format!("{text} seconds are not possible; more than 0 and at most {seconds_max} are"))
}

const EXAMPLES: &str = "\
Systems:
  all                    every policy in every mode
  face-gsc               a policy, in every mode
  face-gsc/write-through a policy in one mode
  sce                    the cache of fragments, which has one mode

Examples:
  entresol torture
  entresol torture --seed 7 --states 10000000 --json torture.json
  entresol torture --system face-gsc,lc --seconds 60
  entresol torture --door block --system lc,s3-fifo --seconds 60
  entresol torture --flash-dies --system reuse --states 10000
  entresol torture --raw --states 1000000
  entresol torture --door block --seconds 600";

//! A log above the cache, kept so that the flash may be lost.

use super::values;
use clap::Args;
use entresol_core::LogBound;
use entresol_lab::replay::KeepLog;

/// Bytes that a change logs.
fn change_bytes(text: &str) -> Result<u32, String> {
    values::count(text, "bytes that a change logs", 1..=1 << 20)
}

/// `--log-bound`.
#[derive(Debug, Args)]
#[command(next_help_heading = "A log that replaces the flash")]
pub struct LogArgs {
    /// The database keeps about so much of its log, so that a lost flash costs a longer restart, several
    /// separated by commas, e.g. 1GB,4GB,16GB. Each is one more run of policies with a log on flash in
    /// write-back: dirty pages that need more are copied to disk
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = values::bytes)]
    #[arg(conflicts_with_all = ["sample", "quick"])]
    pub log_bound: Vec<f64>,
    /// What a change of a page in the trace logs: the log that the database wrote by the changes in the trace
    #[arg(long, value_name = "BYTES", value_parser = change_bytes, default_value = "512")]
    #[arg(requires = "log_bound", allow_negative_numbers = true)]
    pub log_bytes_per_change: u32,
}

impl LogArgs {
    /// As the lab wants them: none, then each bound.
    pub fn kept(&self) -> Vec<Option<KeepLog>> {
        let change_bytes = self.log_bytes_per_change;
        let keep = |bytes: &f64| Some(KeepLog { bound: LogBound(*bytes as u64), change_bytes });
        std::iter::once(None).chain(self.log_bound.iter().map(keep)).collect()
    }
}

//! `entresol reproduce`: the papers' figures compared with ours.

use super::simulate::OutputArgs;
use super::values::{self, Papers};
use clap::Args;
use std::path::PathBuf;

/// `entresol reproduce`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArgs {
    /// Papers, separated by commas: face, rw, 3la, sce, sbp; or `all`
    #[arg(value_name = "PAPERS", value_delimiter = ',', num_args = 1.., value_parser = values::papers, required = true)]
    pub papers: Vec<Papers>,
    /// Small databases and short runs: directions in minutes, not digits in half an hour
    #[arg(long)]
    pub quick: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    pub seed: u64,
    /// Folder with captured traces, for the figures that use them
    #[arg(long, value_name = "FOLDER")]
    pub traces: Option<PathBuf>,
    /// Destinations of results.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  entresol reproduce all --quick
  entresol reproduce face --html face.html --json face.json";

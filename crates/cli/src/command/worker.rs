//! `entresol worker`.

use crate::args::WorkerArgs;
use crate::failure::Failure;
use entresol_lab::bench;

/// Runs TPC-C on real files until killed, and tells of every commit on stdout.
pub fn run(args: WorkerArgs) -> Result<(), Failure> {
    Ok(bench::work(&args.worker())?)
}

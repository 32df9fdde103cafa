//! Where the experiments are run: on modelled devices, or on real ones as the configuration says.

use entresol_lab::bench::{self, Progress};
use entresol_lab::config::{BenchConfig, Restart, Run};
use entresol_lab::result::{RestartResult, TpccResult};

/// Runs TPC-C.
pub fn run_tpcc(
    config: &BenchConfig,
    runs: &[Run],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<TpccResult>> {
    match config.real {
        None => bench::run_tpcc(config, runs, progress),
        Some(_) => bench::run_tpcc_real(config, runs, progress),
    }
}

/// Kills and restarts.
pub fn run_restart(
    config: &BenchConfig,
    restarts: &[Restart],
    progress: Progress<'_>,
) -> anyhow::Result<Vec<RestartResult>> {
    match config.real {
        None => bench::run_restart(config, restarts, 1, progress),
        Some(_) => bench::restart_real(config, restarts, progress),
    }
}

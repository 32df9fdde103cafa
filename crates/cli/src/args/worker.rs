//! `entresol worker`: the process that a crash experiment runs and kills. Not for people.

use super::{FragmentArgs, values};
use clap::Args;
use entresol_core::{FRAGMENT_PAGES_MAX, System};
use entresol_engine::TierOptions;
use entresol_lab::bench::{self, CacheOptions, RealStore, Worker};
use entresol_lab::config::{RealPaths, Warmup};
use entresol_store::Replacement;
use entresol_tpcc::Scale;
use std::path::PathBuf;
use std::time::Duration;

/// Options of a worker; [`Worker::arguments`] writes them.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The system
    #[arg(long, value_parser = values::system)]
    system: System,
    /// File or block device of the flash cache
    #[arg(long)]
    flash: PathBuf,
    /// File or block device of the database
    #[arg(long)]
    disk: PathBuf,
    /// File or block device of the log
    #[arg(long)]
    log: PathBuf,
    /// Bytes of the database's device
    #[arg(long)]
    database_bytes: u64,
    /// Bytes of the log's device
    #[arg(long)]
    log_bytes: u64,
    /// Flash slots, or fragments on flash; 0: no flash cache
    #[arg(long, default_value = "0")]
    slots: u32,
    /// Pages of a group
    #[arg(long, default_value = "64")]
    group_pages: u32,
    /// Entries of a directory segment
    #[arg(long, default_value = "64000")]
    segment_entries: u32,
    /// Slots survive a crash
    #[arg(long)]
    keep_slots: bool,
    /// SCE's knobs
    #[command(flatten)]
    fragments: FragmentArgs,
    /// DRAM frames
    #[arg(long)]
    frames: usize,
    /// Which DRAM frame is evicted first: lru or clock
    #[arg(long, default_value = "lru", value_parser = values::replacement)]
    replacement: Replacement,
    /// Seconds between database checkpoints
    #[arg(long, value_parser = seconds)]
    checkpoint_interval: Duration,
    /// Concurrent clients
    #[arg(long, value_parser = values::clients)]
    clients: u32,
    /// Think time of a client, milliseconds
    #[arg(long, default_value = "0", value_parser = values::think)]
    think_ms: Duration,
    /// Minutes before the first mark, or `auto`
    #[arg(long, default_value = "0", value_parser = values::warmup)]
    warmup: Warmup,
    /// Seed of the load and the clients
    #[arg(long, default_value = "1", value_parser = values::seed)]
    seed: u64,
    /// Load a new database first: warehouses, items, customers of a district
    #[arg(long, value_name = "W,I,C", value_parser = scale)]
    load: Option<Scale>,
}

/// Seconds between checkpoints, shorter ones than an experiment's included.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("{text:?} is not a number of seconds above 0"))
}

fn scale(text: &str) -> Result<Scale, String> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[warehouses, items, customers]) => {
            Scale { warehouses, items, customers }.check().map_err(|error| error.to_string())
        }
        _ => Err(format!("{text:?} is not warehouses,items,customers; give e.g. 1,1000,60")),
    }
}

impl WorkerArgs {
    /// The worker that they describe.
    pub fn worker(self) -> Worker {
        let tier = match self.system {
            System::Cached(policy) if self.slots > 0 => {
                let mut tier = TierOptions::new(policy, self.slots);
                (tier.slots, tier.group_pages) = (self.slots, self.group_pages);
                (tier.segment_entries, tier.keeps_slots) = (self.segment_entries, self.keep_slots);
                Some(CacheOptions::Slots(tier))
            }
            System::Fragments if self.slots > 0 => {
                let knobs = self.fragments.knobs();
                let pages = self.slots.saturating_mul(knobs.fragment_pages.unwrap_or(FRAGMENT_PAGES_MAX));
                Some(CacheOptions::Fragments(bench::fragment_options(knobs, pages)))
            }
            _ => None,
        };
        Worker {
            store: RealStore {
                system: self.system,
                paths: RealPaths { flash: self.flash, disk: self.disk, log: self.log },
                database_bytes: self.database_bytes,
                log_bytes: self.log_bytes,
                tier,
                frames: self.frames,
                replacement: self.replacement,
                checkpoint_interval: self.checkpoint_interval,
            },
            load: self.load,
            clients: self.clients,
            think: self.think_ms,
            warmup: self.warmup,
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;
    use entresol_core::{PolicyKind, System};
    use entresol_engine::{FragmentOptions, TierOptions};
    use entresol_lab::bench::{CacheOptions, RealStore, Worker};
    use entresol_lab::config::{RealPaths, Warmup};
    use entresol_store::Replacement;
    use entresol_tpcc::Scale;
    use std::time::Duration;

    fn worker(system: System, tier: Option<CacheOptions>) -> Worker {
        Worker {
            store: RealStore {
                system,
                paths: RealPaths { flash: "flash img".into(), disk: "-disk".into(), log: "log".into() },
                database_bytes: 123 << 20,
                log_bytes: 4 << 30,
                tier,
                frames: 100,
                replacement: Replacement::Clock,
                checkpoint_interval: Duration::from_millis(50),
            },
            load: Some(Scale::tiny(3)),
            clients: 7,
            think: Duration::from_millis(3),
            warmup: Warmup::For(Duration::from_secs(30)),
            seed: 9,
        }
    }

    #[test]
    fn a_worker_becomes_what_its_arguments_say() {
        let gsc = TierOptions {
            group_pages: 8,
            segment_entries: 64,
            ..TierOptions::new(PolicyKind::FaceGsc, 6400)
        };
        let lc = TierOptions::new(PolicyKind::Lc, 64_000);
        let kept = TierOptions { keeps_slots: true, ..lc.clone() };
        let knobs = FragmentOptions {
            workers: 2,
            pace_permille: 3,
            ..FragmentOptions::new(64_000).with_fragments(16, 4000)
        };
        for worker in [
            worker(System::Cached(PolicyKind::FaceGsc), Some(CacheOptions::Slots(gsc))),
            worker(System::Cached(PolicyKind::Lc), Some(CacheOptions::Slots(lc))),
            worker(System::Cached(PolicyKind::Lc), Some(CacheOptions::Slots(kept))),
            worker(System::Fragments, Some(CacheOptions::Fragments(FragmentOptions::new(64_000)))),
            worker(System::Fragments, Some(CacheOptions::Fragments(knobs))),
            Worker { load: None, warmup: Warmup::Auto, ..worker(System::DiskOnly, None) },
        ] {
            let arguments = [vec!["entresol".into()], worker.arguments()].concat();
            let command = Cli::try_parse_from(arguments).expect("a command").command;
            let Command::Worker(parsed) = command else { panic!("not a worker: {command:?}") };
            assert_eq!(parsed.worker(), worker);
        }
    }
}

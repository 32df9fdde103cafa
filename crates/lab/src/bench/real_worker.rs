//! A worker: a process that runs TPC-C on a store on real files until it is killed, and tells its parent of
//! every commit.
//!
//! Invariant: a line is written in one system call, after the commit that it tells of has returned, so that
//! the parent's record is right whenever the kill comes.

use crate::bench::cache::CacheOptions;
use crate::bench::real_record::Line;
use crate::bench::real_store::RealStore;
use crate::bench::restart::to_mid_interval;
use crate::bench::tpcc::{paced_clients, warm_up};
use crate::config::Warmup;
use anyhow::bail;
use entresol_engine::TierOptions;
use entresol_runtime::say;
use entresol_store::{Replacement, Store};
use entresol_tpcc::{Acknowledged, Database, LoadConfig, RunConfig, Scale, Seed};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

/// What a worker does.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// The store that it opens, with recovery if that was not shut down.
    pub store: RealStore,
    /// Load a database of this scale first; what was there is lost.
    pub load: Option<Scale>,
    /// Concurrent clients.
    pub clients: u32,
    /// Think time of a client between transactions.
    pub think: Duration,
    /// Time before the first mark in the middle of a checkpoint interval.
    pub warmup: Warmup,
    /// Seeds the load and the clients.
    pub seed: u64,
}

/// Does a worker's work and writes its record to stdout. Returns only when something has failed. Ends the
/// process when the record cannot be written, since then its record is lost.
pub fn work(worker: &Worker) -> anyhow::Result<()> {
    if let Some(scale) = worker.load {
        worker.store.load(&LoadConfig { scale, seed: Seed(worker.seed) }, &|_, _| ())?;
    }
    let rig = worker.store.machine()?;
    let (layer, _) = rig.reopen_layer()?;
    let (parts, options) = rig.parts(layer);
    let (store, _) = Store::open(parts, options)?;
    let clients = RunConfig {
        acknowledge: Some(Arc::new(|done: &Acknowledged| record(Line::Acknowledged(*done)))),
        ..paced_clients(worker.clients, worker.think, worker.seed)
    };
    let driver = entresol_tpcc::start(&Database::open(&store)?, &clients)?;
    warm_up(worker.warmup, worker.store.tier.as_ref(), &driver, &store, &|_| ())?;
    while let Some(tpm_c) = to_mid_interval(&store, &driver, worker.store.checkpoint_interval, &|| ()) {
        record(Line::MidInterval(tpm_c));
    }
    driver.finish()?;
    bail!("a client stopped without an error")
}

/// Writes a line. Standard output is flushed at its end.
fn record(line: Line) {
    if say::print(&format!("{line}\n")).is_err() {
        std::process::exit(1);
    }
}

impl Worker {
    /// The arguments that make the `entresol` command this worker. Of the flash cache only the shape is
    /// passed on.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["worker".into()];
        let mut add = |option: &str, value: &dyn AsRef<OsStr>| {
            // In one word, so that a value may begin with a hyphen.
            let mut argument = OsString::from(option);
            argument.push("=");
            argument.push(value.as_ref());
            arguments.push(argument);
        };
        let store = &self.store;
        add("--system", &store.system.name());
        add("--flash", &store.paths.flash);
        add("--disk", &store.paths.disk);
        add("--log", &store.paths.log);
        add("--database-bytes", &store.database_bytes.to_string());
        add("--log-bytes", &store.log_bytes.to_string());
        match &store.tier {
            Some(CacheOptions::Slots(tier)) => {
                add("--slots", &tier.slots.to_string());
                add("--group-pages", &tier.group_pages.to_string());
                add("--segment-entries", &tier.segment_entries.to_string());
            }
            Some(CacheOptions::Fragments(tier)) => {
                add("--slots", &tier.slots.to_string());
                add("--fragment-pages", &tier.fragment_pages.to_string());
                add("--population-workers", &tier.workers.to_string());
                add("--population-pace", &tier.pace_permille.to_string());
            }
            None => {}
        }
        add("--frames", &store.frames.to_string());
        add("--replacement", &if store.replacement == Replacement::Lru { "lru" } else { "clock" });
        add("--checkpoint-interval", &store.checkpoint_interval.as_secs_f64().to_string());
        add("--clients", &self.clients.to_string());
        add("--think-ms", &self.think.as_millis().to_string());
        let warmup = match self.warmup {
            Warmup::Auto => "auto".to_owned(),
            Warmup::For(time) => (time.as_secs_f64() / 60.0).to_string(),
        };
        add("--warmup", &warmup);
        add("--seed", &self.seed.to_string());
        if let Some(Scale { warehouses, items, customers }) = self.load {
            add("--load", &format!("{warehouses},{items},{customers}"));
        }
        if let Some(CacheOptions::Slots(TierOptions { keeps_slots: true, .. })) = &store.tier {
            arguments.push("--keep-slots".into());
        }
        arguments
    }
}

//! What was acknowledged survives a crash, and the database is consistent after the restart.

mod support;

use entresol_runtime::sim::{Outcome, SimConfig, Simulation, halt};
use entresol_runtime::{random, sleep};
use entresol_store::{CpuModel, Options};
use entresol_tpcc::{Acknowledged, Database, RunConfig, Seed, run, start, verify_acknowledged};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Devices, assert_consistent, few_frames, load_tiny, simulate};

/// Some processor time, so that time passes and clients interleave.
const CPU: CpuModel =
    CpuModel { per_fix: Duration::from_micros(1), per_transaction: Duration::from_micros(200) };

fn options() -> Options {
    Options { checkpoint_interval: Some(Duration::from_millis(150)), ..few_frames() }
}

#[test]
fn acknowledged_transactions_survive() {
    for seed in 0..4 {
        let devices = Arc::new(Devices::new());
        let record = Arc::new(Mutex::new(Vec::new()));
        for session in 0..3 {
            let (at, notes) = (devices.clone(), record.clone());
            let world = Simulation::new(SimConfig {
                seed: seed * 10 + session,
                random_order: true,
                ..SimConfig::default()
            });
            let end: Outcome<()> = world.run(move || {
                let store = if session == 0 { at.create(options()) } else { at.open(options()) };
                store.model_cpu(CPU);
                let database =
                    if session == 0 { load_tiny(&store, 2, seed) } else { Database::open(&store).unwrap() };
                let acknowledged: Vec<Acknowledged> = notes.lock().unwrap().clone();
                let verification = verify_acknowledged(&database, &acknowledged).unwrap();
                assert_eq!(verification.lost, 0, "after crash {session} of seed {seed}: {verification}");
                assert_consistent(&database);
                let config = RunConfig {
                    acknowledge: Some(Arc::new(move |one: &Acknowledged| notes.lock().unwrap().push(*one))),
                    ..RunConfig::new(10, Seed(seed * 10 + session))
                };
                let clients = start(&database, &config).unwrap();
                sleep(Duration::from_millis(200) + Duration::from_nanos(random() % 200_000_000));
                assert!(!clients.has_failed());
                halt()
            });
            assert_eq!(end, Outcome::Halted);
        }
        simulate(seed, move || {
            let store = devices.open(options());
            store.model_cpu(CPU);
            let database = Database::open(&store).unwrap();
            let record = record.lock().unwrap();
            assert!(record.len() > 300, "only {} transactions before three crashes", record.len());
            let verification = verify_acknowledged(&database, &*record).unwrap();
            assert_eq!(verification.lost, 0, "{verification}");
            assert_consistent(&database);
            let more = RunConfig { transactions_per_client: Some(23), ..RunConfig::new(4, Seed(1)) };
            run(&database, &more, None).unwrap();
            assert_consistent(&database);
            store.shutdown().unwrap();
        });
    }
}

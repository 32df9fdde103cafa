//! The suite `model`: hooktrace's random work must find nothing, and must find each left-out step.

use super::cache::MODEL;
use super::server::Server;
use super::test::Bench;
use anyhow::{Result, bail};

/// Steps of one run.
const STEPS: u32 = 60_000;

/// Runs without a fault.
const SEEDS: u32 = 10;

/// Steps of the cache that can be left out (hooktrace's `model.c`).
const FAULTS: &[&str] = &["forget", "cut", "drop", "wait", "early", "clean", "stale"];

/// Seeds of which one must show a fault. Most do with the first.
const FAULT_SEEDS: u32 = 5;

/// A ring that is smaller than the relation, so that pages are destaged all the time.
const CONFIGURATION: &str = "
shared_preload_libraries = 'hooktrace'
shared_buffers = 1MB
max_connections = 20
autovacuum = off
hooktrace.frames = 128
hooktrace.destage_delay = 500
hooktrace.pull = 4
";

/// Counters that must not be zero at the end: what they count has happened.
const MUST_HAPPEN: &[&str] = &[
    "hits",
    "misses",
    "staged dirty",
    "staged clean",
    "waits for room",
    "pulled",
    "destaged",
    "superseded in flight",
    "forgotten dirty",
    "waits for destage",
    "relations dropped",
    "clean compared",
];

pub(super) fn test(bench: &Bench) -> Result<()> {
    let server = Server::start(&bench.build, &bench.user, "model", &["-k"], CONFIGURATION)?;
    server.query("CREATE EXTENSION hooktrace")?;
    let run = |seed: u32, fault: &str| {
        // A table of its own: after a fault it may be damaged.
        server.query("CREATE TABLE model (i int) WITH (autovacuum_enabled = off)")?;
        let said = server.query(&format!("SELECT hooktrace_model('model', {STEPS}, {seed}, '{fault}')"));
        server.query("DROP TABLE model")?;
        said
    };
    for seed in 1..=SEEDS {
        run(seed, "none")?;
    }
    let counters = server.counters(&MODEL)?;
    for name in MUST_HAPPEN {
        if !counters.iter().any(|(counted, n)| counted == name && *n > 0) {
            bail!("model: the counter `{name}` is zero: this was not tested");
        }
    }
    for fault in FAULTS {
        let noticed = (1..=FAULT_SEEDS)
            .find(|seed| run(*seed, fault).is_err_and(|error| error.to_string().contains("expected")));
        match noticed {
            Some(seed) => println!("model: without the step `{fault}`: noticed with seed {seed}"),
            None => bail!("model: without the step `{fault}` {FAULT_SEEDS} runs found nothing"),
        }
    }
    server.check_log()?;
    server.stop()?;
    println!("model: {SEEDS} runs of {STEPS} steps agree; {} faults noticed", FAULTS.len());
    Ok(())
}

//! The suites `flash-model` and `through-model`: hooktrace's random work must find nothing, and must find
//! each left-out step.

use super::cache::{Cache, FAULTS, ORACLES};
use super::counters::Counters;
use super::server::Server;
use super::test::Bench;
use anyhow::{Result, bail};

/// Steps of one run.
const STEPS: u32 = 60_000;

/// Runs without a fault.
const SEEDS: u32 = 10;

/// Runs in which the cache's worker holds each page that it pulls for so long, before it hands the page down.
const PAUSED_SEEDS: u32 = 3;
const PAUSE_US: u32 = 5000;

/// Seeds of which one must show a fault. Most do with the first.
const FAULT_SEEDS: u32 = 5;

pub(super) fn test(bench: &Bench, cache: &Cache) -> Result<()> {
    let name = format!("{} model", cache.name);
    let server =
        Server::start(&bench.build, &bench.user, &name, &["-k"], &format!("{}{ORACLES}", cache.model))?;
    server.query("CREATE EXTENSION hooktrace")?;
    let run = |seed: u32, fault: &str, pause_us: u32| {
        // A table of its own: after a fault it may be damaged.
        server.query("CREATE TABLE model (i int) WITH (autovacuum_enabled = off)")?;
        let said =
            server.query(&format!("SELECT hooktrace_model('model', {STEPS}, {seed}, '{fault}', {pause_us})"));
        server.query("DROP TABLE model")?;
        said
    };
    for seed in 1..=SEEDS {
        run(seed, "none", 0)?;
    }
    for seed in 1..=PAUSED_SEEDS {
        run(seed, "none", PAUSE_US)?;
    }
    Counters::of(bench, &server, &name)?.must_happen(cache.model_must_happen)?;
    for fault in FAULTS {
        let noticed = (1..=FAULT_SEEDS)
            .find(|seed| run(*seed, fault, 0).is_err_and(|error| error.to_string().contains("expected")));
        match noticed {
            Some(seed) => println!("{name}: without the step `{fault}`: noticed with seed {seed}"),
            None => bail!("{name}: without the step `{fault}` {FAULT_SEEDS} runs found nothing"),
        }
    }
    server.check_log()?;
    server.stop()?;
    println!(
        "{name}: {SEEDS} runs of {STEPS} steps agree, and {PAUSED_SEEDS} with a slow worker; {} faults noticed",
        FAULTS.len()
    );
    Ok(())
}

//! The suites `flash-kill` and `through-kill`: processes of every kind are killed under load, and recovery
//! must find everything that was acknowledged.
//!
//! Tested: the worker is there before redo and until after the shutdown checkpoint, redo uses the hooks, and
//! pages that left DRAM are not missed. The cache keeps its dirty pages over checkpoints and crashes: without
//! them the sums would be wrong.

use super::cache::{Cache, ORACLES, WORKER};
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Processes that are killed, in turn: a part of the process's title.
const VICTIMS: [&str; 7] =
    [CLIENT, WORKER, "checkpointer", "background writer", "walwriter", "autovacuum launcher", POSTMASTER];

/// As [`VICTIMS`], of PostgreSQL 18 and later.
const IO_WORKER: &str = "io worker";

/// The value of the setting, as in [`ORACLES`].
const MODULES: &str = "entresol, hooktrace";

/// What the server says before redo, if pages were noted as durable, and after it, if the cache has spared it
/// pages.
const SPARED: [&str; 2] = [
    "pages as durable in their files",
    "changes that the cache had made durable, and did not read their pages",
];

/// One of pgbench's backends.
const CLIENT: &str = "postgres postgres [local]";
pub(super) const POSTMASTER: &str = "postmaster";

const CLIENTS: &str = "8";

/// Seconds of load before the kill.
const LOAD: Duration = Duration::from_secs(2);

pub(super) fn test(bench: &Bench, cache: &Cache, rounds: u32) -> Result<()> {
    let name = format!("{} kill", cache.name);
    let server =
        Server::start(&bench.build, &bench.user, &name, &["-k"], &format!("{}{ORACLES}", cache.kill))?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "5"]))?;
    server.query("CREATE EXTENSION amcheck")?;
    let mut acknowledged = 0;
    let io_worker = (bench.build.version().major >= 18).then_some(IO_WORKER);
    let victims = VICTIMS.into_iter().chain(io_worker);
    for (round, victim) in (0..rounds).zip(victims.cycle()) {
        acknowledged += kill_under_load(&server, victim)?;
        wait_until_it_runs(&server, victim == POSTMASTER)?;
        check(&server, acknowledged).with_context(|| format!("{name}: round {round}, {victim}"))?;
    }
    server.check_log_for_panics()?;
    if cache.is_needed() {
        let said = server.said_since(0)?;
        if let Some(missing) = SPARED.iter().find(|spared| !said.contains(**spared)) {
            bail!("{name}: redo was spared nothing: the server has not said \"{missing}\"");
        }
    }
    match cache.is_needed() {
        true => refused_without_the_cache(bench, &server)?,
        false => acknowledged += runs_without_the_cache(&server, acknowledged)?,
    }
    let counters = server.counters()?;
    let text: Vec<_> = counters.iter().map(|(name, n)| format!("{name} {n}")).collect();
    println!("{name}, since the last kill: {}", text.join(", "));
    server.stop()?;
    // The shutdown drained the cache, or the cluster does not need it: this is a stock cluster again.
    output(bench.user.command(bench.build.program("pg_checksums")).arg("--check").arg(server.data()))?;
    println!("{name}: {rounds} rounds, {acknowledged} acknowledged transactions, none lost; checksums right");
    Ok(())
}

/// After a crash the cache is needed: a server without the module refuses the cluster, and so do stock
/// programs.
fn refused_without_the_cache(bench: &Bench, server: &Server<'_>) -> Result<()> {
    let pid = process(server, POSTMASTER)?.context("kill: there is no postmaster")?;
    output(Command::new("kill").args(["-9", &pid]))?;
    let program = |name| bench.user.command(bench.build.program(name));
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(server.data()).arg("-k").arg(server.socket());
        let said = output(postgres.args(["-c", "shared_preload_libraries="]));
        match said {
            Err(error) if format!("{error:#}").contains("database cluster needs its flash cache") => break,
            // The old server's children may still be there.
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(100)),
            _ => bail!("kill: a server without the module did not refuse the cluster"),
        }
    }
    let mut single = program("postgres");
    single.args(["--single", "-D"]).arg(server.data()).args(["-c", "shared_preload_libraries=", "template1"]);
    single.stdin(Stdio::null());
    let said = output(&mut single);
    if !said.as_ref().is_err_and(|why| format!("{why:#}").contains("database cluster needs its flash cache"))
    {
        bail!("kill: a single-user server did not refuse the cluster: {said:?}");
    }
    if let Ok(said) = output(program("pg_checksums").arg("--check").arg(server.data())) {
        bail!("kill: pg_checksums did not refuse a cluster that needs its cache: {said}");
    }
    wait_until_it_runs(server, true)
}

/// In write-through mode the files are complete. 1. A server without the module runs the cluster, and is
/// killed. 2. The server has its flash again, with pages of before. 3. The flash is lost. Each time
/// everything is there.
fn runs_without_the_cache(server: &Server<'_>, before: u64) -> Result<u64> {
    let mut acknowledged = 0;
    server.kill()?;
    server.set("shared_preload_libraries", "")?;
    server.start_again()?;
    check(server, before).context("kill: a server without the module")?;
    acknowledged += kill_under_load(server, POSTMASTER)?;
    wait_until_it_runs(server, true)?;
    // No checkpoint is complete after this load: redo begins where the flash knows it.
    acknowledged += kill_without_a_checkpoint(server)?;
    server.set("shared_preload_libraries", MODULES)?;
    wait_until_it_runs(server, true)?;
    check(server, before + acknowledged).context("kill: with its flash again")?;
    acknowledged += kill_without_a_checkpoint(server)?;
    server.set("shared_preload_libraries", "")?;
    wait_until_it_runs(server, true)?;
    acknowledged += kill_without_a_checkpoint(server)?;
    server.set("shared_preload_libraries", MODULES)?;
    wait_until_it_runs(server, true)?;
    check(server, before + acknowledged).context("kill: with its flash again, and the same checkpoint")?;
    acknowledged += kill_under_load(server, POSTMASTER)?;
    std::fs::remove_file(server.data().with_file_name("flash"))?;
    wait_until_it_runs(server, true)?;
    check(server, before + acknowledged).context("kill: after the loss of the flash")?;
    println!("through kill: ran without its cache, with an old one, and after a loss of the flash");
    Ok(acknowledged)
}

/// As [`kill_under_load`], the postmaster, soon after its last checkpoint.
fn kill_without_a_checkpoint(server: &Server<'_>) -> Result<u64> {
    let mut load = server.client("pgbench");
    load.args(["-n", "-c", CLIENTS, "-T", "60"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let load = load.spawn().context("pgbench cannot be started")?;
    thread::sleep(LOAD);
    server.kill()?;
    processed(load)
}

/// How many transactions were acknowledged before everything broke off.
pub(super) fn kill_under_load(server: &Server<'_>, victim: &str) -> Result<u64> {
    let mut load = server.client("pgbench");
    // Without -n it would empty the history.
    load.args(["-n", "-c", CLIENTS, "-T", "60"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let load = load.spawn().context("pgbench cannot be started")?;
    thread::sleep(LOAD / 2);
    server.query("CHECKPOINT")?;
    thread::sleep(LOAD / 2);
    // Before that pgbench would give up without a report.
    let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'";
    let until = Instant::now() + Duration::from_secs(60);
    while server.query(connected)? != CLIENTS && Instant::now() < until {
        thread::sleep(Duration::from_millis(100));
    }
    let pid = process(server, victim)?.with_context(|| format!("kill: there is no {victim}"))?;
    output(Command::new("kill").args(["-9", &pid]))?;
    processed(load)
}

/// How many transactions pgbench was told of.
pub(super) fn processed(load: Child) -> Result<u64> {
    let said = load.wait_with_output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let counted =
        said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let counted = counted.context("pgbench did not say how many transactions it processed")?;
    Ok(counted.split('/').next().unwrap_or_default().trim().parse()?)
}

/// The process whose title has `title`.
pub(super) fn process(server: &Server<'_>, title: &str) -> Result<Option<String>> {
    if title == POSTMASTER {
        return server.postmaster().map(Some);
    }
    let children = server.children("pid=,args=")?;
    let found = children.lines().find(|line| line.contains(title));
    Ok(found.and_then(|line| line.split_whitespace().next()).map(str::to_owned))
}

/// As [`process`]; waits until there is one, since the server may be beginning anew.
pub(super) fn awaited_process(server: &Server<'_>, title: &str) -> Result<String> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match process(server, title)? {
            Some(pid) => return Ok(pid),
            None if Instant::now() > until => bail!("there is no {title}"),
            None => thread::sleep(Duration::from_millis(100)),
        }
    }
}

pub(super) fn wait_until_it_runs(server: &Server<'_>, start: bool) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        // The postmaster's children need a moment to notice that it is gone.
        let runs = if start && server.query("SELECT 1").is_err() { server.start_again() } else { Ok(()) };
        match runs.and_then(|()| server.query("SELECT 1")) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error.context("it does not run again")),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Every acknowledged transaction is there, whole, and every index agrees with its table.
pub(super) fn check(server: &Server<'_>, acknowledged: u64) -> Result<()> {
    let count: u64 = server.query("SELECT count(*) FROM pgbench_history")?.parse()?;
    // Of each client, one more may have committed than it was told.
    if count < acknowledged {
        bail!("{acknowledged} transactions were acknowledged, {count} are there");
    }
    let sums = server.query(
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
                (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history)",
    )?;
    let mut sums = sums.split('|');
    let first = sums.next();
    if !sums.all(|sum| Some(sum) == first) {
        bail!("the sums of accounts, tellers, branches and history differ");
    }
    server.query(
        "SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
         WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND relpersistence = 'p'",
    )?;
    Ok(())
}

//! The suite `flash-failover`: a primary with a synchronous standby, each with its own flash, is killed under
//! load; the standby is promoted; the old primary is rewound and becomes the next standby. Everything that
//! was acknowledged must be on the new primary, every time. By turns the old primary is rewound as it was
//! killed, or after it was started and stopped, with pages that only its cache has.

use super::cache::ENTRESOL;
use super::kill::{self, POSTMASTER};
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long a standby may take to stream, or to be promoted.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn test(bench: &Bench, rounds: u32) -> Result<()> {
    let configuration = format!(
        "{}entresol.drain_at_shutdown = off\nwal_level = replica\nwal_log_hints = on\nwal_keep_size = 1GB\n",
        ENTRESOL.kill
    );
    let first = Server::start(&bench.build, &bench.user, "failover a", &["-k"], &configuration)?;
    output(first.client("pgbench").args(["-i", "-q", "-s", "5"]))?;
    first.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol")?;
    let second = Server::from_backup(&bench.build, &bench.user, "failover b", &first, &["-R"])?;
    own_flash(&second)?;
    second.start_again()?;
    let (mut primary, mut standby) = (&first, &second);
    let mut acknowledged = 0;
    for round in 0..rounds {
        let about = || format!("failover: round {round}");
        is_synchronous(primary, standby).with_context(about)?;
        acknowledged += kill::kill_under_load(primary, POSTMASTER).with_context(about)?;
        standby.query(&format!("SELECT pg_promote(true, {})", PATIENCE.as_secs())).with_context(about)?;
        // Nobody waits for a standby that is not there yet.
        standby.query("ALTER SYSTEM SET synchronous_standby_names = ''")?;
        standby.query("SELECT pg_reload_conf()")?;
        kill::check(standby, acknowledged).with_context(about)?;
        if round % 2 == 1 {
            kill::wait_until_it_runs(primary, true).with_context(about)?;
            primary.stop()?;
        }
        rewind(bench, primary, standby).with_context(about)?;
        (primary, standby) = (standby, primary);
    }
    is_synchronous(primary, standby)?;
    kill::check(primary, acknowledged)?;
    let stat = "SELECT flash_hits + staging_hits, destaged, checkpoints FROM entresol_stat";
    let counts = (primary.query(stat)?, standby.query(stat)?);
    for server in [primary, standby] {
        server.check_log_for_panics()?;
    }
    standby.stop()?;
    primary.query("ALTER SYSTEM SET entresol.drain_at_shutdown = on")?;
    primary.query("SELECT pg_reload_conf()")?;
    primary.stop()?;
    primary.check_files()?;
    println!(
        "failover: {rounds} rounds, {acknowledged} acknowledged transactions, none lost; hits, destages and \
         checkpoints since the last start: {} and {}",
        counts.0, counts.1
    );
    Ok(())
}

/// A copy of another cluster's files names that one's flash.
fn own_flash(server: &Server<'_>) -> Result<()> {
    server.set("entresol.flash", &server.data().with_file_name("flash").display().to_string())
}

/// Lets the primary wait for this standby, and waits until it does.
pub(super) fn is_synchronous(primary: &Server<'_>, standby: &Server<'_>) -> Result<()> {
    primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
    primary.query("SELECT pg_reload_conf()")?;
    let until = Instant::now() + PATIENCE;
    while primary.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")? != "1" {
        if Instant::now() > until {
            let log = fs::read_to_string(standby.log()).unwrap_or_default();
            bail!("the standby does not stream: {}", log.lines().last().unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// pg_rewind, which is to make a standby of the stopped or killed `old` primary.
pub(super) fn pg_rewind(bench: &Bench, old: &Server<'_>, new: &Server<'_>) -> Command {
    let source = format!("host={} port={} user=postgres dbname=postgres", new.socket().display(), new.port());
    let mut rewind = bench.user.command(bench.build.program("pg_rewind"));
    rewind.arg("-D").arg(old.data()).args(["--source-server", &source, "-R", "--no-sync"]);
    rewind
}

/// Makes a standby of the stopped or killed `old` primary. Its cache has pages that its files do not have, or
/// it is lost: pg_rewind lets it complete its files, and refuses it if it may not.
pub(super) fn rewind(bench: &Bench, old: &Server<'_>, new: &Server<'_>) -> Result<()> {
    let refused = output(pg_rewind(bench, old, new).arg("--no-ensure-shutdown"));
    let refused = refused.err().map(|why| format!("{why:#}"));
    if !refused.as_ref().is_some_and(|why| why.contains("target cluster needs its flash cache")) {
        bail!("pg_rewind did not refuse a target that needs its cache: {refused:?}");
    }
    rewind_complete(bench, old, new)
}

/// As [`rewind`], of a cluster that may need no cache.
pub(super) fn rewind_complete(bench: &Bench, old: &Server<'_>, new: &Server<'_>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match output(&mut pg_rewind(bench, old, new)) {
            Ok(_) => break,
            // The children of a postmaster that was killed need a moment to notice it.
            Err(why) if format!("{why:#}").contains("could not start server") && Instant::now() < until => {
                thread::sleep(Duration::from_millis(500));
            }
            Err(why) => return Err(why.context("pg_rewind")),
        }
    }
    // It has the configuration of its source now.
    own_flash(old)?;
    old.start_again()
}

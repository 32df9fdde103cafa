//! The suite `flash-single`: a single-user server recovers a cluster that has crashed with dirty pages on its
//! flash, and drains it. Patroni runs one before pg_rewind.

use super::cache::ENTRESOL;
use super::kill;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Crashes of the server, and as many of the single-user server that recovers it.
const ROUNDS: u32 = 3;

pub(super) fn test(bench: &Bench) -> Result<()> {
    // Nothing but the single-user server drains.
    let configuration =
        format!("{}entresol.drain_at_shutdown = off\ncheckpoint_timeout = 1h\n", ENTRESOL.kill);
    let server = Server::start(&bench.build, &bench.user, "single", &["-k"], &configuration)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "3"]))?;
    server.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol; CHECKPOINT")?;
    let mut count = 0;
    for round in 0..ROUNDS {
        output(server.client("pgbench").args(["-n", "-c", "4", "-t", "500"]))?;
        count += 2000;
        let dirty: u64 = server.query("SELECT slots_dirty FROM entresol_stat")?.parse()?;
        if dirty < 100 {
            bail!("single: {dirty} pages are dirty: this is not tested");
        }
        server.kill()?;
        let single = Single { bench, server: &server };
        if round == 0 {
            single.refuses(&["-c", "entresol.flash="], "database cluster needs its flash cache")?;
        }
        single.is_killed(Duration::from_millis(300 * u64::from(round)))?;
        let said = single.run(&[], "SELECT count(*) AS found FROM pgbench_history")?;
        if !said.contains(&format!("found = \"{count}\"")) {
            bail!("single: {count} transactions were acknowledged, the single-user server has: {said}");
        }
        // Now it is a stock cluster.
        server.check_files().context("single: after the single-user server")?;
        server.set("shared_preload_libraries", "")?;
        server.start_again()?;
        kill::check(&server, count).context("single: a stock server")?;
        server.stop()?;
        // The same without a crash: it needs no flash, and uses none.
        single.run(&[], "SELECT 1")?;
        server.set("shared_preload_libraries", "entresol")?;
        server.start_again()?;
        kill::check(&server, count).context("single: with the cache again")?;
    }
    server.check_log_for_panics()?;
    println!(
        "single: {ROUNDS} crashes recovered by a single-user server, killed once in each: {count} transactions there"
    );
    Ok(())
}

struct Single<'a> {
    bench: &'a Bench,
    server: &'a Server<'a>,
}

impl Single<'_> {
    fn command(&self, options: &[&str]) -> Command {
        let mut command = self.bench.user.command(self.bench.build.program("postgres"));
        command.args(["--single", "-D"]).arg(self.server.data()).args(options).arg("postgres");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a statement. Returns all that it said.
    fn said(&self, options: &[&str], statement: &str) -> Result<(bool, String)> {
        let mut single = self.command(options).spawn().context("a single-user server cannot be started")?;
        // It may have ended before.
        let _ =
            single.stdin.take().context("it has an input")?.write_all(format!("{statement}\n").as_bytes());
        let ended = single.wait_with_output()?;
        let text = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok((ended.status.success(), text.concat()))
    }

    fn run(&self, options: &[&str], statement: &str) -> Result<String> {
        match self.said(options, statement)? {
            (true, said) if !said.contains("FATAL") && !said.contains("PANIC") => Ok(said),
            (_, said) => bail!("single: the single-user server has failed: {said}"),
        }
    }

    fn refuses(&self, options: &[&str], expected: &str) -> Result<()> {
        match self.said(options, "SELECT 1")? {
            (false, said) if said.contains(expected) => Ok(()),
            (_, said) => bail!("single: the single-user server was to refuse: {said}"),
        }
    }

    /// One that is killed after a while, in the recovery or after it.
    fn is_killed(&self, after: Duration) -> Result<()> {
        let mut single = self.command(&[]).spawn().context("a single-user server cannot be started")?;
        thread::sleep(after);
        single.kill()?;
        single.wait()?;
        let _ = std::fs::remove_file(self.server.data().join("postmaster.pid"));
        Ok(())
    }
}

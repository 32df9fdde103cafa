//! The loads: TPC-C as go-tpc has it, and pgbench.

use super::Rig;
use crate::postgres::server::Server;
use crate::programs::{find, how_to_install, output};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The program that the study used, by the Go toolchain's own means: a module of tools.
const GO_MOD: &str = "module tools\n\ngo 1.22\n\nrequire github.com/pingcap/go-tpc v1.0.12\n";
const TOOLS_GO: &str =
    "//go:build tools\n\npackage tools\n\nimport _ \"github.com/pingcap/go-tpc/cmd/go-tpc\"\n";

/// The kinds of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// TPC-C's transactions by go-tpc 1.0.12, without waits.
    Tpcc,
    /// pgbench's own transaction.
    Pgbench,
}

/// A load of some size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub kind: Kind,
    /// Warehouses, or pgbench's scale.
    pub scale: u32,
    pub clients: u32,
}

/// What a run of the load has done.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Done {
    pub transactions: f64,
    /// New-order transactions a minute; with pgbench all transactions.
    pub per_minute: f64,
}

impl Load {
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Tpcc => format!("tpcc-{}", self.scale),
            Kind::Pgbench => format!("pgbench-{}", self.scale),
        }
    }

    /// The unit of [`Done::per_minute`].
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Tpcc => "tpmC",
            Kind::Pgbench => "transactions a minute",
        }
    }

    /// Loads the tables.
    pub fn fill(&self, rig: &Rig, server: &Server<'_>) -> Result<()> {
        match self.kind {
            Kind::Tpcc => {
                server.query("CREATE DATABASE tpcc")?;
                let mut prepare = self.go_tpc(rig, server.port())?;
                prepare.args(["-T", "2", "prepare", "--no-check"]);
                rig.steps.run("loading", &mut prepare)
            }
            Kind::Pgbench => {
                let mut fill = server.client("pgbench");
                fill.args(["-i", "-q", "-s", &self.scale.to_string()]);
                rig.steps.run("loading", &mut fill)
            }
        }
    }

    /// The program, to be run for some seconds; it reports each of them if `every_second`.
    pub fn program(
        &self,
        rig: &Rig,
        server: &Server<'_>,
        seconds: u32,
        every_second: bool,
    ) -> Result<Command> {
        let clients = self.clients.to_string();
        match self.kind {
            Kind::Tpcc => {
                let mut run = self.go_tpc(rig, server.port())?;
                run.args(["-T", &clients, "--time", &format!("{seconds}s"), "--ignore-error"]);
                run.args(["--interval", if every_second { "1s" } else { "1h" }, "run"]);
                Ok(run)
            }
            Kind::Pgbench => {
                let mut run = server.client("pgbench");
                run.args(["-n", "-M", "prepared", "-c", &clients, "-j", "1", "-T", &seconds.to_string()]);
                if every_second {
                    run.args(["-P", "1"]);
                }
                Ok(run)
            }
        }
    }

    /// Runs the load.
    pub fn run(&self, rig: &Rig, server: &Server<'_>, seconds: u32) -> Result<Done> {
        let said = output(&mut self.program(rig, server, seconds, false)?)?;
        self.parse(&said, seconds).with_context(|| format!("{} said: {said}", self.name()))
    }

    /// Runs the load, and counts the transactions of each second.
    pub fn run_by_seconds(&self, rig: &Rig, server: &Server<'_>, seconds: u32) -> Result<Vec<u32>> {
        let began = Instant::now();
        let mut program = self.program(rig, server, seconds, true)?;
        let mut running = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut counts = vec![0; seconds as usize];
        // A second without any transaction has no line: so it is the clock that counts.
        for line in BufReader::new(running.stdout.take().context("it has a pipe")?).lines() {
            let line = line?;
            if !line.starts_with("[Current]") || line.contains("_ERR") {
                continue;
            }
            let second = began.elapsed().as_secs().saturating_sub(1) as usize;
            if let (Some(count), Some(some)) = (counts.get_mut(second), field(&line, "Count: ")) {
                *count += some as u32;
            }
        }
        running.wait()?;
        Ok(counts)
    }

    fn parse(&self, said: &str, seconds: u32) -> Result<Done> {
        match self.kind {
            Kind::Tpcc => go_tpc_summary(said),
            Kind::Pgbench => {
                let counted = said
                    .lines()
                    .find_map(|line| line.strip_prefix("number of transactions actually processed: "))
                    .context("no number of transactions")?;
                let transactions: f64 = counted.split('/').next().unwrap_or_default().trim().parse()?;
                Ok(Done { transactions, per_minute: transactions * 60.0 / f64::from(seconds) })
            }
        }
    }

    fn go_tpc(&self, rig: &Rig, port: u16) -> Result<Command> {
        let mut program = Command::new(go_tpc(rig)?);
        program.args([
            "tpcc",
            "-d",
            "postgres",
            "-H",
            "127.0.0.1",
            "-U",
            "postgres",
            "-p",
            "none",
            "-D",
            "tpcc",
        ]);
        program.args(["-P", &port.to_string(), "--conn-params", "sslmode=disable"]);
        program.args(["--warehouses", &self.scale.to_string()]);
        Ok(program)
    }
}

/// The number after `name` in a line of go-tpc's.
fn field(line: &str, name: &str) -> Option<f64> {
    line.split(", ").find_map(|part| part.split_once(name)).and_then(|(_, value)| value.trim().parse().ok())
}

/// The sums of `[Summary]`'s lines: of all transactions, and the rate of new orders.
fn go_tpc_summary(said: &str) -> Result<Done> {
    let mut done = Done::default();
    let field = |line: &str, name: &str| -> Option<f64> {
        line.split(", ")
            .find_map(|part| part.split_once(name))
            .and_then(|(_, value)| value.trim().parse().ok())
    };
    for line in said.lines().filter(|line| line.starts_with("[Summary]") && !line.contains("_ERR")) {
        let count = field(line, "Count: ").with_context(|| format!("no count in {line}"))?;
        done.transactions += count;
        if line.contains("NEW_ORDER ") {
            done.per_minute = field(line, "TPM: ").with_context(|| format!("no rate in {line}"))?;
        }
    }
    if done.per_minute == 0.0 {
        bail!("there was no new-order transaction");
    }
    Ok(done)
}

/// go-tpc, built if it is not.
fn go_tpc(rig: &Rig) -> Result<PathBuf> {
    let folder = rig.folder.join("go-tpc");
    let program = folder.join("go-tpc");
    if program.is_file() {
        return Ok(program);
    }
    if find("go", &[]).is_none() {
        bail!("go missing, which builds the load: {}", how_to_install(&["golang-go"]));
    }
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("go.mod"), GO_MOD)?;
    fs::write(folder.join("tools.go"), TOOLS_GO)?;
    rig.steps.run("fetching go-tpc", Command::new("go").current_dir(&folder).args(["mod", "tidy"]))?;
    let mut build = Command::new("go");
    build
        .current_dir(&folder)
        .args(["build", "-o"])
        .arg(&program)
        .arg("github.com/pingcap/go-tpc/cmd/go-tpc");
    rig.steps.run("building go-tpc", &mut build)?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_added_up() {
        let said = "[Summary] DELIVERY - Takes(s): 59.9, Count: 40, TPM: 40.1, Sum(ms): 1.0, Avg(ms): 2.0\n\
                    [Summary] NEW_ORDER - Takes(s): 59.9, Count: 450, TPM: 450.8, Sum(ms): 1.0, Avg(ms): 2.0\n\
                    [Summary] NEW_ORDER_ERR - Takes(s): 59.9, Count: 3, TPM: 3.0, Sum(ms): 1.0, Avg(ms): 2.0\n\
                    tpmC: 450.8, tpmTotal: 490.9, efficiency: 350.5%\n";
        let done = go_tpc_summary(said).expect("a summary");
        assert_eq!((done.transactions, done.per_minute), (490.0, 450.8));
        assert!(go_tpc_summary("[Current] NEW_ORDER - Takes(s): 1.0, Count: 3, TPM: 5.0").is_err());
    }
}

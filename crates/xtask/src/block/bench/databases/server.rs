//! The databases: how each is made, started, loaded and ended.

use super::CLIENTS;
use crate::block::rig::{PATIENCE, call, wait_until};
use crate::device::Group;
use crate::programs::{User, output, within};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Postgres,
    Mariadb,
}

const POSTGRES: &str = "
listen_addresses = ''
shared_buffers = 32MB
max_wal_size = 256MB
checkpoint_timeout = 60s
";

impl Kind {
    pub fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Postgres => &[
                ("initdb", "postgresql"),
                ("pg_ctl", "postgresql"),
                ("pgbench", "postgresql"),
                ("psql", "postgresql"),
            ],
            Self::Mariadb => &[
                ("mariadbd", "mariadb-server"),
                ("mariadb-install-db", "mariadb-server"),
                ("mariadb", "mariadb-client"),
                ("sysbench", "sysbench"),
            ],
        }
    }

    /// Who runs it.
    pub fn owner(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mysql",
        }
    }

    /// All of its memory, the page cache of its files included. MariaDB reads past that.
    pub fn memory_bytes(self) -> u64 {
        match self {
            Self::Postgres => 160 << 20,
            Self::Mariadb => 1 << 30,
        }
    }
}

/// In a control group of its own.
pub(super) struct Database<'a> {
    kind: Kind,
    user: &'a User,
    group: &'a Group,
    pub data: PathBuf,
    /// Socket and logs.
    run: PathBuf,
    pid: Option<String>,
}

impl<'a> Database<'a> {
    pub fn new(kind: Kind, user: &'a User, group: &'a Group, data: PathBuf, run: PathBuf) -> Result<Self> {
        fs::create_dir_all(&run)?;
        user.own(&run)?;
        Ok(Self { kind, user, group, data, run, pid: None })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.user.command(call(program).get_program());
        command.env("PGHOST", &self.run).env("LC_ALL", "C").env("HOME", &self.run);
        command
    }

    /// As the root of MariaDB.
    fn client(&self) -> Command {
        let mut client = call("mariadb");
        client.arg("--no-defaults").arg("-S").arg(self.run.join("sock")).args(["-u", "root", "-e"]);
        client
    }

    /// Makes it, and fills it.
    pub fn make(&mut self) -> Result<()> {
        match self.kind {
            Kind::Postgres => {
                let mut initdb = self.command("initdb");
                output(initdb.arg("-D").arg(&self.data).args(["-A", "trust", "--no-locale"]))?;
                let configuration = self.data.join("postgresql.conf");
                let text = fs::read_to_string(&configuration)?;
                fs::write(&configuration, text + POSTGRES)?;
                self.start()?;
                output(self.command("createdb").arg("bench"))?;
                output(self.command("pgbench").args(["-i", "-q", "-s", "40", "bench"]))?;
                let ask = ["-X", "-q", "-d", "bench", "-c", "VACUUM ANALYZE", "-c", "CHECKPOINT"];
                output(self.command("psql").args(ask)).map(drop)
            }
            Kind::Mariadb => {
                let mut install = self.command("mariadb-install-db");
                install.arg("--no-defaults").arg(format!("--datadir={}", self.data.display()));
                output(install.arg("--auth-root-authentication-method=normal"))?;
                self.start()?;
                output(self.client().arg("CREATE DATABASE sbtest"))?;
                output(self.sysbench(0).arg("prepare")).map(drop)
            }
        }
    }

    pub fn start(&mut self) -> Result<()> {
        let log = self.run.join("log");
        match self.kind {
            Kind::Postgres => {
                let _ = fs::remove_file(self.data.join("postmaster.pid"));
                let mut start = self.command("pg_ctl");
                let socket = format!("-c unix_socket_directories={}", self.run.display());
                start
                    .arg("-D")
                    .arg(&self.data)
                    .args(["-w", "-t", "120", "-o", &socket, "-l"])
                    .arg(&log)
                    .arg("start");
                let mut start = within(self.group.path(), &start);
                // The server inherits the pipe of what is read, so nothing is.
                let started =
                    start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
                if !started.success() {
                    bail!("PostgreSQL does not start: {}", fs::read_to_string(&log).unwrap_or_default());
                }
                let text = fs::read_to_string(self.data.join("postmaster.pid"))?;
                self.pid = text.lines().next().map(str::to_owned);
                Ok(())
            }
            Kind::Mariadb => {
                let mut start = self.command("mariadbd");
                start.arg("--no-defaults").arg(format!("--datadir={}", self.data.display()));
                start.arg(format!("--socket={}", self.run.join("sock").display())).arg("--skip-networking");
                start.arg(format!("--pid-file={}", self.run.join("pid").display()));
                // SCE's memory is a seventh of the database.
                start.args(["--innodb-buffer-pool-size=80M", "--innodb-flush-method=O_DIRECT"]);
                start.args(["--innodb-log-file-size=128M", "--innodb-flush-log-at-trx-commit=1"]);
                start.arg("--innodb-io-capacity=1000");
                let mut start = within(self.group.path(), &start);
                let log = File::create(&log)?;
                start.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
                let mut process = start.spawn().context("mariadbd cannot be run")?;
                self.pid = Some(process.id().to_string());
                // It is waited for when it has ended, so that it does not stay as a zombie.
                thread::spawn(move || process.wait());
                wait_until("MariaDB is ready", || Ok(output(self.client().arg("SELECT 1")).is_ok()))
            }
        }
    }

    fn sysbench(&self, seconds: u32) -> Command {
        let mut sysbench = Command::new("sysbench");
        sysbench.args([
            "oltp_read_write",
            "--db-driver=mysql",
            "--mysql-user=root",
            "--tables=4",
            "--table-size=400000",
        ]);
        sysbench.arg(format!("--mysql-socket={}", self.run.join("sock").display()));
        sysbench.args(["--rand-type=pareto", "--report-interval=0"]);
        sysbench.arg(format!("--threads={CLIENTS}")).arg(format!("--time={seconds}"));
        sysbench
    }

    /// Transactions a second.
    pub fn load(&self, seconds: u32) -> Result<f64> {
        let said = match self.kind {
            Kind::Postgres => {
                let mut pgbench = self.command("pgbench");
                pgbench.args(["-n", "-M", "prepared", "-c", &CLIENTS.to_string(), "-j", "2"]);
                output(pgbench.args(["-T", &seconds.to_string(), "bench"]))?
            }
            Kind::Mariadb => output(self.sysbench(seconds).arg("run"))?,
        };
        transactions(&said).with_context(|| format!("no transactions a second in: {said}"))
    }

    /// With all that it has to write.
    pub fn end(&mut self) -> Result<()> {
        self.signal(if self.kind == Kind::Postgres { "INT" } else { "TERM" })
    }

    /// At once: what it has written is not needed any more.
    pub fn kill(&mut self) {
        let _ = self.signal(if self.kind == Kind::Postgres { "QUIT" } else { "KILL" });
    }

    fn signal(&mut self, name: &str) -> Result<()> {
        let Some(pid) = self.pid.take() else { return Ok(()) };
        output(Command::new("kill").arg(format!("-{name}")).arg(&pid))?;
        let process = Path::new("/proc").join(&pid);
        let began = Instant::now();
        while process.exists() {
            if began.elapsed() > 2 * PATIENCE {
                bail!("the database does not end");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        self.kill();
        // One that is left would hold the volume's file system.
        for process in self.group.processes() {
            let _ = output(Command::new("kill").args(["-KILL", &process]));
        }
    }
}

/// Of pgbench or of sysbench.
fn transactions(said: &str) -> Option<f64> {
    let of_pgbench = |line: &str| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok();
    let of_sysbench = |line: &str| {
        let (_, rate) = line.trim().strip_prefix("transactions:")?.split_once('(')?;
        rate.split(' ').next()?.parse().ok()
    };
    said.lines().find_map(|line| of_pgbench(line).or_else(|| of_sysbench(line)))
}

#[cfg(test)]
mod tests {
    use super::transactions;

    #[test]
    fn both_loads_are_understood() {
        let pgbench =
            "number of failed transactions: 0 (0.000%)\ntps = 512.25 (without initial connection time)";
        assert_eq!(transactions(pgbench), Some(512.25));
        let sysbench = "SQL statistics:\n    transactions:                        1234   (61.70 per sec.)";
        assert_eq!(transactions(sysbench), Some(61.7));
        assert_eq!(transactions("nothing"), None);
    }
}

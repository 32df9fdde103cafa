//! PostgreSQL on a volume whose server is killed under load: a stock server on ext4, pgbench, and SIGKILL.
//!
//! 1. In odd rounds the connection is lost: the file system is mounted again, PostgreSQL recovers.
//! 2. In even rounds a proxy connects anew, the file system stays mounted, and PostgreSQL continues over
//!    three kills. In every second of these rounds commits are not synced, so that there are few flushes: a
//!    write that the killed server had acknowledged is missing from PostgreSQL's files if it is lost.
//! 3. The moments are random, or, in every second pair of rounds, a chosen call: strace ends the server in
//!    the n-th call of a thread that writes to the disk or the flash, or syncs it.
//!
//! After each round e2fsck must find nothing, the sums of pgbench's four tables must be equal, its history
//! must have each transaction that was acknowledged, and pg_amcheck must find nothing.

use super::{ROUNDS, TestArgs, drawn};
use crate::block::attached::{Attached, Connection};
use crate::block::rig::{
    Filled, PATIENCE, Rig, Running, call, make_file, missing, need, need_mounts, wait_until,
};
use crate::block::volume::{Volume, stop};
use crate::programs::{User, output};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const OWNER: &str = "postgres";
/// pgbench's clients: of each, the last transaction may be there unacknowledged.
const CLIENTS: u64 = 4;

/// What is written reaches the volume soon, long before it is flushed.
const SETTINGS: &str = "
listen_addresses = ''
port = 5439
shared_buffers = 4MB
min_wal_size = 2MB
max_wal_size = 8MB
checkpoint_timeout = 30s
backend_flush_after = 64kB
bgwriter_flush_after = 64kB
autovacuum_naptime = 5s
";

pub(super) fn test(rig: impl Fn() -> Result<Rig>, arguments: &TestArgs) -> Result<()> {
    need_mounts()?;
    need(&[
        ("nbdkit", "nbdkit"),
        ("setpriv", "util-linux"),
        ("initdb", "postgresql"),
        ("pg_ctl", "postgresql"),
        ("pgbench", "postgresql"),
        ("psql", "postgresql"),
        ("pg_amcheck", "postgresql"),
    ])?;
    let Ok(user) = User::named(Some(OWNER)) else { return missing(format!("there is no user {OWNER}")) };
    let rig = rig()?;
    let can_trace = output(Command::new("strace").args([
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-e",
        "trace=fsync",
        "-o",
        "/dev/null",
        "true",
    ]));
    for mode in &arguments.modes {
        Run::new(&rig, &user, mode, arguments, can_trace.is_ok())?
            .rounds(arguments.rounds.unwrap_or(ROUNDS))?;
    }
    Ok(())
}

/// A volume in one mode, and what is known of its database.
struct Run<'a> {
    rig: &'a Rig,
    volume: Volume<'a>,
    database: Database<'a>,
    mode: &'a str,
    can_trace: bool,
    /// Transactions that the history had at the last look.
    known: u64,
    acknowledged: u64,
    kills: u32,
}

impl<'a> Run<'a> {
    fn new(
        rig: &'a Rig,
        user: &'a User,
        mode: &'a str,
        arguments: &TestArgs,
        can_trace: bool,
    ) -> Result<Self> {
        let (disk, flash) = (rig.file("disk"), rig.file("flash"));
        make_file(&disk, 320, Filled::Sparse)?;
        make_file(&flash, 40, Filled::Sparse)?;
        let policy = arguments.policy.as_deref().unwrap_or("face-gsc");
        let options = ["--mode", mode, "--policy", policy];
        let volume = Volume::create(rig, "data", &disk, &flash, &options)?;
        let database = Database::new(rig, user)?;
        let run = Self { rig, volume, database, mode, can_trace, known: 0, acknowledged: 0, kills: 0 };
        let (server, attached) = run.serve(Connection::Lost)?;
        output(call("mkfs.ext4").arg("-q").arg(attached.device()))?;
        if attached.mount().is_err() {
            return missing("this machine mounts no loop device");
        }
        run.database.make()?;
        run.database.stop("INT")?;
        drop(attached);
        stop(server)?;
        Ok(run)
    }

    fn rounds(mut self, rounds: u32) -> Result<()> {
        for round in 1..=rounds {
            self.round(round).with_context(|| format!("{}, round {round}", self.mode))?;
        }
        println!(
            "{}: {rounds} rounds, {} kills, {} acknowledged transactions, none lost; sums, e2fsck and pg_amcheck agree",
            self.mode, self.kills, self.acknowledged
        );
        Ok(())
    }

    fn round(&mut self, round: u32) -> Result<()> {
        let (server, attached, acknowledged) =
            if round % 2 == 1 { self.connection_is_lost(round)? } else { self.connection_stays(round)? };
        // Everything is read again from the volume; the file system's journal is replayed first.
        let _ = attached.unmount();
        attached.mount()?;
        attached.unmount()?;
        attached.check()?;
        attached.mount()?;
        self.database.start()?;
        self.known = self.database.check(self.known, acknowledged)?;
        self.acknowledged += acknowledged;
        self.database.stop("INT")?;
        attached.unmount()?;
        drop(attached);
        stop(server)
    }

    fn serve(&self, connection: Connection) -> Result<(Running, Attached)> {
        let mut server = self.volume.serve()?;
        let attached = Attached::new(self.rig, &self.volume, &mut server, connection, &[])?;
        Ok((server, attached.context("the server has ended")?))
    }

    /// With the server everything above it ends, too.
    fn connection_is_lost(&mut self, round: u32) -> Result<(Running, Attached, u64)> {
        let under = self.chosen_call(round, 0);
        let mut acknowledged = 0;
        // A chosen call may be made before there is a load.
        if let Ok(mut server) = self.volume.serve_with(None, &under) {
            let attached = Attached::new(self.rig, &self.volume, &mut server, Connection::Lost, &[])?;
            if attached.as_ref().is_some_and(|attached| attached.mount().is_ok())
                && self.database.start().is_ok()
            {
                let load = self.database.load(20, true)?;
                self.wait_for_the_kill(&mut server, &under, &format!("{}{round}", self.mode), (0.3, 2.0))?;
                server.kill();
                self.database.stop("QUIT")?;
                acknowledged = load.acknowledged()?.0;
            }
            server.kill();
            self.database.stop("QUIT")?;
        }
        self.kills += 1;
        let (server, attached) = self.serve(Connection::Lost)?;
        Ok((server, attached, acknowledged))
    }

    /// The file system stays mounted, and PostgreSQL runs, over three kills.
    fn connection_stays(&mut self, round: u32) -> Result<(Running, Attached, u64)> {
        let (mut server, attached) = self.serve(Connection::Retried)?;
        attached.mount()?;
        self.database.start()?;
        let is_synced = round % 4 != 2;
        let load = self.database.load(7, is_synced)?;
        let mut under = Vec::new();
        for kill in 1..=3 {
            let words = format!("{}{round}{kill}", self.mode);
            self.wait_for_the_kill(&mut server, &under, &words, (0.2, 1.5))?;
            server.kill();
            self.kills += 1;
            under = if kill < 3 { self.chosen_call(round, kill) } else { Vec::new() };
            server = match self.volume.serve_with(None, &under) {
                Ok(server) => server,
                Err(error) if under.is_empty() => return Err(error),
                // Its call was made before it was ready.
                Err(_) => {
                    self.kills += 1;
                    under = Vec::new();
                    self.volume.serve()?
                }
            };
        }
        let (acknowledged, said) = load.acknowledged()?;
        if ["aborted", "ERROR", "PANIC"].iter().any(|sign| said.contains(sign)) {
            bail!("PostgreSQL noticed the kills: {said}");
        }
        self.database.stop(if is_synced { "QUIT" } else { "INT" })?;
        Ok((server, attached, acknowledged))
    }

    /// In every second pair of rounds: strace, which ends the server in such a call of a thread.
    fn chosen_call(&self, round: u32, kill: u32) -> Vec<String> {
        if round % 4 >= 2 || !self.can_trace {
            return Vec::new();
        }
        let number = 3 + (120.0 * drawn(&format!("{}{round}/{kill}", self.mode))) as u32;
        let (calls, number) = match round % 8 < 4 {
            true => ("pwrite64,pwritev,pwritev2,fdatasync", number),
            false => ("fdatasync", number / 4 + 1),
        };
        let trace = self.rig.file("trace");
        let words = format!(
            "strace -D -f -qq -o {} --seccomp-bpf -e trace={calls} -e inject={calls}:signal=KILL:when={number}",
            trace.display()
        );
        words.split(' ').map(str::to_owned).collect()
    }

    /// The chosen call, which may never be made, or a random moment within (least, span) seconds.
    fn wait_for_the_kill(
        &self,
        server: &mut Running,
        under: &[String],
        words: &str,
        (least, span): (f64, f64),
    ) -> Result<()> {
        if under.is_empty() {
            thread::sleep(Duration::from_secs_f64(least + span * drawn(words)));
            return Ok(());
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) && !server.has_ended()? {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// PostgreSQL on the mounted volume.
struct Database<'a> {
    user: &'a User,
    data: PathBuf,
    /// Socket, and what is logged. Not on the volume.
    run: PathBuf,
}

impl<'a> Database<'a> {
    fn new(rig: &Rig, user: &'a User) -> Result<Self> {
        let run = rig.file("run");
        let _ = fs::remove_dir_all(&run);
        fs::create_dir_all(&run)?;
        user.own(&run)?;
        Ok(Self { user, data: rig.file("mnt").join("data"), run })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.user.command(call(program).get_program());
        command.env("PGHOST", &self.run).env("PGPORT", "5439").env("LC_ALL", "C").env("HOME", &self.run);
        command
    }

    fn make(&self) -> Result<()> {
        self.user.own(self.data.parent().unwrap_or(Path::new("/")))?;
        let mut initdb = self.command("initdb");
        initdb.arg("-D").arg(&self.data);
        output(initdb.args(["-A", "trust", "--data-checksums", "--wal-segsize=1", "--no-locale"]))?;
        let configuration = self.data.join("postgresql.conf");
        let text = fs::read_to_string(&configuration)?;
        let socket = format!("unix_socket_directories = '{}'\n", self.run.display());
        fs::write(&configuration, text + SETTINGS + &socket)?;
        self.start()?;
        output(self.command("createdb").arg("bench"))?;
        output(self.command("pgbench").args(["-i", "-q", "-s", "2", "bench"])).map(drop)
    }

    fn start(&self) -> Result<()> {
        // Of a PostgreSQL that was killed, whose number another process may have.
        let _ = fs::remove_file(self.data.join("postmaster.pid"));
        let log = self.run.join("log");
        let mut start = self.command("pg_ctl");
        start.arg("-D").arg(&self.data).args(["-w", "-t", "120", "-l"]).arg(&log).arg("start");
        // The server inherits the pipe of what is read, so nothing is.
        let started = start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if !started.success() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<_> = said.lines().rev().take(20).collect();
            bail!("PostgreSQL does not start: {}", last.into_iter().rev().collect::<Vec<_>>().join("; "));
        }
        let pid = fs::read_to_string(self.data.join("postmaster.pid"))?;
        Ok(fs::write(self.run.join("pid"), pid.lines().next().unwrap_or_default())?)
    }

    /// With a checkpoint (INT) or at once (QUIT), also if its files cannot be read any more.
    fn stop(&self, signal: &str) -> Result<()> {
        let noted = self.run.join("pid");
        let Ok(pid) = fs::read_to_string(&noted) else { return Ok(()) };
        fs::remove_file(&noted)?;
        let _ = Command::new("kill").arg(format!("-{signal}")).arg(&pid).stderr(Stdio::null()).status();
        let process = Path::new("/proc").join(&pid);
        wait_until("PostgreSQL has ended", || Ok(!process.exists()))
    }

    /// Transactions for so many seconds, whose commits are synced or not; it ends when the database does.
    fn load(&self, seconds: u32, is_synced: bool) -> Result<Load> {
        let said = self.run.join("load");
        let mut pgbench = self.command("pgbench");
        let synced = if is_synced { "on" } else { "off" };
        pgbench.env("PGOPTIONS", format!("-c synchronous_commit={synced}"));
        pgbench.args(["-n", "-c", &CLIENTS.to_string(), "-j", "2", "-T", &seconds.to_string(), "bench"]);
        let out = File::create(&said)?;
        pgbench.stdout(out.try_clone()?).stderr(out);
        Ok(Load { process: Running::keeping(&mut pgbench)?, said })
    }

    fn ask(&self, question: &str) -> Result<String> {
        output(self.command("psql").args(["-X", "-q", "-A", "-t", "-d", "bench", "-c", question]))
    }

    /// Every transaction is there, and nothing contradicts itself. How many there are.
    fn check(&self, known: u64, acknowledged: u64) -> Result<u64> {
        let sums = self.ask(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
                    (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
        )?;
        let mut each = sums.split('|');
        let first = each.next();
        if !each.all(|sum| Some(sum) == first) {
            bail!("the sums differ: {sums}");
        }
        let rows: u64 = self.ask("SELECT count(*) FROM pgbench_history")?.parse()?;
        let least = known + acknowledged;
        if !(least..=least + CLIENTS).contains(&rows) {
            bail!("{known} transactions and {acknowledged} acknowledged ones, but {rows} are there");
        }
        output(self.command("pg_amcheck").args(["--install-missing", "--heapallindexed", "bench"]))
            .context("pg_amcheck")?;
        Ok(rows)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let _ = self.stop("QUIT");
    }
}

/// pgbench.
struct Load {
    process: Running,
    said: PathBuf,
}

impl Load {
    /// Transactions that were acknowledged until it ended, and what it said.
    fn acknowledged(mut self) -> Result<(u64, String)> {
        let began = Instant::now();
        while !self.process.has_ended()? {
            if began.elapsed() > PATIENCE {
                bail!("pgbench does not end");
            }
            thread::sleep(Duration::from_millis(20));
        }
        let said = fs::read_to_string(&self.said)?;
        let counted =
            said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
        let number = counted.and_then(|counted| counted.split('/').next()?.trim().parse().ok());
        Ok((number.unwrap_or(0), said))
    }
}

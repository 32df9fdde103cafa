//! The suite `flash-lost`: under load and statements that change files, the flash is destroyed, and the
//! server is killed, or stopped. Its write-ahead log replaces the flash: everything that was acknowledged is
//! there.
//!
//! Some replays are cut off, and repeated. What cannot be replaced is refused, and nothing is changed.

pub(super) mod failover;
mod many;
mod refused;
pub(super) mod regress;
mod standby;
mod statements;

use super::cache::ENTRESOL;
use super::kill::{self, POSTMASTER};
use super::loopback::Loopback;
use super::server::Server;
use super::test::Bench;
use crate::programs::{is_root, output};
use anyhow::{Context, Result, bail};
use many::Many;
use statements::Statements;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// After the configuration of [`ENTRESOL`]: the least log that can be kept, so that pages are copied all the
/// time.
pub(super) const SURVIVES: &str = "
entresol.flash_loss = 'survive'
entresol.wal_keep_size = '64MB'
entresol.drain_at_shutdown = off
checkpoint_timeout = 30
max_wal_size = 48MB
min_wal_size = 32MB
max_prepared_transactions = 20
track_commit_timestamp = on
log_checkpoints = on
wal_level = replica
";

/// A standby that is down for a while must find its log at its primary.
const FOR_A_STANDBY: &str = "wal_keep_size = '4GB'\n";

/// The file by which an owner says that the flash is lost.
pub(super) const SIGNAL: &str = "flash_lost.signal";
/// Of the device that dies.
const DEVICE_MIB: u32 = 24;
const PATIENCE: Duration = Duration::from_secs(90);

/// Rows that several sessions lock at once, besides pgbench's own load: multixacts.
const SHARED_LOCKS: &str = "\\set aid random(1, 50)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid FOR KEY SHARE;
UPDATE pgbench_accounts SET filler = 'locked' WHERE aid = :aid;
COMMIT;
";

/// How the server comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Stopped,
    StoppedAtOnce,
}

/// What becomes of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Gone,
    Zeros,
    Another,
}

pub(super) fn test(bench: &Bench, rounds: u32) -> Result<()> {
    let lost = Lost::start(bench, "lost", "")?;
    lost.refusals()?;
    lost.without_images()?;
    let mut statements = Statements::new(lost.server.data().with_file_name("tablespaces"));
    lost.server.own(&statements.make_folder()?)?;
    let mut many = Many::default();
    let (mut acknowledged, mut cut_off) = (0, 0);
    for round in 0..rounds {
        let end = [End::Killed, End::Killed, End::Stopped, End::StoppedAtOnce][round as usize % 4];
        let loss = [Loss::Gone, Loss::Zeros, Loss::Another][round as usize % 3];
        let said = format!("lost: round {round}, {end:?}, {loss:?}");
        acknowledged +=
            lost.round(&mut statements, &mut many, (end, loss), round).with_context(|| said.clone())?;
        cut_off += u32::from(lost.start_after_loss(round % 5 == 4).with_context(|| said.clone())?);
        lost.check(&mut statements, acknowledged).with_context(|| said.clone())?;
        many.check(&lost.server).with_context(|| said)?;
    }
    many.release(&lost.server)?;
    lost.server.check_log_for_panics()?;
    lost.dies_under_load(&mut acknowledged)?;
    many.check(&lost.server)?;
    Lost::start(bench, "lost-primary", FOR_A_STANDBY)?.standby()?;
    Lost::start(bench, "lost-old", FOR_A_STANDBY)?.switched_over()?;
    lost.ends(&mut statements, acknowledged)?;
    println!(
        "lost: {rounds} rounds, {cut_off} replays cut off, {acknowledged} acknowledged transactions, {} statements and {} transactions \
         of {} subtransactions, none lost",
        statements.done(),
        many.done(),
        many::SUBTRANSACTIONS
    );
    Ok(())
}

/// Waits until a loss of the flash would be survived. `meanwhile` is done again and again.
pub(super) fn await_promise(server: &Server<'_>, meanwhile: impl Fn() -> Result<()>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let said = server.query("SELECT flash_loss FROM entresol_flash_loss()")?;
        if said == "survives, by WAL" {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("WAL does not replace the flash: {said}");
        }
        meanwhile()?;
        thread::sleep(Duration::from_millis(50));
    }
}

struct Lost<'a> {
    bench: &'a Bench,
    server: Server<'a>,
    /// For pgbench.
    script: PathBuf,
}

impl<'a> Lost<'a> {
    fn start(bench: &'a Bench, name: &str, more: &str) -> Result<Self> {
        let configuration = format!("{}{SURVIVES}{more}", ENTRESOL.kill);
        let server = Server::start(&bench.build, &bench.user, name, &["-k"], &configuration)?;
        output(server.client("pgbench").args(["-i", "-q", "-s", "5"]))?;
        server.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol")?;
        let script = server.data().with_file_name("locks.sql");
        fs::write(&script, SHARED_LOCKS)?;
        Ok(Lost { bench, server, script })
    }

    fn flash(&self) -> PathBuf {
        self.server.data().with_file_name("flash")
    }

    fn signal(&self) -> Result<()> {
        let path = self.server.data().join(SIGNAL);
        fs::write(&path, "")?;
        self.server.own(&path)
    }

    /// See [`await_promise`].
    fn await_promise(&self) -> Result<()> {
        await_promise(&self.server, || Ok(()))
    }

    fn load(&self, seconds: &str) -> Result<Child> {
        let mut load = self.server.client("pgbench");
        load.args(["-n", "-c", "6", "-T", seconds]).stdout(Stdio::piped()).stderr(Stdio::null());
        load.spawn().context("pgbench cannot be started")
    }

    /// Load and statements, until the server ends; and then the flash is destroyed. How many transactions
    /// were acknowledged.
    fn round(
        &self,
        statements: &mut Statements,
        many: &mut Many,
        (end, loss): (End, Loss),
        round: u32,
    ) -> Result<u64> {
        self.await_promise()?;
        let load = self.load("60")?;
        let mut locks = self.server.client("pgbench");
        locks.args(["-n", "-c", "4", "-T", "60", "-f"]).arg(&self.script);
        let mut locks = locks.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        many.work(&self.server, round)?;
        let ends = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let work = scope.spawn(|| statements.work(&self.server, round, &ends));
            // Before pgbench is connected, it would give up without a report.
            let connected = "SELECT count(*) >= 10 FROM pg_stat_activity WHERE application_name = 'pgbench'";
            let until = Instant::now() + PATIENCE;
            while self.server.query(connected).is_ok_and(|all| all != "t") && Instant::now() < until {
                thread::sleep(Duration::from_millis(50));
            }
            // Moments that no round shares with the one before.
            thread::sleep(Duration::from_millis(1200 + u64::from(round) * 377 % 2400));
            let ended = self.end(end);
            ends.store(true, SeqCst);
            work.join().map_err(|_| anyhow::anyhow!("a bug in the statements"))??;
            ended
        });
        ended?;
        locks.wait()?;
        let acknowledged = kill::processed(load)?;
        self.destroy(loss)?;
        Ok(acknowledged)
    }

    fn end(&self, end: End) -> Result<()> {
        match end {
            End::Killed => self.server.kill(),
            End::Stopped => self.server.stop(),
            End::StoppedAtOnce => self.server.stop_at_once(),
        }
    }

    fn destroy(&self, loss: Loss) -> Result<()> {
        let flash = self.flash();
        let bytes = fs::metadata(&flash)?.len();
        match loss {
            Loss::Gone => fs::remove_file(&flash)?,
            Loss::Zeros => fs::File::options().write(true).open(&flash)?.set_len(0)?,
            Loss::Another => {
                fs::File::create(&flash)?.set_len(bytes)?;
                self.server.own(&flash)?;
            }
        }
        Ok(())
    }

    /// Starts it without its flash. With `cuts` the replay is killed, and begun again. Whether it was.
    fn start_after_loss(&self, cuts: bool) -> Result<bool> {
        self.signal()?;
        let before = self.server.said();
        let was_cut = cuts && self.cut_off()?;
        kill::wait_until_it_runs(&self.server, true)?;
        let said = self.server.said_since(before)?;
        for expected in
            ["the flash cache is lost: redo starts at", "complete without the flash cache that was lost"]
        {
            if !said.contains(expected) {
                bail!("the log has no {expected:?}: {said}");
            }
        }
        if self.server.data().join(SIGNAL).exists() {
            bail!("the signal is still there");
        }
        Ok(was_cut)
    }

    /// Starts it, and kills it while it replays.
    fn cut_off(&self) -> Result<bool> {
        let before = self.server.said();
        thread::scope(|scope| {
            let start = scope.spawn(|| self.server.start_again());
            let until = Instant::now() + PATIENCE;
            let mut was_cut = false;
            while !start.is_finished() && Instant::now() < until {
                if self.server.said_since(before)?.contains("redo starts at") {
                    thread::sleep(Duration::from_millis(150));
                    was_cut = kill::process(&self.server, POSTMASTER).is_ok() && self.server.kill().is_ok();
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
            // It is not to succeed.
            _ = start.join();
            Ok(was_cut)
        })
    }

    /// Everything is there.
    fn check(&self, statements: &mut Statements, acknowledged: u64) -> Result<()> {
        kill::check(&self.server, acknowledged)?;
        statements.check(&self.server)?;
        let mut check = self.server.client("pg_amcheck");
        output(check.args(["--heapallindexed", "-d", "postgres"])).map(drop)
    }

    /// Without images no log replaces the flash, and no statement waits for a log that would.
    fn without_images(&self) -> Result<()> {
        let images = |setting: &str| {
            self.server.query(&format!("ALTER SYSTEM SET full_page_writes = {setting}"))?;
            self.server.query("SELECT pg_reload_conf()")
        };
        self.await_promise()?;
        images("off")?;
        let until = Instant::now() + PATIENCE;
        while self.server.query("SELECT flash_loss LIKE 'fatal%' FROM entresol_flash_loss()")? != "t" {
            if Instant::now() > until {
                bail!("lost: a log without images is to replace the flash");
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.server
            .query_that_ends("CREATE DATABASE without_images TEMPLATE template0 STRATEGY file_copy")?;
        images("on")?;
        self.await_with(|| self.server.query("CHECKPOINT").map(drop))?;
        self.server.query("DROP DATABASE without_images").map(drop)
    }

    /// The device fails under load: the server starts again by itself.
    fn dies_under_load(&self, acknowledged: &mut u64) -> Result<()> {
        if !is_root()? {
            println!("lost: a device that dies is left out: only root can make one");
            return Ok(());
        }
        let flash = match Loopback::new(self.bench, "lost-device", DEVICE_MIB) {
            Ok(flash) => flash,
            Err(why) => {
                println!("lost: a device that dies is left out: this machine makes none ({why:#})");
                return Ok(());
            }
        };
        let path = flash.device.display().to_string();
        self.server.query(&format!("SELECT entresol_move_flash('{path}')"))?;
        self.await_promise()?;
        let before = self.server.said();
        let load = self.load("30")?;
        thread::sleep(Duration::from_secs(2));
        flash.die()?;
        *acknowledged += kill::processed(load)?;
        // All clients may have failed to read before anything was written.
        let until = Instant::now() + PATIENCE;
        while !self.server.said_since(before)?.contains("The flash is given up") && Instant::now() < until {
            _ = self.server.query("CHECKPOINT");
            thread::sleep(Duration::from_millis(50));
        }
        kill::wait_until_it_runs(&self.server, false)?;
        let said = self.server.said_since(before)?;
        for expected in ["The flash is given up", "redo starts at", "complete without the flash cache"] {
            expect(&said, expected)?;
        }
        kill::check(&self.server, *acknowledged).context("lost: the device died under load")?;
        expect(&self.server.query("SELECT state FROM entresol_stat")?, "off")?;
        let path = self.flash().display().to_string();
        self.server.stop()?;
        self.server.set("entresol.flash", &path)?;
        fs::remove_file(self.server.data().join("postgresql.auto.conf"))?;
        self.server.start_again()?;
        println!("lost: a device died under load: the server started again by itself, and lost nothing");
        Ok(())
    }

    /// At last: the flash of before does not count, and the cluster is a stock one.
    fn ends(&self, statements: &mut Statements, acknowledged: u64) -> Result<()> {
        self.await_promise()?;
        self.server.kill()?;
        let old = self.flash().with_extension("kept");
        fs::copy(self.flash(), &old)?;
        self.server.own(&old)?;
        fs::remove_file(self.flash())?;
        self.start_after_loss(false)?;
        let more = kill::processed(self.load("2")?)?;
        self.server.kill()?;
        fs::rename(&old, self.flash())?;
        self.server.own(&self.flash())?;
        let refused = self.server.start_again().is_err();
        if refused {
            // The new flash was destroyed by this.
            self.start_after_loss(false)?;
        }
        self.check(statements, acknowledged + more).context("lost: the flash returns")?;
        println!("lost: a flash that returns is {}", if refused { "refused" } else { "not served" });
        self.server.set("entresol.flash", "")?;
        self.server.set("entresol.drain_at_shutdown", "on")?;
        self.server.query("SELECT pg_reload_conf()")?;
        self.server.stop()?;
        self.server.check_files()?;
        self.server.set("shared_preload_libraries", "")?;
        self.server.start_again().context("lost: a stock cluster")?;
        self.check(statements, acknowledged + more).context("lost: a stock cluster")?;
        self.server.stop()
    }
}

fn expect(said: &str, what: &str) -> Result<()> {
    match said.contains(what) {
        true => Ok(()),
        false => bail!("lost: the log has no {what:?}: {said}"),
    }
}

/// The path as text for a statement.
fn quoted(path: &Path) -> String {
    path.display().to_string()
}

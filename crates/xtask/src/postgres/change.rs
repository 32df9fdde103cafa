//! The suite `flash-change`: size, mode, policy and flash are changed under load, a cache is added,
//! impossible values are refused, and processes are killed in the middle of changes. No acknowledged
//! transaction is lost.

use super::change_kills;
use super::kill::check;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A cache that is smaller than the database, and larger than what is changed between two looks.
const CONFIGURATION: &str = "
shared_preload_libraries = 'entresol'
shared_buffers = 4MB
max_connections = 30
checkpoint_timeout = 30
max_wal_size = 2GB
entresol.flash = 'FOLDER/flash'
entresol.size = 64MB
entresol.max_size = 256MB
entresol.objects = 2048
entresol.drain_at_shutdown = on
";

const CLIENTS: &str = "8";
/// Between two changes, and for each look at the hits.
const LOAD: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(1);

/// A change, as an administrator makes it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The name of a setting, and its value.
    Set(&'static str, String),
    Flash(PathBuf),
}

impl Change {
    fn what(&self) -> String {
        match self {
            Self::Set(name, value) => format!("{} {value}", name.trim_start_matches("entresol.")),
            Self::Flash(_) => "another flash".to_owned(),
        }
    }

    /// Begins it. It may go on.
    pub fn begin(&self, server: &Server<'_>) -> Result<Option<Child>> {
        match self {
            Self::Set(name, value) => {
                server.query_each(&[
                    &format!("ALTER SYSTEM SET {name} = '{value}'"),
                    "SELECT pg_reload_conf()",
                ])?;
                Ok(None)
            }
            Self::Flash(path) => {
                let mut psql = server.psql();
                psql.args(["-c", &format!("SELECT entresol_move_flash('{}')", path.display())]);
                psql.stdout(Stdio::null()).stderr(Stdio::null());
                Ok(Some(psql.spawn()?))
            }
        }
    }

    /// Whether the cache is as it says now.
    pub fn is_there(&self, server: &Server<'_>) -> Result<bool> {
        let (column, wanted) = match self {
            Self::Set("entresol.size", value) => ("size_mb || 'MB'", value.clone()),
            Self::Set(name, value) => (name.trim_start_matches("entresol."), value.clone()),
            Self::Flash(path) => ("flash", path.display().to_string()),
        };
        Ok(server.query(&format!("SELECT {column} FROM entresol_cache"))? == wanted)
    }

    /// Waits until it is made.
    pub fn awaited(&self, server: &Server<'_>) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.is_there(server)? {
            if Instant::now() > until {
                bail!("change: {} is not made", self.what());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// The changes of a turn, in order; each one is a change of the one before.
pub(super) fn changes(server: &Server<'_>) -> Vec<Change> {
    let set = |name, value: &str| Change::Set(name, value.to_owned());
    let beside = |name: &str| Change::Flash(server.data().with_file_name(name));
    vec![
        set("entresol.size", "160MB"),
        set("entresol.size", "48MB"),
        beside("flash-2"),
        set("entresol.policy", "reuse"),
        set("entresol.mode", "write-through"),
        set("entresol.policy", "face-gsc"),
        beside("flash"),
        set("entresol.mode", "write-back"),
        set("entresol.size", "64MB"),
    ]
}

pub(super) fn test(bench: &Bench, rounds: u32) -> Result<()> {
    let server = Server::start(&bench.build, &bench.user, "change", &["-k"], CONFIGURATION)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "10"]))?;
    server.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol")?;
    let (acknowledged, took) = under_load(&server)?;
    check(&server, acknowledged).context("change: after changes under load")?;
    refused(&server)?;
    server.check_log()?;
    let acknowledged = change_kills::test(&server, rounds, acknowledged, &took)?;
    server.check_log_for_panics()?;
    another_size_at_the_start(&server)?;
    server.stop()?;
    server.check_files()?;
    added(bench)?;
    println!("change: {acknowledged} acknowledged transactions, none lost");
    Ok(())
}

/// What a change was to those who used the cache.
struct Felt {
    what: String,
    seconds: f64,
    longest_ms: f64,
    hits: [f64; 2],
}

/// All changes while pgbench runs. Returns how many transactions it was told of, and how long the changes
/// took.
fn under_load(server: &Server<'_>) -> Result<(u64, Vec<Duration>)> {
    let log = server.data().with_file_name("transactions");
    let mut load = server.client("pgbench");
    load.args(["-n", "-c", CLIENTS, "-T", "300", "-l", "--log-prefix"]).arg(&log);
    let load =
        load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("pgbench cannot be started")?;
    thread::sleep(LOAD);
    let mut felt = Vec::new();
    let mut windows = Vec::new();
    for change in changes(server) {
        let before = hits(server)?;
        let (began, at) = (Instant::now(), now_us()?);
        let session = change.begin(server)?;
        change.awaited(server)?;
        let seconds = began.elapsed().as_secs_f64();
        let after = hits(server)?;
        if let Some(mut session) = session
            && !session.wait()?.success()
        {
            bail!("change: {} has failed, though the cache has it", change.what());
        }
        windows.push((at, now_us()?));
        felt.push(Felt { what: change.what(), seconds, longest_ms: 0.0, hits: [before, after] });
        thread::sleep(LOAD);
    }
    // It ends with the report of what was acknowledged.
    output(std::process::Command::new("kill").args(["-INT", &load.id().to_string()]))?;
    let acknowledged = logged(&log, &windows, &mut felt)?;
    let _ = load.wait_with_output()?;
    let took = felt.iter().map(|felt| Duration::from_secs_f64(felt.seconds)).collect();
    println!("change               made in   longest transaction   hits before   in the second after");
    for Felt { what, seconds, longest_ms, hits: [before, after] } in felt {
        println!("{what:20} {seconds:6.2} s {longest_ms:15.0} ms {before:16.2} {after:16.2}");
    }
    Ok((acknowledged, took))
}

fn now_us() -> Result<u128> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())
}

/// The transactions that pgbench has logged; the longest one that was under way in each window goes to
/// `felt`.
fn logged(log: &Path, windows: &[(u128, u128)], felt: &mut [Felt]) -> Result<u64> {
    let (folder, name) = (log.parent().unwrap_or(log), log.file_name().unwrap_or_default());
    let mut transactions = 0;
    for file in fs::read_dir(folder)? {
        let file = file?;
        if !file.file_name().to_string_lossy().starts_with(&*name.to_string_lossy()) {
            continue;
        }
        // Client, number, microseconds, script, and when it ended: seconds and microseconds.
        for line in fs::read_to_string(file.path())?.lines() {
            let words: Vec<u128> = line.split(' ').map(|word| word.parse().unwrap_or(0)).collect();
            let [_, _, took, _, s, us, ..] = words[..] else { continue };
            transactions += 1;
            let end = s * 1_000_000 + us;
            for ((from, to), felt) in windows.iter().zip(&mut *felt) {
                if end >= *from && end - took <= *to {
                    felt.longest_ms = felt.longest_ms.max(took as f64 / 1000.0);
                }
            }
        }
    }
    Ok(transactions)
}

/// The part of the reads that the cache serves, in a second.
fn hits(server: &Server<'_>) -> Result<f64> {
    let counted = || -> Result<[f64; 2]> {
        let counts = server.query("SELECT staging_hits + flash_hits, misses FROM entresol_stat")?;
        let (hits, misses) = counts.split_once('|').context("change: no counters")?;
        Ok([hits.parse()?, misses.parse()?])
    };
    let before = counted()?;
    thread::sleep(LOOK);
    let after = counted()?;
    let [hits, misses] = [after[0] - before[0], after[1] - before[1]];
    Ok(hits / (hits + misses).max(1.0))
}

/// Values that are not possible. The log has the reason, and the cache stays as it is.
fn refused(server: &Server<'_>) -> Result<()> {
    let as_it_is = "SELECT flash, size_mb, mode, policy FROM entresol_cache";
    let before = server.query(as_it_is)?;
    let full = server.data().with_file_name("full");
    fs::write(&full, vec![0x5a; 64 << 20])?;
    server.own(&full)?;
    let flash = server.query("SHOW entresol.flash")?;
    let other = server.data().with_file_name("other").display().to_string();
    for (name, value, reason) in [
        ("entresol.size", "512MB", "The server has reserved memory for a cache of 256 MB"),
        ("entresol.flash", "", "The flash cache is on"),
        ("entresol.flash", &other, "entresol_move_flash"),
    ] {
        let said = server.said();
        server.query_each(&[&format!("ALTER SYSTEM SET {name} = '{value}'"), "SELECT pg_reload_conf()"])?;
        says(server, said, reason)?;
        server.query_each(&[&format!("ALTER SYSTEM RESET {name}"), "SELECT pg_reload_conf()"])?;
    }
    let cached = "SELECT slots_valid > 500 FROM entresol_stat";
    if server.query(cached)? != "t" {
        bail!("change: few pages are in the cache before the refusals: this is not tested");
    }
    let moved = server.query(&format!("SELECT entresol_move_flash('{}')", full.display()));
    match moved {
        Err(error) if format!("{error:#}").contains("the flash was not exchanged") => {}
        moved => bail!("change: a flash with other content was taken: {moved:?}"),
    }
    let after = server.query(as_it_is)?;
    if before != after || server.query("SHOW entresol.flash")? != flash {
        bail!("change: the cache was {before}, after the refusals it is {after}");
    }
    if server.query(cached)? != "t" {
        bail!("change: the cache was emptied by a refusal");
    }
    if fs::read(&full)? != vec![0x5a; 64 << 20] {
        bail!("change: a file with other content was written");
    }
    println!("change: impossible values are refused, with the reason in the log");
    Ok(())
}

/// The server says so within a while.
fn says(server: &Server<'_>, since: usize, reason: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while !server.said_since(since)?.contains(reason) {
        if Instant::now() > until {
            bail!("change: the log has no {reason:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A server with dirty pages on its flash is started with another size: it opens what is there, and changes
/// it.
fn another_size_at_the_start(server: &Server<'_>) -> Result<()> {
    server.query("UPDATE pgbench_accounts SET filler = 'size' WHERE aid % 10 = 0; CHECKPOINT")?;
    server.query("ALTER SYSTEM SET entresol.size = '96MB'")?;
    server.kill()?;
    server.start_again()?;
    Change::Set("entresol.size", "96MB".to_owned()).awaited(server)?;
    let found = server.query("SELECT count(*) FROM pgbench_accounts WHERE filler LIKE 'size%'")?;
    if found != "100000" {
        bail!("change: {found} rows are there that were changed before the start");
    }
    println!("change: another size at the start is taken when the server runs");
    Ok(())
}

/// A cache is added to a server that runs without one, in both modes, and is killed afterwards.
fn added(bench: &Bench) -> Result<()> {
    let without = CONFIGURATION.replace("entresol.flash = 'FOLDER/flash'\n", "");
    for mode in ["write-back", "write-through"] {
        let configuration = format!("{without}entresol.mode = '{mode}'\n");
        let server = Server::start(&bench.build, &bench.user, "added", &["-k"], &configuration)?;
        output(server.client("pgbench").args(["-i", "-q", "-s", "5"]))?;
        server.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol")?;
        let mut acknowledged = 0;
        let flash = server.data().with_file_name("flash");
        for round in 0..3 {
            let mut load = server.client("pgbench");
            load.args(["-n", "-c", CLIENTS, "-T", "60"]).stdout(Stdio::piped()).stderr(Stdio::null());
            let load = load.spawn().context("pgbench cannot be started")?;
            thread::sleep(LOAD);
            if round == 0 {
                let change = Change::Flash(flash.clone());
                change.begin(&server)?;
                change.awaited(&server)?;
                // Clean pages enter when two checkpoints are complete.
                let until = Instant::now() + Duration::from_secs(60);
                while server.query("SELECT slots_valid > 500 FROM entresol_stat")? != "t" {
                    if Instant::now() > until {
                        bail!("change: no page enters a cache that was added");
                    }
                    thread::sleep(Duration::from_millis(100));
                }
            }
            thread::sleep(LOAD);
            server.kill()?;
            acknowledged += super::kill::processed(load)?;
            server.start_again()?;
            check(&server, acknowledged)
                .with_context(|| format!("change: a cache was added, {mode}, {round}"))?;
        }
        server.check_log_for_panics()?;
        server.stop()?;
        server.check_files()?;
    }
    println!("change: a cache is added to a running server");
    Ok(())
}

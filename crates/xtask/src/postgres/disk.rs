//! The suite `disk-faults`: a destage finds its file system full, and waits; a sync of a relation file fails,
//! and the server starts anew. Nothing is lost, since the pages are still on flash.

use super::cache::ENTRESOL;
use super::loopback::{Loopback, Memory};
use super::server::Server;
use super::test::Bench;
use crate::programs::{is_root, output};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Of the file systems.
const MIB: u32 = 64;
const SUM: &str = "SELECT count(*), sum(id), sum(length(filler)), sum(times) FROM t";
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn test(bench: &Bench) -> Result<()> {
    if !is_root()? {
        println!("disk: left out: only root can make file systems that fail");
        return Ok(());
    }
    full(bench)?;
    sync_fails(bench)
}

/// A server with a table whose file is in `folder`, and whose pages are all newer in the cache. What the
/// table is.
fn start<'a>(bench: &'a Bench, name: &str, folder: &Path) -> Result<(Server<'a>, String)> {
    let configuration =
        format!("{}autovacuum = off\ncheckpoint_timeout = 1h\nrestart_after_crash = off\n", ENTRESOL.kill);
    let server = Server::start(&bench.build, &bench.user, name, &["-k"], &configuration)?;
    let tablespace = folder.join("tablespace");
    fs::create_dir(&tablespace)?;
    bench.user.own(&tablespace)?;
    server.query("CREATE EXTENSION entresol")?;
    server.query(&format!("CREATE TABLESPACE small LOCATION '{}'", tablespace.display()))?;
    server.query(
        "CREATE TABLE t TABLESPACE small AS
         SELECT id, 0 AS times, repeat('x', 500) AS filler FROM generate_series(1, 3000) id",
    )?;
    server.query("UPDATE t SET times = 1")?;
    server.query("CHECKPOINT")?;
    let table = server.query(SUM)?;
    // A page that is staged again is counted twice.
    let all_dirty = server.query(
        "SELECT dirty * 8192 >= pg_relation_size('t') FROM entresol_stat_relation
         WHERE relation = 't'::regclass AND fork = 'main'",
    )?;
    if all_dirty != "t" {
        bail!("disk: some pages are not newer in the cache: this is not tested");
    }
    Ok((server, table))
}

fn expect(server: &Server<'_>, what: &str, table: &str) -> Result<()> {
    let found = server.query(SUM)?;
    if found != table {
        bail!("disk: {what}: the table was {table}, and is {found}");
    }
    Ok(())
}

/// The first line of the log since `before` that has `mark`.
fn wait_for_line(server: &Server<'_>, before: usize, mark: &str) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let said = server.said_since(before)?;
        if let Some(line) = said.lines().find(|line| line.contains(mark)) {
            return Ok(line.split(mark).last().unwrap_or_default().trim().to_owned());
        }
        if Instant::now() > until {
            bail!("disk: the log has no {mark:?}: {said}");
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The file has holes where the cache has newer pages, and nothing is left of its file system.
fn full(bench: &Bench) -> Result<()> {
    let memory = Memory::mount(bench, "disk-full", MIB)?;
    let (server, table) = start(bench, "disk full", memory.folder())?;
    let file = server.data().join(server.query("SELECT pg_relation_filepath('t')")?);
    let length = fs::metadata(&file)?.len().to_string();
    output(Command::new("fallocate").args(["-p", "-o", "0", "-l", &length]).arg(&file))?;
    memory.fill()?;
    let before = server.said();
    let mut drain = server.psql();
    let mut drain =
        drain.args(["-c", "SELECT entresol_drain()"]).spawn().context("psql cannot be started")?;
    let warning = wait_for_line(&server, before, "WARNING:")?;
    // Who wants room in the cache waits, too; the others work on.
    expect(&server, "while a destage waits", &table)?;
    thread::sleep(Duration::from_secs(1));
    if drain.try_wait()?.is_some() {
        bail!("disk: the drain has not waited for space");
    }
    waits_end(&server)?;
    memory.release()?;
    if !drain.wait()?.success() {
        bail!("disk: the drain failed");
    }
    expect(&server, "after the drain", &table)?;
    let waits = server.query("SELECT space_waits FROM entresol_stat")?;
    server.check_log()?;
    server.stop()?;
    server.check_files().context("disk: the file was full of holes")?;
    server.set("shared_preload_libraries", "")?;
    server.start_again()?;
    expect(&server, "without the cache", &table)?;
    server.stop()?;
    println!("disk: full: {waits} waits, nothing lost; {warning}");
    Ok(())
}

/// A process that waits for room in the cache heeds its timeout and a termination.
fn waits_end(server: &Server<'_>) -> Result<()> {
    let many = "CREATE TABLE u AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 60000) id";
    let said =
        server.query_that_ends(&format!("SET statement_timeout = '10s'; {many}; UPDATE u SET id = id"));
    let error = said.err().map_or_else(|| "no error".to_owned(), |error| format!("{error:#}"));
    if !error.contains("canceling statement due to statement timeout") {
        bail!("disk: a statement that waits for room in the cache is not cancelled: {error}");
    }
    Ok(())
}

/// The device under the file system of the file has no place for what is written.
fn sync_fails(bench: &Bench) -> Result<()> {
    let disk = Loopback::new(bench, "disk-sync", MIB)?;
    output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk.device))?;
    let folder = disk.memory.folder().with_file_name("disk-sync-mounted");
    fs::create_dir_all(&folder)?;
    output(Command::new("mount").arg(&disk.device).arg(&folder))?;
    let result = sync_fails_in(bench, &disk, &folder);
    let _ = Command::new("umount").arg("-l").arg(&folder).status();
    result
}

fn sync_fails_in(bench: &Bench, disk: &Loopback, folder: &Path) -> Result<()> {
    let (server, table) = start(bench, "disk sync", folder)?;
    let before = server.said();
    disk.memory.fill()?;
    if server.query("SELECT entresol_drain()").is_ok() {
        bail!("disk: a drain to a device that cannot be written succeeds");
    }
    let panic = wait_for_line(&server, before, "PANIC:")?;
    server.ends()?;
    disk.memory.release()?;
    unmount(folder)?;
    // The file system has met errors; 1: they are repaired.
    let _ = Command::new("e2fsck").args(["-y", "-f"]).arg(&disk.device).output()?;
    output(Command::new("mount").arg(&disk.device).arg(folder))?;
    server.start_again().context("disk: after a failed sync")?;
    expect(&server, "after a failed sync", &table)?;
    server.stop()?;
    server.check_files()?;
    server.set("shared_preload_libraries", "")?;
    server.start_again()?;
    expect(&server, "after a failed sync, without the cache", &table)?;
    server.stop()?;
    println!("disk: a sync failed: PANIC: {panic}; nothing lost");
    Ok(())
}

/// Unmounts a file system whose last users are just ending.
fn unmount(folder: &Path) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match output(Command::new("umount").arg(folder)) {
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(200)),
            Ok(_) => return Ok(()),
        }
    }
}

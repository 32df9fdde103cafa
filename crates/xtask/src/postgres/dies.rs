//! The suite `flash-dies`: the flash device fails under load. In write-through mode the server continues, and
//! starts without it. In write-back mode it stops, and its error counts the pages that only the flash has.
//! When the device works again, the server has them.

use super::cache::{Cache, ENTRESOL, THROUGH};
use super::kill;
use super::loopback::Loopback;
use super::server::Server;
use super::test::Bench;
use crate::programs::{is_root, output};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// MiB of the flash device.
const MIB: u32 = 24;
const LOAD: Duration = Duration::from_secs(3);

pub(super) fn test(bench: &Bench) -> Result<()> {
    if !is_root()? {
        println!("dies: left out: only root can make devices that fail");
        return Ok(());
    }
    goes_on(bench)?;
    stops(bench)?;
    switches_off_when_drained(bench)
}

/// A server on a flash device that can fail.
fn start<'a>(bench: &'a Bench, cache: &Cache, name: &str, flash: &Path) -> Result<Server<'a>> {
    let mut configuration = cache.kill.replace("drain_at_shutdown = on", "drain_at_shutdown = off");
    configuration += &format!("entresol.size = 0\nentresol.flash = '{}'\n", flash.display());
    let server = Server::start(&bench.build, &bench.user, name, &["-k"], &configuration)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "5"]))?;
    server.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol")?;
    Ok(server)
}

fn load(server: &Server<'_>, seconds: &str) -> Result<Child> {
    let mut load = server.client("pgbench");
    load.args(["-n", "-c", "4", "-C", "-T", seconds]).stdout(Stdio::piped()).stderr(Stdio::null());
    load.spawn().context("pgbench cannot be started")
}

fn expect(server: &Server<'_>, statement: &str, expected: &str) -> Result<()> {
    let found = server.query(statement)?;
    if found != expected {
        bail!("dies: {statement}: {found}, expected {expected}");
    }
    Ok(())
}

fn says(said: &str, expected: &str) -> Result<String> {
    let line = said.lines().find(|line| line.contains(expected));
    line.map(str::to_owned).with_context(|| format!("dies: the log has no {expected:?}: {said}"))
}

fn wait_for_off(server: &Server<'_>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while server.query("SELECT state FROM entresol_stat")? != "off" {
        if Instant::now() > until {
            bail!("dies: the cache does not switch itself off");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Write-through.
fn goes_on(bench: &Bench) -> Result<()> {
    let flash = Loopback::new(bench, "dies-through-flash", MIB)?;
    let server = start(bench, &THROUGH, "dies through", &flash.device)?;
    // New connections all the time.
    let under_way = load(&server, "8")?;
    thread::sleep(LOAD);
    expect(
        &server,
        "SELECT state, mode, flash_hits > 0, slots_dirty FROM entresol_stat",
        "serving|write-through|t|0",
    )?;
    flash.die()?;
    wait_for_off(&server)?;
    let acknowledged = kill::processed(under_way)?;
    let counted = server.query("SELECT count(*) FROM pgbench_history")?;
    if counted != acknowledged.to_string() {
        bail!("dies: {acknowledged} transactions were acknowledged, {counted} are there: some failed");
    }
    kill::check(&server, acknowledged).context("dies: in write-through mode")?;
    says(&server.said_since(0)?, "WARNING:  the flash cache is switched off")?;
    expect(&server, "SELECT reason LIKE '%flash tier is switched off%' FROM entresol_stat", "t")?;
    server.check_log()?;
    println!("dies: write-through: {acknowledged} transactions, none failed, none lost");

    // It starts without the flash, after a crash and after a shutdown.
    let before = server.said();
    server.kill()?;
    server.start_again()?;
    says(&server.said_since(before)?, "WARNING:  the flash cache is switched off")?;
    expect(&server, "SELECT state, slots IS NULL FROM entresol_stat", "off|t")?;
    kill::check(&server, acknowledged).context("dies: started with a dead flash")?;
    let more = kill::processed(load(&server, "2")?)?;
    server.stop()?;
    server.start_again()?;
    kill::check(&server, acknowledged + more).context("dies: started again with a dead flash")?;
    server.stop()?;
    let new = Loopback::new(bench, "dies-new-flash", MIB)?;
    server.set("entresol.flash", &new.device.display().to_string())?;
    server.start_again()?;
    expect(&server, "SELECT state FROM entresol_stat", "serving")?;
    kill::check(&server, acknowledged + more).context("dies: with a new flash")?;
    server.check_log_for_panics()?;
    server.stop()?;
    server.check_files()?;
    println!("dies: write-through: started without its flash, and with a new one");
    Ok(())
}

/// Write-back. First the device refuses to be written, as worn drives do, and then it is lost.
fn stops(bench: &Bench) -> Result<()> {
    let flash = Loopback::new(bench, "dies-back-flash", MIB)?;
    let server = start(bench, &ENTRESOL, "dies back", &flash.device)?;
    let under_way = load(&server, "30")?;
    thread::sleep(LOAD);
    flash.may_be_written(false)?;
    let acknowledged = kill::processed(under_way)?;
    server.ends()?;
    let said = server.said_since(0)?;
    let stopped = says(&said, "PANIC:  the flash cache has failed")?;
    says(&stopped, "pages newer than disk are on it")?;
    says(&said, "Make the device readable again")?;
    says(&server.refuses_to_start()?, "The cluster needs the pages on its own flash")?;
    println!("dies: write-back: stopped: {}", stopped.split("PANIC: ").last().unwrap_or_default().trim());
    flash.may_be_written(true)?;
    server.start_again().context("dies: the flash works again")?;
    kill::check(&server, acknowledged).context("dies: the flash works again")?;
    println!("dies: write-back: the flash works again: {acknowledged} transactions, none lost");
    server.query("UPDATE pgbench_accounts SET abalance = abalance WHERE aid < 20000")?;
    server.kill()?;
    flash.die()?;
    says(&server.refuses_to_start()?, "The cluster needs the pages on its own flash")?;
    println!("dies: write-back: gone at the start: refused");
    Ok(())
}

/// Write-back, when nothing on flash is newer than disk.
fn switches_off_when_drained(bench: &Bench) -> Result<()> {
    let flash = Loopback::new(bench, "dies-drained-flash", MIB)?;
    let server = start(bench, &ENTRESOL, "dies drained", &flash.device)?;
    server.query("ALTER SYSTEM SET autovacuum = off")?;
    server.query("SELECT pg_reload_conf()")?;
    let until = Instant::now() + Duration::from_secs(30);
    // The queries themselves set hint bits in catalogs, in pages that would be dirty later.
    let dirty = "SELECT slots_dirty FROM entresol_stat";
    for _ in 0..2 {
        server.query(dirty)?;
        server.query("SELECT sum(abalance) FROM pgbench_accounts")?;
        server.query("CHECKPOINT")?;
    }
    while server.query(dirty)? != "0" {
        server.query("SELECT entresol_drain()")?;
        if Instant::now() > until {
            bail!("dies: the cache is not drained");
        }
    }
    flash.die()?;
    // Clean pages enter, and cannot be written.
    server.query("SELECT sum(abalance) FROM pgbench_accounts")?;
    wait_for_off(&server)?;
    let acknowledged = kill::processed(load(&server, "2")?)?;
    kill::check(&server, acknowledged).context("dies: drained")?;
    server.stop()?;
    server.check_files()?;
    server.set("shared_preload_libraries", "")?;
    server.start_again().context("dies: a stock cluster")?;
    kill::check(&server, acknowledged).context("dies: a stock cluster")?;
    println!("dies: write-back, drained: switched off, and a stock cluster at once");
    Ok(())
}

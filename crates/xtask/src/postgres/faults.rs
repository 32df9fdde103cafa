//! The suite `flash-faults`: the flash gives back something else than was written. No query gets a wrong
//! answer: clean pages come from disk, and a dirty one is an error.

use super::cache::ENTRESOL;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Result, bail};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

/// From here on the flash of the suite has pages, with their summaries.
const PAGES_FROM: u64 = 8 << 20;

/// All rows, in an order that reads the table in pieces.
const SUMS: &str = "SELECT count(*), sum(abalance), sum(aid * abalance) FROM pgbench_accounts";

/// The last rows, by a scan that reads ahead. Its pages have entered last: no dequeue has met their damage
/// before.
const TAIL: &str = "SET enable_seqscan = off; SET enable_indexscan = off;
    SELECT count(filler), sum(aid) FROM pgbench_accounts WHERE aid > 90000";

/// The others, in the same way: the last rows are not in shared buffers afterwards.
const HEAD: &str = "SET enable_seqscan = off; SET enable_indexscan = off;
    SELECT count(filler), sum(aid) FROM pgbench_accounts WHERE aid < 80000";

/// Pages that are certain to be read asynchronously.
const ASYNC_LEAST: u64 = 50;

pub(super) fn test(bench: &Bench) -> Result<()> {
    let configuration = format!("{}autovacuum = off\n", ENTRESOL.kill);
    let server = Server::start(&bench.build, &bench.user, "faults", &["-k"], &configuration)?;
    server.query("CREATE EXTENSION entresol")?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "1"]))?;
    server.query("VACUUM FREEZE pgbench_accounts")?;
    let (right, right_tail) = (server.query(SUMS)?, server.query(TAIL)?);
    let read_all = || -> Result<()> {
        let found = server.query(&format!("SET synchronize_seqscans = off; {SUMS}"))?;
        if found != right {
            bail!("faults: the sums were {right}, and are {found}");
        }
        Ok(())
    };
    // Clean pages stay out while the writers are busy.
    let mut reads = 0;
    while server.query("SELECT slots_valid > 1000 FROM entresol_stat")? != "t" {
        read_all()?;
        reads += 1;
        if reads > 100 {
            bail!("faults: the pages do not enter the flash: {:?}", server.counters()?);
        }
    }
    if bench.build.reads_asynchronously() {
        read_ahead(&server)?;
        server.query(HEAD)?;
    }
    // Hint bits make pages dirty now and then.
    let mut drains = 0;
    while server.query("SELECT slots_dirty FROM entresol_stat")? != "0" {
        server.query("SELECT entresol_drain()")?;
        drains += 1;
        if drains > 100 {
            bail!("faults: a drain leaves dirty pages: {:?}", server.counters()?);
        }
    }
    spoil(&server)?;
    let found = server.query(TAIL)?;
    if found != right_tail {
        bail!("faults: the last sums were {right_tail}, and are {found}");
    }
    read_all()?;
    read_all()?;
    let damaged: u64 = server.query("SELECT damaged_clean FROM entresol_stat")?.parse()?;
    if damaged == 0 {
        bail!("faults: no clean page was found damaged: {:?}", server.counters()?);
    }
    let rejected = server.query("SELECT async_rejected > 0 FROM entresol_stat")?;
    if bench.build.reads_asynchronously() && rejected != "t" {
        bail!("faults: no asynchronous read has found a damaged page: this is not tested");
    }
    println!("faults: {damaged} clean pages damaged: read from disk, every answer right");
    server.check_log()?;
    dirty(&server)
}

/// Reads the last rows until they are on flash, and the server reads them there by itself.
fn read_ahead(server: &Server<'_>) -> Result<()> {
    let hits = || -> Result<u64> { Ok(server.query("SELECT async_hits FROM entresol_stat")?.parse()?) };
    for _ in 0..100 {
        server.query(HEAD)?;
        let before = hits()?;
        server.query(TAIL)?;
        if hits()? - before >= ASYNC_LEAST {
            return Ok(());
        }
    }
    bail!("faults: the last rows are not read asynchronously: {:?}", server.counters()?)
}

/// Overwrites the pages on flash.
fn spoil(server: &Server<'_>) -> Result<()> {
    let path = server.data().with_file_name("flash");
    let flash = File::options().write(true).open(&path)?;
    let noise = vec![0x5a; 1 << 20];
    for at in (PAGES_FROM..flash.metadata()?.len()).step_by(noise.len()) {
        flash.write_all_at(&noise, at)?;
    }
    Ok(flash.sync_all()?)
}

/// A page that only the flash has is lost. Who asks for it is told. As soon as the cache itself needs it, the
/// server ends, and says why; redo may have an image of it.
fn dirty(server: &Server<'_>) -> Result<()> {
    server.query("UPDATE pgbench_accounts SET abalance = 7 WHERE aid <= 40000")?;
    server.query("CHECKPOINT")?;
    let right = server.query(SUMS)?;
    let dirty: u64 = server.query("SELECT slots_dirty FROM entresol_stat")?.parse()?;
    if dirty < 100 {
        bail!("faults: only {dirty} dirty pages are on flash: this is not tested");
    }
    spoil(server)?;
    let (mut errors, mut answers) = (0, 0);
    for _ in 0..20 {
        match server.query(SUMS) {
            Ok(found) if found == right => answers += 1,
            Ok(found) => bail!("faults: the sums were {right}, and are {found}: dirty pages were lost"),
            Err(_) => errors += 1,
        }
        thread::sleep(Duration::from_millis(100));
    }
    // The start after the crash was refused.
    server.ends()?;
    let log = fs::read_to_string(server.log())?;
    let said = log.lines().rev().find(|line| line.contains("damaged"));
    let Some(said) = said.filter(|_| errors > 0) else {
        bail!("faults: {dirty} dirty pages are damaged, and nobody was told");
    };
    println!(
        "faults: {dirty} dirty pages damaged: {errors} errors, {answers} right answers; the log: {said}"
    );
    Ok(())
}

//! The suite `flash-path`: the path of the flash stops resolving while the server runs. Sessions that begin
//! then read what the others do, and the server stops.

use super::cache::{Cache, ENTRESOL, THROUGH};
use super::server::Server;
use super::test::Bench;
use anyhow::{Context, Result, bail};
use std::fs;

const SUM: &str = "SELECT count(*), sum(id), sum(times), sum(length(filler)) FROM t";

/// What becomes of the path.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Moved,
    Deleted,
    /// Another file is there.
    Replaced,
}

pub(super) fn test(bench: &Bench) -> Result<()> {
    for cache in [&ENTRESOL, &THROUGH] {
        for loss in [Loss::Moved, Loss::Deleted, Loss::Replaced] {
            lose(bench, cache, loss).with_context(|| format!("path: {}, {loss:?}", cache.name))?;
        }
    }
    println!("path: moved, deleted and replaced: new sessions read what the others do, and the server stops");
    Ok(())
}

fn lose(bench: &Bench, cache: &Cache, loss: Loss) -> Result<()> {
    let configuration = format!("{}autovacuum = off\n", cache.kill);
    let server = Server::start(&bench.build, &bench.user, "path", &["-k"], &configuration)?;
    server.query("CREATE EXTENSION entresol")?;
    server.query(
        "CREATE TABLE t AS SELECT id, 0 AS times, repeat('x', 300) AS filler FROM generate_series(1, 20000) id",
    )?;
    server.query("CHECKPOINT")?;
    server.query("SELECT entresol_drain()")?;
    // Clean pages, and in write-back mode dirty ones, too.
    while server.query("SELECT slots_valid - slots_dirty > 300 FROM entresol_stat")? != "t" {
        server.query(SUM)?;
    }
    server.query("UPDATE t SET times = 1 WHERE id % 100 = 0")?;
    server.query("CHECKPOINT")?;
    let right = server.query(SUM)?;
    let dirty = server.query("SELECT slots_dirty > 0 FROM entresol_stat")?;
    if dirty != if cache.is_needed() { "t" } else { "f" } {
        bail!("dirty pages on flash: {dirty}");
    }
    let flash = server.data().with_file_name("flash");
    let moved = flash.with_file_name("moved");
    match loss {
        Loss::Moved => fs::rename(&flash, &moved)?,
        Loss::Deleted => fs::remove_file(&flash)?,
        Loss::Replaced => {
            fs::rename(&flash, &moved)?;
            fs::write(&flash, vec![0x5a; 24 << 20])?;
        }
    }
    for _ in 0..3 {
        answers(&server, SUM, &right)?;
    }
    answers(&server, "UPDATE t SET times = 2 WHERE id % 50 = 0; CHECKPOINT", "")?;
    let hits =
        server.query("SELECT hits > 0 FROM entresol_stat_backend WHERE backend_type = 'client backend'")?;
    if hits != "t" {
        bail!("no session has read the flash: this is not tested");
    }
    server.check_log()?;
    // With a drain, which the cache's own descriptor has.
    server.stop()?;
    server.check_files()?;
    let _ = fs::remove_file(&moved);
    Ok(())
}

/// A new session has an answer, and does not wait for one for ever.
fn answers(server: &Server<'_>, statement: &str, expected: &str) -> Result<()> {
    let found = server.query_that_ends(statement)?;
    if found != expected {
        bail!("{statement}: {found}, expected {expected}");
    }
    Ok(())
}

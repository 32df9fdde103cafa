//! The suite `lost-regress`: PostgreSQL's regression tests while the least log is kept for a loss of the
//! flash, so that older pages are written to their files all the time. Then the flash is lost: all databases
//! are as before.

use super::super::cache::ENTRESOL;
use super::super::server::Server;
use super::super::suites::{check_pages, judge, regression, tiny};
use super::super::test::Bench;
use super::refused::lsn_of;
use super::{Loss, Lost, SURVIVES};
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

const NAME: &str = "lost regress";

pub(in super::super) fn test(bench: &Bench) -> Result<()> {
    let configuration = format!("{}{SURVIVES}", tiny(&ENTRESOL));
    let server = Server::start(&bench.build, &bench.user, NAME, &["-k"], &configuration)?;
    let lost = Lost { bench, server, script: PathBuf::new() };
    let server = &lost.server;
    let begun = lsn_of(&server.query("SELECT pg_current_wal_lsn()")?)?;
    judge(bench, server, NAME, &mut regression(bench, server)?, Some(&ENTRESOL))?;
    let before = dump(server)?;
    lost.await_promise()?;
    server.kill()?;
    if lost.horizon_redo()? <= begun {
        bail!("{NAME}: the horizon has not moved: this is not tested");
    }
    lost.destroy(Loss::Gone)?;
    lost.start_after_loss(false)?;
    check_pages(bench, server, NAME)?;
    let after = dump(server)?;
    if before != after {
        let differ = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        bail!("{NAME}: the databases differ after the loss of the flash: {differ:?}");
    }
    server.check_log()?;
    server.query("ALTER SYSTEM SET entresol.drain_at_shutdown = on")?;
    server.query("SELECT pg_reload_conf()")?;
    server.stop()?;
    server.check_files()?;
    println!("{NAME}: {} lines of all databases are the same after the loss", before.lines().count());
    Ok(())
}

/// All databases as text. Left out: what a crash may change, and what each dump chooses anew.
fn dump(server: &Server<'_>) -> Result<String> {
    let text = output(server.client("pg_dumpall").arg("--no-unlogged-table-data")).context("pg_dumpall")?;
    let varies = ["\\restrict ", "\\unrestrict ", "SELECT pg_catalog.setval("];
    let lines = text.lines().filter(|line| !varies.iter().any(|start| line.starts_with(start)));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

//! The suite `flash-upgrade`: pg_upgrade into a cluster with a flash, and the programs that it calls.

use super::cache::{Cache, ENTRESOL, THROUGH};
use super::module;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// An older server, of Debian's package.
const OLD: &str = "/usr/lib/postgresql/15/bin";
const TABLE: &str = "CREATE TABLE t AS SELECT id, md5(id::text) AS sum FROM generate_series(1, 50000) id;
    CREATE INDEX t_sum ON t (sum); CREATE TABLE small (i int PRIMARY KEY); INSERT INTO small VALUES (1), (2)";
const SUMS: &str = "SELECT count(*), count(DISTINCT sum), sum(id), (SELECT sum(i) FROM small) FROM t";
const ROWS: &str = "50000|50000|1250025000|3";

pub(super) fn test(bench: &Bench) -> Result<()> {
    needs_its_cache(bench)?;
    from_the_major_before(bench)?;
    if !Path::new(OLD).join("initdb").is_file() {
        println!("upgrade: pg_upgrade left out: no PostgreSQL 15 is in {OLD} (Debian: postgresql-15)");
        return Ok(());
    }
    for cache in [&ENTRESOL, &THROUGH] {
        for transfer in ["--copy", "--link"] {
            upgrade(bench, cache, transfer)
                .with_context(|| format!("upgrade: {}, {transfer}", cache.name))?;
        }
    }
    println!("upgrade: from 15, copied and linked, in both modes: all rows");
    Ok(())
}

/// A stopped cluster of the older server with the tables.
fn old_cluster(bench: &Bench, folder: &Path) -> Result<PathBuf> {
    let data = folder.join("old");
    let program = |name: &str| bench.user.command(Path::new(OLD).join(name));
    output(program("initdb").arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "--no-sync"]))?;
    let options = format!("-k {} -c listen_addresses= -c fsync=off", folder.display());
    let control = |arguments: &[&str]| {
        let mut control = program("pg_ctl");
        control.arg("-D").arg(&data).arg("-l").arg(folder.join("old.log")).args(arguments);
        // The server would keep a pipe open.
        control.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        control
    };
    if !control(&["-o", &options, "-w", "start"]).status()?.success() {
        bail!("PostgreSQL 15 does not start: see {}", folder.join("old.log").display());
    }
    let mut psql = program("psql");
    let made = output(psql.arg("-h").arg(folder).args(["-U", "postgres", "-qc", TABLE, "postgres"]));
    control(&["-w", "-m", "fast", "stop"]).status()?;
    made?;
    Ok(data)
}

/// From the patched server of the major version before, with a flash, into one with a flash: by copies in
/// write-back mode, by links in write-through mode. The second old cluster has no checksums, as 17's have by
/// default; they are enabled first, as 18's clusters have them.
fn from_the_major_before(bench: &Bench) -> Result<()> {
    let Some(old) = bench.build.of_the_major_before()? else {
        println!("upgrade: from the major version before: left out, as no build of it is there");
        return Ok(());
    };
    module::install_extension(&old)?;
    for (cache, options, transfer) in [(&ENTRESOL, &["-k"][..], "--copy"), (&THROUGH, &[], "--link")] {
        let what = format!("upgrade: from {}, {}, {transfer}", old.version(), cache.name);
        let before = Server::start(&old, &bench.user, "upgrade before", options, cache.kill)?;
        before.query(TABLE)?;
        before.query("CREATE EXTENSION entresol")?;
        before.query("SELECT entresol_keep_out('small')")?;
        before.query("UPDATE t SET sum = md5(id::text); CHECKPOINT")?;
        if before.query("SELECT slots_valid > 100 FROM entresol_stat")? != "t" {
            bail!("{what}: no page was on the old flash: this is not tested");
        }
        before.stop()?;
        before.check_files()?;
        if options.is_empty() {
            output(bench.user.command(old.program("pg_checksums")).arg("--enable").arg(before.data()))?;
        }
        let server = Server::make(&bench.build, &bench.user, "upgrade", &["-k"], cache.kill)?;
        run_pg_upgrade(bench, &server, (&old.installed.join("bin"), before.data()), transfer)
            .with_context(|| what.clone())?;
        serves_all_rows(&server, "").with_context(|| what.clone())?;
        if server.query("SELECT relation FROM entresol_kept_out")? != "small" {
            bail!("{what}: a relation is not kept out any more");
        }
        server.stop()?;
        println!("{what}: all rows, and the mark of a relation that is kept out");
    }
    Ok(())
}

/// Runs pg_upgrade from the programs and the data of `old`.
fn run_pg_upgrade(bench: &Bench, server: &Server<'_>, old: (&Path, &Path), transfer: &str) -> Result<()> {
    let mut upgrade = bench.user.command(bench.build.program("pg_upgrade"));
    upgrade.current_dir(server.data().with_file_name("")).arg("-b").arg(old.0);
    upgrade
        .arg("-B")
        .arg(bench.build.installed.join("bin"))
        .arg("-d")
        .arg(old.1)
        .arg("-D")
        .arg(server.data());
    upgrade.args(["-U", "postgres", "--no-sync", transfer]).arg("--socketdir").arg(server.socket());
    output(&mut upgrade).map(drop)
}

/// The new cluster has its flash in its configuration, and was started with it before.
fn upgrade(bench: &Bench, cache: &Cache, transfer: &str) -> Result<()> {
    let server = Server::make(&bench.build, &bench.user, "upgrade", &[], cache.kill)?;
    let folder = server.data().with_file_name("");
    let old = old_cluster(bench, &folder)?;
    server.start_again()?;
    server.query("CREATE TABLE gone AS SELECT generate_series(1, 10000); DROP TABLE gone; CHECKPOINT")?;
    server.stop()?;
    // pg_upgrade starts and stops it, too.
    server.set("entresol.drain_at_shutdown", "off")?;
    run_pg_upgrade(bench, &server, (Path::new(OLD), &old), transfer)?;
    serves_all_rows(&server, "CREATE EXTENSION entresol")?;
    server.stop()
}

/// Starts it: all rows are there, the cache serves, after a crash, too.
fn serves_all_rows(server: &Server<'_>, extension: &str) -> Result<()> {
    server.start_again()?;
    let check = |when: &str| -> Result<()> {
        for settings in ["", "SET enable_seqscan = off; "] {
            let found = server.query(&format!("{settings}{SUMS}"))?;
            if found != ROWS {
                bail!("{when}: {found}, expected {ROWS}");
            }
        }
        Ok(())
    };
    check("after the upgrade")?;
    server.query(&format!("{extension}; CREATE EXTENSION amcheck"))?;
    if server.query("SELECT state FROM entresol_stat")? != "serving" {
        bail!("the cache does not serve");
    }
    server.query("UPDATE t SET id = id; CHECKPOINT")?;
    server.kill()?;
    server.start_again()?;
    check("after a crash")?;
    server.query("SELECT bt_index_check('t_sum', true)")?;
    server.check_log_for_panics()
}

/// A cluster whose cache has pages that are newer than its files: pg_resetwal refuses it, and a server in
/// binary upgrade mode brings them to their files.
fn needs_its_cache(bench: &Bench) -> Result<()> {
    let configuration = format!("{}entresol.drain_at_shutdown = off\nautovacuum = off\n", ENTRESOL.kill);
    let server = Server::start(&bench.build, &bench.user, "upgrade needed", &["-k"], &configuration)?;
    server.query(TABLE)?;
    server.query("UPDATE t SET sum = md5(sum)")?;
    server.query("CREATE EXTENSION entresol")?;
    if server.query("SELECT slots_dirty > 100 FROM entresol_stat")? != "t" {
        bail!("upgrade: no page on flash is newer than its file: this is not tested");
    }
    let right = server.query(SUMS)?;
    server.stop()?;
    for option in ["-n", "-f"] {
        let mut reset = bench.user.command(bench.build.program("pg_resetwal"));
        let said = output(reset.arg(option).arg(server.data()));
        let said = said.err().map_or_else(|| "no error".to_owned(), |error| format!("{error:#}"));
        if !said.contains("database cluster needs its flash cache")
            || !said.contains("entresol.drain_at_shutdown")
        {
            bail!("upgrade: pg_resetwal {option}: {said}");
        }
    }
    server.start_with("-b")?;
    if server.query(SUMS)? != right {
        bail!("upgrade: in binary upgrade mode the rows are others");
    }
    server.stop()?;
    server.check_files().context("upgrade: after binary upgrade mode")?;
    fs::remove_file(server.data().with_file_name("flash"))?;
    server.set("shared_preload_libraries", "")?;
    server.start_again()?;
    if server.query(SUMS)? != right {
        bail!("upgrade: after binary upgrade mode the rows are others");
    }
    server.check_log()?;
    server.stop()?;
    println!("upgrade: pg_resetwal refuses a cluster that needs its cache; binary upgrade mode drains it");
    Ok(())
}

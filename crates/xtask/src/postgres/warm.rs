//! The suite `flash-warm`: a cache is warm after a drained restart, unless the files were changed without it;
//! and pages enter before they are needed, of a database and by manifests.

use super::kill;
use super::server::Server;
use super::sql::Sql;
use super::standby::{caught_up, wait_until_primary};
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A cache that is larger than the database, and shared buffers that are smaller.
const ROOMY: &str = "
shared_preload_libraries = 'entresol'
shared_buffers = 2MB
autovacuum = off
wal_level = replica
max_wal_size = 1GB
entresol.flash = 'FOLDER/flash'
entresol.size = 256MB
entresol.objects = 2048
entresol.drain_at_shutdown = on
";

const SUM: &str = "SELECT sum(abalance), count(*) FROM pgbench_accounts";

pub(super) fn test(bench: &Bench) -> Result<()> {
    let server = Server::start(&bench.build, &bench.user, "warm", &["-k"], ROOMY)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "4"]))?;
    server.query("CREATE EXTENSION entresol")?;
    server.query("CREATE DATABASE other")?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "2", "other"]))?;
    output(server.client("pgbench").args(["-n", "-c", "4", "-t", "1000"]))?;
    let sum = server.query(SUM)?;
    let warm = Warm { bench, server: &server, sql: Sql(&server), sum };
    warm.after_a_drain()?;
    warm.not_after_a_stock_server()?;
    warm.not_after_files_were_put_back()?;
    warm.a_database()?;
    warm.a_new_flash_by_a_manifest()?;
    warm.a_standby_by_its_backup()?;
    forecasts(bench)?;
    server.check_log()?;
    server.stop()?;
    server.check_files()?;
    println!(
        "warm: after a drain, of a database, and by manifests; not if the files were changed without the cache"
    );
    Ok(())
}

struct Warm<'a> {
    bench: &'a Bench,
    server: &'a Server<'a>,
    sql: Sql<'a>,
    sum: String,
}

impl Warm<'_> {
    /// Stops it with a drain. Then its files are complete.
    fn stop(&self) -> Result<()> {
        self.server.stop()?;
        self.server.check_files()
    }

    fn slots_valid(&self) -> Result<u64> {
        Ok(self.server.query("SELECT slots_valid FROM entresol_stat")?.parse()?)
    }

    /// Few pages are in the cache: those that the start has read.
    fn is_cold(&self, when: &str) -> Result<()> {
        match self.slots_valid()? {
            few if few < 500 => self.sql.expect(SUM, &self.sum).context(when.to_owned()),
            many => bail!("warm: {many} pages are in the cache {when}"),
        }
    }

    /// All of the table is read from the cache.
    fn is_served(&self, when: &str) -> Result<()> {
        let read = || -> Result<u64> { Ok(self.server.query("SELECT misses FROM entresol_stat")?.parse()?) };
        let before = read()?;
        self.sql.expect(SUM, &self.sum)?;
        let missed = read()? - before;
        let pages: u64 = self.server.query("SELECT pg_relation_size('pgbench_accounts') / 8192")?.parse()?;
        if missed > pages / 10 {
            bail!("warm: of {pages} pages {missed} were read from disk {when}");
        }
        Ok(())
    }

    fn after_a_drain(&self) -> Result<()> {
        self.server.query(SUM)?;
        let before = self.slots_valid()?;
        for round in 0..3 {
            self.stop()?;
            self.server.start_again()?;
            let now = self.slots_valid()?;
            if before < 4000 || now + 300 < before {
                bail!("warm: {before} pages were in the cache, after a drained restart {now}");
            }
            self.sql.expect("SELECT slots_dirty < 100 FROM entresol_stat", "t")?;
            self.is_served("after a drained restart")?;
            // A change makes the cluster need its flash again.
            self.server.query("UPDATE pgbench_tellers SET filler = 'x'; CHECKPOINT")?;
            if round == 1 {
                self.server.kill()?;
                self.server.start_again()?;
                self.is_served("after a crash")?;
            }
        }
        Ok(())
    }

    /// Changes the cluster with a stock server, and starts it again with the cache.
    fn change_without(&self, change: &str) -> Result<()> {
        self.server.set("shared_preload_libraries", "")?;
        self.server.start_again()?;
        self.server.query(change)?;
        Ok(())
    }

    fn not_after_a_stock_server(&self) -> Result<()> {
        self.stop()?;
        self.change_without("UPDATE pgbench_accounts SET filler = 'stock' WHERE aid <= 1000")?;
        self.server.stop()?;
        self.server.set("shared_preload_libraries", "entresol")?;
        self.server.start_again()?;
        self.is_cold("after a stock server")?;
        self.sql.expect("SELECT count(*) FROM pgbench_accounts WHERE filler LIKE 'stock%'", "1000")?;
        // One that is killed has made no checkpoint: what it did is in the log.
        self.server.query("SELECT entresol_prewarm()")?;
        self.stop()?;
        self.change_without("UPDATE pgbench_accounts SET filler = 'killed' WHERE aid <= 1000")?;
        self.server.kill()?;
        self.server.set("shared_preload_libraries", "entresol")?;
        self.server.start_again()?;
        self.sql.expect("SELECT count(*) FROM pgbench_accounts WHERE filler LIKE 'killed%'", "1000")?;
        self.sql.expect(SUM, &self.sum)
    }

    /// The files are an earlier drained state, the flash is the present one.
    fn not_after_files_were_put_back(&self) -> Result<()> {
        self.stop()?;
        let data = self.server.data();
        let (older, aside) = (data.with_file_name("older"), data.with_file_name("aside"));
        output(Command::new("cp").arg("-a").arg(data).arg(&older))?;
        self.server.start_again()?;
        self.server.query("UPDATE pgbench_accounts SET filler = 'future' WHERE aid <= 1000")?;
        self.stop()?;
        fs::rename(data, &aside)?;
        fs::rename(&older, data)?;
        self.server.start_again()?;
        self.is_cold("after the files were put back")?;
        self.sql.expect("SELECT count(*) FROM pgbench_accounts WHERE filler LIKE 'future%'", "0")?;
        self.stop()?;
        fs::remove_dir_all(&aside)?;
        self.server.start_again()
    }

    /// Another flash in the place of the present one.
    fn new_flash(&self) -> Result<()> {
        self.stop()?;
        fs::remove_file(self.server.data().with_file_name("flash"))?;
        self.server.start_again()
    }

    fn a_database(&self) -> Result<()> {
        self.new_flash()?;
        self.is_cold("on a new flash")?;
        let warmed: u64 = self.server.query("SELECT entresol_prewarm()")?.parse()?;
        let pages: u64 = self
            .server
            .query("SELECT sum(pg_relation_size(oid))::bigint / 8192 FROM pg_class WHERE relpersistence = 'p' AND relfilenode > 0")?
            .parse()?;
        // Some were read, and entered, before.
        if warmed == 0 || self.slots_valid()? < pages * 9 / 10 {
            bail!("warm: of {pages} pages of the database {warmed} were brought in");
        }
        self.is_served("after the database was brought in")?;
        self.sql.expect("SELECT entresol_prewarm() < 100", "t")?;
        // A cache that is too small takes what it has room for, and not all in turn.
        self.stop()?;
        self.server.set("entresol.size", "32MB")?;
        self.new_flash_is_small(pages)?;
        self.stop()?;
        self.server.set("entresol.size", "256MB")?;
        self.server.start_again()
    }

    fn new_flash_is_small(&self, pages: u64) -> Result<()> {
        self.server.start_again()?;
        let slots: u64 = self.server.query("SELECT slots FROM entresol_stat")?.parse()?;
        let warmed: u64 = self.server.query("SELECT entresol_prewarm()")?.parse()?;
        if warmed > slots || warmed < slots / 2 || slots > pages {
            bail!("warm: {warmed} of {pages} pages were brought into {slots} slots");
        }
        self.sql.expect(SUM, &self.sum)
    }

    fn a_new_flash_by_a_manifest(&self) -> Result<()> {
        self.server.query("SELECT entresol_prewarm()")?;
        // Of two databases.
        output(self.server.client("pgbench").args(["-n", "-S", "-c", "2", "-t", "20000", "other"]))?;
        let dumped: u64 = self.server.query("SELECT entresol_dump_manifest()")?.parse()?;
        let valid = self.slots_valid()?;
        if dumped + 200 < valid || dumped > valid + 200 {
            bail!("warm: a manifest names {dumped} pages, {valid} are in the cache");
        }
        let elsewhere = self.server.data().with_file_name("elsewhere");
        let elsewhere = elsewhere.display();
        self.server.query(&format!("SELECT entresol_dump_manifest('{elsewhere}')"))?;
        self.server.query("CREATE TABLE dropped AS SELECT generate_series(1, 100000) i; CHECKPOINT")?;
        self.server.query("SELECT entresol_dump_manifest(); DROP TABLE dropped; CHECKPOINT")?;
        self.new_flash()?;
        for path in ["", &format!("'{elsewhere}'")] {
            let loaded: u64 =
                self.server.query(&format!("SELECT entresol_load_manifest({path})"))?.parse()?;
            let now = self.slots_valid()?;
            if now < valid * 8 / 10 || (path.is_empty() && loaded < valid / 2) {
                bail!("warm: of {valid} pages {loaded} were loaded, and {now} are in the cache");
            }
        }
        self.is_served("after a manifest was loaded")?;
        let other = "SELECT sum(cached) > 2000 FROM entresol_stat_relation() s, pg_database d
                     WHERE d.oid = database AND datname = 'other'";
        self.sql.expect(other, "t")?;
        let file = self.server.data().join("postgresql.conf");
        self.sql.refuse(
            &format!("SELECT entresol_load_manifest('{}')", file.display()),
            "is no manifest of a flash cache",
        )?;
        self.sql.refuse("SELECT entresol_load_manifest('/absent')", "could not open manifest")?;
        self.sql.refuse("SELECT entresol_dump_manifest('/absent/manifest')", "could not be written")
    }

    /// A manifest is in a base backup: a standby reads the pages that it names at its start, and writes
    /// manifests of its own.
    fn a_standby_by_its_backup(&self) -> Result<()> {
        self.server.query("SELECT entresol_dump_manifest()")?;
        let Bench { build, user, .. } = self.bench;
        let standby = Server::from_backup(build, user, "warm standby", self.server, &["-R"])?;
        let flash = standby.data().with_file_name("flash");
        standby.set("entresol.flash", &flash.display().to_string())?;
        standby.set("entresol.manifest_every", "1s")?;
        let manifest = standby.data().join("entresol.manifest");
        let before = fs::metadata(&manifest)?.modified()?;
        standby.start_again()?;
        until("the standby reads the manifest", || {
            Ok(fs::read_to_string(standby.log())?.contains("pages that the manifest names"))
        })?;
        let valid = self.slots_valid()?;
        let warm: u64 = standby.query("SELECT slots_valid FROM entresol_stat")?.parse()?;
        if warm < valid / 2 {
            bail!("warm: the primary has {valid} pages in its cache, a new standby {warm}");
        }
        until("the standby writes a manifest", || Ok(fs::metadata(&manifest)?.modified()? > before))?;
        caught_up(self.server, &standby)?;
        let there = standby.query(SUM)?;
        if there != self.sum {
            bail!("warm: the sums are {}, on a standby {there}", self.sum);
        }
        standby.query("SELECT pg_promote()")?;
        wait_until_primary(&standby)?;
        output(standby.client("pgbench").args(["-n", "-c", "2", "-t", "200"]))?;
        standby.query("CREATE EXTENSION amcheck")?;
        kill::check(&standby, 1).context("warm: a standby that was promoted")?;
        standby.stop()?;
        standby.check_files()?;
        standby.check_log()
    }
}

/// A cache that is large enough has shadows, which tell what half and twice the flash would hit.
fn forecasts(bench: &Bench) -> Result<()> {
    let configuration = ROOMY.replace("256MB", "2200MB");
    let server = Server::start(&bench.build, &bench.user, "warm shadows", &["-k"], &configuration)?;
    let sql = Sql(&server);
    output(server.client("pgbench").args(["-i", "-q", "-s", "16"]))?;
    server.query("CREATE EXTENSION entresol; SELECT entresol_prewarm()")?;
    sql.expect(
        "SELECT hit_percent_half, forecast FROM entresol_benefit",
        "|not yet: too few pages were fetched",
    )?;
    // One page of 512 is drawn, and a shadow of half the size tells something after 1,100 of them.
    server.query(
        "SET max_parallel_workers_per_gather = 0;
         DO $$ BEGIN FOR n IN 1..50 LOOP PERFORM count(filler) FROM pgbench_accounts; END LOOP; END $$",
    )?;
    // All of it fits into half of the cache.
    sql.expect(
        "SELECT hit_percent_half > 90, disk_reads_saved > 50 * 20000, disk_seconds_saved > 0 FROM entresol_benefit",
        "t|t|t",
    )?;
    let half = server.query("SELECT hit_percent_half, forecast FROM entresol_benefit")?;
    println!("warm: shadows follow all processes: half of the flash hits {half}");
    server.check_log()?;
    server.stop()
}

fn until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so()? {
        if Instant::now() > until {
            bail!("warm: a minute has passed before {what}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

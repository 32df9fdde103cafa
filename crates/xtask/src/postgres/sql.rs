//! The suite `flash-sql`: the extension's views, and who may read them.

use super::cache::ENTRESOL;
use super::explain;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::thread;
use std::time::{Duration, Instant};

pub(super) fn test(bench: &Bench) -> Result<()> {
    let configuration =
        format!("{}track_io_timing = on\nautovacuum = off\nentresol.statements = 8\n", ENTRESOL.tiny);
    let server = Server::start(&bench.build, &bench.user, "sql", &["-k"], &configuration)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "2"]))?;
    output(server.client("pgbench").args(["-n", "-c", "4", "-t", "500"]))?;
    server.query("CREATE EXTENSION entresol")?;
    let sql = Sql(&server);
    views(&sql)?;
    io(&sql, bench.build.version().major)?;
    benefit(&sql)?;
    reset(&sql)?;
    warm_and_evict(&sql)?;
    keep_out(&sql)?;
    statements(&sql)?;
    if bench.build.version().major >= 18 {
        explain::test(&sql)?;
    }
    budget(&sql)?;
    roles(&sql)?;
    server.check_log()?;
    server.stop()?;
    println!("sql: views, functions and rights are as described");
    Ok(())
}

/// Asks a server, and compares.
pub(super) struct Sql<'a>(pub &'a Server<'a>);

impl Sql<'_> {
    pub fn expect(&self, statement: &str, expected: &str) -> Result<()> {
        let found = self.0.query(statement)?;
        if found != expected {
            bail!("sql: {statement}: {found}, expected {expected}");
        }
        Ok(())
    }

    pub fn refuse(&self, statement: &str, expected: &str) -> Result<()> {
        match self.0.query(statement) {
            Ok(said) => bail!("sql: {statement}: {said}; it is to be refused"),
            Err(error) if format!("{error:#}").contains(expected) => Ok(()),
            Err(error) => Err(error.context(format!("sql: {statement}"))),
        }
    }

    /// Blocks of a table in the cache.
    pub fn cached(&self, table: &str) -> Result<u64> {
        let found = self.0.query(&format!(
            "SELECT coalesce(sum(cached), 0) FROM entresol_stat_relation WHERE relation = '{table}'::regclass"
        ))?;
        found.parse().with_context(|| format!("sql: {found} blocks"))
    }
}

fn views(sql: &Sql<'_>) -> Result<()> {
    sql.expect(
        "SELECT cached > 0, dirty > 0, dirty <= cached, hits > 0, misses > 0, staged_dirty > 0
         FROM entresol_stat_relation WHERE relation = 'pgbench_accounts'::regclass AND fork = 'main'",
        "t|t|t|t|t|t",
    )?;
    // Nothing changes meanwhile, but for what the queries themselves read.
    sql.expect(
        "SELECT abs((SELECT sum(cached) FROM entresol_stat_relation()) - slots_valid) < 200
         FROM entresol_stat",
        "t",
    )?;
    sql.0.query("BEGIN; DROP TABLE pgbench_history; COMMIT")?;
    sql.expect("SELECT count(*) FROM entresol_stat_relation WHERE relation IS NULL AND cached > 0", "0")?;
    sql.expect(
        "SELECT state, mode, reason IS NULL, stats_reset IS NULL, read_p50_us BETWEEN 1 AND read_p99_us,
             flash_write_p50_us BETWEEN 1 AND flash_write_p99_us, flash_write_bytes = flash_writes * 8192
         FROM entresol_stat",
        "serving|write-back|t|t|t|t|t",
    )?;
    sql.expect(
        "SELECT count(*), count(col_description(attrelid, attnum)) FROM pg_attribute
         WHERE attrelid = 'entresol_stat'::regclass AND attnum > 0",
        "45|45",
    )?;
    sql.0.query("CHECKPOINT")?;
    sql.expect(
        "SELECT operation, count > 0, total_us >= count OR operation = 'read' OR operation = 'stage'
         FROM entresol_stat_latency",
        "read|t|t\nstage|t|t\nflash write|t|t\ndequeue|t|t\ncheckpoint|t|t\nflash sync|t|t",
    )?;
    sql.expect(
        "SELECT backend_type, hits > 0, staged_dirty > 0 FROM entresol_stat_backend
         WHERE backend_type IN ('client backend', 'checkpointer') ORDER BY 1",
        "checkpointer|f|t\nclient backend|t|t",
    )?;
    // By type of process, and in all: the same.
    sql.expect(
        "SELECT sum(b.misses) = min(s.misses), sum(b.staged_dirty) = min(s.staged_dirty)
         FROM entresol_stat_backend b, entresol_stat s",
        "t|t",
    )?;
    sql.expect(
        "SELECT string_agg(name, ' ' ORDER BY name) FROM pg_wait_events WHERE name LIKE 'Entresol%'",
        "EntresolCheckpoint EntresolDestage EntresolForget EntresolRead EntresolStage",
    )
}

/// `entresol_stat_io` has the columns of pg_stat_io, and agrees with the other views.
fn io(sql: &Sql<'_>, major: u32) -> Result<()> {
    if major >= 18 {
        sql.expect(
            "SELECT string_agg(attname, ' ' ORDER BY attnum) FILTER (WHERE attrelid = 'pg_stat_io'::regclass)
                  = string_agg(attname, ' ' ORDER BY attnum) FILTER (WHERE attrelid = 'entresol_stat_io'::regclass)
             FROM pg_attribute WHERE attnum > 0",
            "t",
        )?;
    }
    // What a query reads itself, one view has and the other one has not.
    sql.expect(
        "SELECT abs(sum(reads) - min(flash_hits)) < 200, abs(sum(hits) - min(staging_hits)) < 200,
             sum(reads) > 1000, sum(read_bytes) = 8192 * sum(reads), sum(read_time) > 0, count(writes)
         FROM entresol_stat_io io, entresol_stat WHERE io.backend_type <> 'entresol worker'",
        "t|t|t|t|t|0",
    )?;
    sql.expect(
        "SELECT reads = dequeue_reads, abs(writes - flash_writes) < 200, write_bytes = 8192 * writes, write_time > 0,
             evictions = destaged, reuses = second_chances, fsyncs > 0, fsync_time > 0, io.stats_reset IS NULL
         FROM entresol_stat_io io, entresol_stat WHERE backend_type = 'entresol worker'",
        "t|t|t|t|t|t|t|t|t",
    )?;
    sql.expect(
        "SELECT count(DISTINCT backend_type) = count(*), min(object), max(object), max(context) FROM entresol_stat_io",
        "t|relation|relation|normal",
    )
}

/// What was saved is what was counted, times what the disk takes.
fn benefit(sql: &Sql<'_>) -> Result<()> {
    sql.expect(
        "SELECT seconds BETWEEN 0 AND 3600, abs(disk_reads_saved - flash_hits - staging_hits) < 200,
             abs(disk_writes_saved - staged_dirty + destaged) < 200, disk_read_ms > 0, disk_write_ms > 0,
             abs(disk_seconds_saved - (disk_reads_saved * disk_read_ms + disk_writes_saved * disk_write_ms) / 1000) < 1e-3,
             abs(b.flash_write_bytes - s.flash_write_bytes) < 200 * 8192
         FROM entresol_benefit b, entresol_stat s",
        "t|t|t|t|t|t|t",
    )?;
    sql.expect(
        "SELECT hit_percent, hit_percent_half, hit_percent_twice, forecast LIKE 'none: the cache is too small%'
         FROM entresol_benefit",
        "|||t",
    )
}

/// The budget of writes to flash changes by reload.
fn budget(sql: &Sql<'_>) -> Result<()> {
    let is_over = |writes: &str, expected: &str| -> Result<()> {
        sql.0.query(&format!("ALTER SYSTEM SET entresol.writes_per_day = '{writes}'"))?;
        let before = sql.0.said();
        sql.0.query("SELECT pg_reload_conf()")?;
        let until = Instant::now() + Duration::from_secs(60);
        while !sql.0.said_since(before)?.contains(&format!("takes \"{writes}\" of writes in a day")) {
            if Instant::now() > until {
                bail!("sql: the worker has not seen entresol.writes_per_day = {writes}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        // Clean pages stay out until what has bypassed the cache is durable.
        (0..3).try_for_each(|_| sql.0.query("CHECKPOINT").map(drop))?;
        sql.0.query("SELECT entresol_stat_reset()")?;
        sql.0.query("UPDATE pgbench_accounts SET filler = filler WHERE aid % 4 = 0")?;
        sql.expect("SELECT over_budget > 100 FROM entresol_stat", expected)
    };
    is_over("1M", "t")?;
    is_over("unlimited", "f")
}

fn reset(sql: &Sql<'_>) -> Result<()> {
    sql.expect("SELECT staged_dirty > 1000, checkpoints > 0 FROM entresol_stat", "t|t")?;
    sql.0.query("SELECT entresol_stat_reset()")?;
    sql.expect(
        "SELECT staged_dirty < 1000, checkpoints, slots > 0, slots_valid > 0, now() - stats_reset < '1 minute'
         FROM entresol_stat",
        "t|0|t|t|t",
    )?;
    sql.expect("SELECT count FROM entresol_stat_latency WHERE operation = 'checkpoint'", "0")?;
    sql.expect("SELECT coalesce(sum(staged_dirty), 0) < 1000 FROM entresol_stat_backend", "t")?;
    sql.expect(
        "SELECT sum(staged_dirty) < 1000 FROM entresol_stat_relation WHERE relation = 'pgbench_accounts'::regclass",
        "t",
    )?;
    sql.0.query("CHECKPOINT")?;
    sql.expect("SELECT checkpoints FROM entresol_stat", "1")
}

fn warm_and_evict(sql: &Sql<'_>) -> Result<()> {
    let sum = sql.0.query("SELECT sum(abalance), count(*) FROM pgbench_accounts")?;
    let pages: u64 = sql.0.query("SELECT pg_relation_size('pgbench_branches') / 8192")?.parse()?;
    sql.0.query(
        "CREATE TABLE warm AS SELECT id, repeat('x', 300) AS filler FROM generate_series(1, 20000) id; CHECKPOINT",
    )?;
    let warm: u64 = sql.0.query("SELECT pg_relation_size('warm') / 8192")?.parse()?;
    let evicted: u64 = sql.0.query("SELECT entresol_evict('warm')")?.parse()?;
    let left = sql.cached("warm")?;
    if evicted == 0 || left > warm / 10 || warm < 500 {
        bail!("sql: of {warm} blocks {evicted} were evicted, {left} are left");
    }
    // From their files: the dirty ones went there.
    sql.expect("SELECT sum(length(filler)), sum(id) FROM warm", "6000000|200010000")?;
    sql.0.query("SELECT entresol_evict('warm')")?;
    let warmed: u64 = sql.0.query("SELECT entresol_prewarm('warm')")?.parse()?;
    let cached = sql.cached("warm")?;
    if cached < warm * 8 / 10 || warmed > warm {
        bail!("sql: of {warm} blocks {warmed} were brought in, and {cached} are there");
    }
    sql.expect("SELECT entresol_prewarm('warm') < 20", "t")?;
    sql.0.query("SELECT entresol_evict('pgbench_accounts')")?;
    sql.expect("SELECT sum(abalance), count(*) FROM pgbench_accounts", &sum)?;
    sql.expect(&format!("SELECT entresol_evict('pgbench_branches') >= 0, {pages} > 0"), "t|t")?;
    sql.0.query("CREATE VIEW v AS SELECT 1; CREATE TEMPORARY TABLE u (i int)")?;
    sql.refuse("SELECT entresol_prewarm('v')", "\"v\" has no pages")?;
    sql.refuse("SELECT entresol_evict('v')", "\"v\" has no pages")?;
    sql.refuse("CREATE UNLOGGED TABLE u (i int); SELECT entresol_prewarm('u')", "is not for the flash cache")
}

/// Of a table that is kept out no page enters: not later, not after a rewrite, not after a restart.
fn keep_out(sql: &Sql<'_>) -> Result<()> {
    let change = "UPDATE warm SET filler = filler || 'y'; CHECKPOINT";
    let stays_out = |when: &str| -> Result<()> {
        sql.0.query(change)?;
        sql.0.query("SELECT count(*) FROM warm")?;
        match sql.cached("warm")? {
            0 => Ok(()),
            cached => bail!("sql: {cached} blocks of a table that is kept out are in the cache, {when}"),
        }
    };
    sql.0.query("SELECT entresol_keep_out('warm')")?;
    sql.expect("SELECT relation FROM entresol_kept_out", "warm")?;
    stays_out("at first")?;
    sql.expect("SELECT kept_out > 100 FROM entresol_stat", "t")?;
    sql.refuse("SELECT entresol_prewarm('warm')", "or is kept out")?;
    for rewrite in ["VACUUM FULL warm", "BEGIN; ALTER TABLE warm ALTER id TYPE bigint; COMMIT"] {
        sql.0.query(rewrite)?;
        sql.0.query("SELECT entresol_evict('warm')")?;
        stays_out(rewrite)?;
    }
    sql.0.query("BEGIN; TRUNCATE warm; ROLLBACK")?;
    stays_out("after a rollback")?;
    sql.0.kill()?;
    sql.0.start_again()?;
    stays_out("after a crash")?;
    sql.0.stop()?;
    sql.0.start_again()?;
    stays_out("after a restart")?;
    sql.expect("SELECT count(*) < 3 FROM entresol_kept_out()", "t")?;
    sql.0.query("SELECT entresol_keep_out('warm', false)")?;
    sql.expect("SELECT count(*) FROM entresol_kept_out", "0")?;
    sql.0.query(change)?;
    if sql.cached("warm")? == 0 {
        bail!("sql: a table that is let in again does not enter");
    }
    sql.refuse("SELECT entresol_keep_out('v')", "cannot be kept out")
}

/// By query identifier. Parallel workers add to the statement of their leader, and what a function calls is
/// part of the statement that calls it.
fn statements(sql: &Sql<'_>) -> Result<()> {
    let pages = sql.0.query("SELECT pg_relation_size('pgbench_accounts') / 8192")?;
    sql.0.query(
        "CREATE FUNCTION scans() RETURNS bigint LANGUAGE sql VOLATILE BEGIN ATOMIC
             SELECT count(filler) FROM pgbench_accounts; END",
    )?;
    let found = "SELECT calls, hits + misses BETWEEN calls * PAGES * 9 / 10 AND calls * PAGES * 11 / 10
         FROM entresol_stat_statements s JOIN pg_database d ON d.oid = dbid AND datname = current_database()
         WHERE userid = current_user::regrole AND async_hits <= hits ORDER BY hits + misses DESC";
    let found = format!("{} LIMIT 1", found.replace("PAGES", &pages));
    for (statement, settings) in [
        ("SELECT count(filler) FROM pgbench_accounts", "SET max_parallel_workers_per_gather = 0"),
        ("SELECT count(filler) FROM pgbench_accounts", "SET max_parallel_workers_per_gather = 2"),
        ("SELECT scans()", "SET max_parallel_workers_per_gather = 0"),
        ("COPY pgbench_accounts TO '/dev/null'", "SET compute_query_id = on"),
        ("PREPARE p AS SELECT count(filler) FROM pgbench_accounts; EXECUTE p", "SET compute_query_id = on"),
    ] {
        sql.0.query("CHECKPOINT")?;
        sql.0.query("SELECT entresol_stat_reset()")?;
        for _ in 0..3 {
            sql.0.query(&format!("{settings}; SET compute_query_id = on; {statement}"))?;
        }
        sql.expect(&found, "3|t").with_context(|| format!("{settings}; {statement}"))?;
    }
    sql.0.query("SELECT entresol_stat_reset()")?;
    sql.expect("SELECT count(*) FROM entresol_stat_statements", "0")?;
    // Of a table that is in the cache.
    sql.0.query(
        "CREATE TABLE seen AS SELECT id, repeat('x', 300) AS filler FROM generate_series(1, 20000) id; CHECKPOINT",
    )?;
    sql.0.query("SELECT entresol_prewarm('seen')")?;
    sql.0.query("SET compute_query_id = on; SELECT count(filler) FROM seen")?;
    sql.expect("SELECT hits > 0 FROM entresol_stat_statements ORDER BY hits DESC LIMIT 1", "t")?;
    sql.0.query("DROP TABLE seen; SELECT entresol_stat_reset()")?;
    // More than there is room for: those that were used least recently are gone.
    let columns = |n: usize| {
        format!("SET compute_query_id = on; SELECT count(filler){} FROM pgbench_accounts", ", 1".repeat(n))
    };
    for n in 0..12 {
        sql.0.query(&columns(n))?;
        sql.0.query(&columns(0))?;
    }
    sql.expect(
        "SELECT count(*), max(calls), count(*) FILTER (WHERE calls = 1) FROM entresol_stat_statements",
        "8|13|7",
    )
}

fn roles(sql: &Sql<'_>) -> Result<()> {
    sql.0.query("CREATE ROLE reader LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_monitor")?;
    let views = ["", "_latency", "_backend", "_io", "_relation", "_statements"]
        .map(|view| format!("entresol_stat{view}"));
    for view in views.iter().map(String::as_str).chain(["entresol_kept_out", "entresol_benefit"]) {
        sql.expect(&format!("SET ROLE monitor; SELECT count(*) >= 0 FROM {view}"), "t")?;
        sql.refuse(&format!("SET ROLE reader; SELECT count(*) FROM {view}"), "permission denied for view")?;
        sql.refuse(&format!("SET ROLE reader; SELECT {view}()"), "permission denied for function")?;
    }
    for action in [
        "entresol_drain()",
        "entresol_stat_reset()",
        "entresol_prewarm('warm')",
        "entresol_prewarm()",
        "entresol_dump_manifest()",
        "entresol_load_manifest()",
        "entresol_evict('warm')",
        "entresol_keep_out('warm')",
    ] {
        for role in ["monitor", "reader"] {
            sql.refuse(&format!("SET ROLE {role}; SELECT {action}"), "permission denied for function")?;
        }
    }
    sql.refuse("SET entresol.objects = 512", "cannot be changed without restarting the server")?;
    sql.refuse(
        "ALTER SYSTEM SET entresol.policy = 'lru'",
        "Available values: face, face-gr, face-gsc, reuse",
    )?;
    sql.refuse("ALTER SYSTEM SET entresol.workers = 65", "1 .. 64")?;
    sql.refuse("ALTER SYSTEM SET entresol.writes_per_day = 'lots'", "is no amount of writes")?;
    sql.refuse(
        "ALTER SYSTEM SET entresol.size = '5MB'",
        "Choose 15 MB or more, with \"entresol.objects\" lowered to 256; with the usual 65536 forks of relations it is 31 MB",
    )?;
    sql.refuse("ALTER SYSTEM SET entresol.flash = 'x'", "is not an absolute path")?;
    sql.refuse("ALTER SYSTEM SET entresol.flash = '/tmp'", "neither a file nor a block device")
}

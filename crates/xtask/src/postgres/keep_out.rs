//! The suite `flash-kept`: a relation that is kept out of the cache stays out, whatever gives it new files;
//! and nothing is left over of files that are gone.

use super::cache::ENTRESOL;
use super::server::Server;
use super::sql::Sql;
use super::standby::{caught_up, wait_until_primary};
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Relations that may be marked, and files in the set (doors/postgres/entresol/door.h).
const MARKS_MAX: u32 = 256;
const FILES_MAX: u32 = 512;

pub(super) fn test(bench: &Bench) -> Result<()> {
    let configuration = format!(
        "{}autovacuum = off\nmax_prepared_transactions = 4\nwal_level = replica\nwal_keep_size = 1GB\n",
        ENTRESOL.tiny
    );
    let server = Server::start(&bench.build, &bench.user, "kept", &["-k"], &configuration)?;
    let sql = Sql(&server);
    server.query("CREATE EXTENSION entresol")?;
    server.query(
        "CREATE TABLE k AS SELECT id, repeat('x', 300) AS filler FROM generate_series(1, 3000) id;
         CREATE INDEX k_id ON k (id);
         CREATE TABLE other AS TABLE k;
         SELECT entresol_keep_out('k')",
    )?;
    labels(&sql)?;
    rewrites(&sql)?;
    prepared(&sql)?;
    parts(&sql)?;
    crashes(&sql)?;
    room(&sql)?;
    databases(&sql)?;
    standby(bench, &sql)?;
    let_in(&sql)?;
    server.check_log_for_panics()?;
    server.stop()?;
    println!("kept: marks follow their relations, on a standby, too, and nothing is left over");
    Ok(())
}

/// The table is marked, its file is in the set, and no page of it enters. It is the only one, besides
/// `others`.
fn is_out(sql: &Sql<'_>, table: &str, others: u32, when: &str) -> Result<()> {
    sql.expect(&format!("SELECT count(*) FROM entresol_kept_out WHERE relation = '{table}'::regclass"), "1")
        .with_context(|| format!("kept: the mark, {when}"))?;
    sql.expect(
        &format!(
            "SELECT count(*), bool_or(relfilenode = pg_relation_filenode('{table}') AND NOT leaves)
             FROM entresol_kept_out()"
        ),
        &format!("{}|t", others + 1),
    )
    .with_context(|| format!("kept: the set, {when}"))?;
    if sql.0.query("SELECT pg_is_in_recovery()")? == "f" {
        sql.0.query(&format!("UPDATE {table} SET filler = filler"))?;
        sql.0.query("CHECKPOINT")?;
    }
    sql.0.query(&format!("SELECT count(*) FROM {table}; SELECT count(*) FROM other"))?;
    match sql.cached(table)? {
        0 => Ok(()),
        cached => bail!("kept: {cached} blocks of a table that is kept out are in the cache, {when}"),
    }
}

/// Statements in transactions of their own, in one session.
fn session(server: &Server<'_>, statements: &[&str]) -> Result<String> {
    let mut psql = server.psql();
    statements.iter().for_each(|statement| {
        psql.args(["-c", statement]);
    });
    output(&mut psql)
}

fn fill(sql: &Sql<'_>) -> Result<()> {
    sql.0.query("INSERT INTO k SELECT id, repeat('y', 300) FROM generate_series(1, 3000) id").map(drop)
}

/// A mark is a security label: of its transaction, and for superusers.
fn labels(sql: &Sql<'_>) -> Result<()> {
    is_out(sql, "k", 0, "at first")?;
    sql.expect(
        "SELECT objtype, objname, label FROM pg_seclabels WHERE provider = 'entresol'",
        "table|k|keep-out",
    )?;
    let statement = "SECURITY LABEL FOR entresol ON TABLE other IS";
    for (undone, how) in [
        ("BEGIN; SELECT entresol_keep_out('other'); ROLLBACK", "an abort"),
        ("BEGIN; SAVEPOINT a; SELECT entresol_keep_out('other'); ROLLBACK TO a; COMMIT", "a savepoint"),
        ("BEGIN; SELECT entresol_keep_out('k', false); ROLLBACK", "an abort of the other direction"),
    ] {
        sql.0.query(undone)?;
        is_out(sql, "k", 0, how)?;
    }
    sql.refuse("BEGIN; SELECT entresol_keep_out('other'); PREPARE TRANSACTION 'p'", "cannot PREPARE")?;
    sql.refuse(&format!("{statement} 'out'"), "The label is \"keep-out\"")?;
    sql.refuse("SECURITY LABEL FOR entresol ON COLUMN k.id IS 'keep-out'", "only relations can be kept out")?;
    sql.refuse("SECURITY LABEL ON TABLE k IS 'keep-out'", "no security label providers have been loaded")?;
    sql.refuse(
        "CREATE ROLE owner; GRANT ALL ON SCHEMA public TO owner; SET ROLE owner; CREATE TABLE own (i int);
         SECURITY LABEL FOR entresol ON TABLE own IS 'keep-out'",
        "only superusers may keep",
    )?;
    sql.0.query(&format!("{statement} 'keep-out'"))?;
    is_out(sql, "other", 1, "by a statement")?;
    sql.0.query(&format!("{statement} NULL"))?;
    for _ in 0..3 {
        sql.0.query("CHECKPOINT")?;
    }
    is_out(sql, "k", 0, "after another table was let in")
}

/// Whatever gives the table new files.
fn rewrites(sql: &Sql<'_>) -> Result<()> {
    for statements in [
        &["TRUNCATE k", "TRUNCATE k"][..],
        &["VACUUM FULL k"],
        &["CLUSTER k USING k_id"],
        &["ALTER TABLE k ALTER id TYPE bigint", "ALTER TABLE k ALTER id TYPE int"],
        &["BEGIN; ALTER TABLE k ALTER id TYPE bigint; TRUNCATE k; TRUNCATE k; COMMIT"],
        &["BEGIN; TRUNCATE k; ROLLBACK"],
        &["BEGIN; SAVEPOINT a; TRUNCATE k; ROLLBACK TO a; ALTER TABLE k ALTER id TYPE int; COMMIT"],
        &["ALTER TABLE k SET UNLOGGED", "ALTER TABLE k SET LOGGED"],
    ] {
        session(sql.0, statements)?;
        fill(sql)?;
        is_out(sql, "k", 0, &statements.join("; "))?;
    }
    let folder = sql.0.data().with_file_name("tablespace");
    fs::create_dir_all(&folder)?;
    sql.0.own(&folder)?;
    sql.0.query(&format!("CREATE TABLESPACE there LOCATION '{}'", folder.display()))?;
    for place in ["there", "pg_default"] {
        sql.0.query(&format!("ALTER TABLE k SET TABLESPACE {place}"))?;
        is_out(sql, "k", 0, place)?;
    }
    let many = sql.0.data().with_file_name("truncate.sql");
    fs::write(&many, "TRUNCATE k;\n")?;
    output(sql.0.client("pgbench").args(["-n", "-t", "600", "-f"]).arg(&many))?;
    fill(sql)?;
    is_out(sql, "k", 0, "after 600 truncations")
}

fn prepared(sql: &Sql<'_>) -> Result<()> {
    let prepare = "BEGIN; ALTER TABLE k ALTER id TYPE bigint; PREPARE TRANSACTION 'p'";
    let two = "SELECT count(*) FROM entresol_kept_out()";
    for end in ["COMMIT", "ROLLBACK"] {
        for crash in [false, true] {
            sql.0.query(prepare)?;
            sql.expect(two, "2")?;
            sql.0.query("CHECKPOINT")?;
            if crash {
                sql.0.kill()?;
                sql.0.start_again()?;
                sql.0.query("SELECT count(*) FROM other")?;
                sql.expect(two, "2")?;
            }
            sql.0.query(&format!("{end} PREPARED 'p'"))?;
            is_out(sql, "k", 0, &format!("{end} PREPARED, after a crash: {crash}"))?;
            sql.0.query("ALTER TABLE k ALTER id TYPE int")?;
        }
    }
    Ok(())
}

/// Indexes and TOAST tables have marks of their own.
fn parts(sql: &Sql<'_>) -> Result<()> {
    sql.0.query(
        "CREATE TABLE big AS SELECT id, (SELECT string_agg(md5((id * i)::text), '')
                                         FROM generate_series(1, 300) i) AS filler
                             FROM generate_series(1, 300) id;
         CREATE UNIQUE INDEX big_id ON big (id)",
    )?;
    let toast = sql.0.query("SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'big'")?;
    sql.0.query(&format!("SELECT entresol_keep_out('{toast}'); SELECT entresol_keep_out('big_id')"))?;
    for statement in
        ["VACUUM FULL big", "REINDEX INDEX CONCURRENTLY big_id", "REINDEX TABLE big", "TRUNCATE big"]
    {
        sql.0.query(statement)?;
        sql.expect("SELECT count(*), count(*) FILTER (WHERE relid = 0) FROM entresol_kept_out()", "3|0")
            .context(statement)?;
        sql.expect(
            "SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM entresol_kept_out",
            &format!("big_id k {toast}"),
        )
        .context(statement)?;
        sql.expect(
            &format!(
                "SELECT count(*) FROM entresol_kept_out()
                 WHERE relfilenode IN (pg_relation_filenode('{toast}'), pg_relation_filenode('big_id'))"
            ),
            "2",
        )
        .context(statement)?;
    }
    sql.0.query("DROP TABLE big")?;
    is_out(sql, "k", 0, "after another table was dropped")
}

/// A crash while a rewrite is under way, and one right after it.
fn crashes(sql: &Sql<'_>) -> Result<()> {
    for checkpoint in ["SELECT 1", "CHECKPOINT"] {
        let mut under_way = sql.0.psql();
        under_way.stdout(Stdio::null()).stderr(Stdio::null());
        let mut under_way = under_way
            .args(["-c", "BEGIN; ALTER TABLE k ALTER id TYPE bigint; SELECT pg_sleep(100)"])
            .spawn()
            .context("psql cannot be started")?;
        while sql.0.query("SELECT count(*) FROM entresol_kept_out()")? != "2" {
            thread::sleep(Duration::from_millis(50));
        }
        sql.0.query(checkpoint)?;
        sql.0.kill()?;
        under_way.wait()?;
        sql.0.start_again()?;
        is_out(sql, "k", 0, "after a crash in a rewrite")?;
        sql.0.query("VACUUM FULL k")?;
        sql.0.kill()?;
        sql.0.start_again()?;
        is_out(sql, "k", 0, "after a crash after a rewrite")?;
    }
    // What a server without the module has done is found.
    sql.0.stop()?;
    sql.0.set("shared_preload_libraries", "")?;
    sql.0.start_again()?;
    sql.0.query("VACUUM FULL k")?;
    sql.0.stop()?;
    sql.0.set("shared_preload_libraries", "entresol")?;
    sql.0.start_again()?;
    is_out(sql, "k", 0, "after a rewrite by a server without the module")
}

/// No mark and no file too many is taken in silence.
fn room(sql: &Sql<'_>) -> Result<()> {
    let marks = MARKS_MAX - 1;
    sql.0.query(&format!(
        "DO $$ BEGIN FOR i IN 1..{marks} LOOP
             EXECUTE format('CREATE TABLE m%s (i int)', i);
             PERFORM entresol_keep_out(format('m%s', i)::regclass);
         END LOOP; END $$"
    ))?;
    is_out(sql, "k", marks, "with many others")?;
    sql.refuse("SELECT entresol_keep_out('other')", "no more than 256 relations can be kept out")?;
    let rewrite = |n: u32| {
        format!(
            "DO $$ BEGIN FOR i IN 1..{n} LOOP
                 EXECUTE format('ALTER TABLE m1 ALTER i TYPE %s', CASE i % 2 WHEN 0 THEN 'int' ELSE 'bigint' END);
             END LOOP; END $$"
        )
    };
    sql.refuse(&rewrite(FILES_MAX), "no more than 256 relations can be kept out")?;
    is_out(sql, "k", marks, "after a refused rewrite")?;
    sql.0.query(&rewrite(FILES_MAX / 4))?;
    is_out(sql, "k", marks, "after a rewrite with many others")?;
    sql.0.query(&format!(
        "DO $$ BEGIN FOR i IN 1..{marks} LOOP EXECUTE format('DROP TABLE m%s', i); END LOOP; END $$"
    ))?;
    is_out(sql, "k", 0, "after the others were dropped")
}

/// Databases are dumped, copied, moved and dropped.
fn databases(sql: &Sql<'_>) -> Result<()> {
    let dump = sql.0.data().with_file_name("dump.sql");
    output(sql.0.client("pg_dump").args(["--table", "k", "-f"]).arg(&dump))?;
    let all = "SELECT count(DISTINCT database), count(*) FROM entresol_kept_out()";
    sql.0.query("CREATE DATABASE d")?;
    output(sql.0.psql().args(["-d", "d", "-f"]).arg(&dump))?;
    sql.expect(all, "2|2").context("kept: a restored dump")?;
    let of = |database: &str, statement: &str| output(sql.0.psql().args(["-d", database, "-c", statement]));
    for (strategy, files) in [("wal_log", "3|3"), ("file_copy", "3|3")] {
        sql.0.query(&format!("CREATE DATABASE copy TEMPLATE d STRATEGY {strategy}"))?;
        of("copy", "TRUNCATE k")?;
        sql.expect(all, files).context(strategy)?;
        sql.0.query("ALTER DATABASE copy SET TABLESPACE there")?;
        of("copy", "SELECT count(*) FROM k")?;
        sql.expect(all, files).context("kept: a database that was moved")?;
        sql.0.query("DROP DATABASE copy")?;
        sql.expect(all, "2|2").context("kept: a database that was dropped")?;
    }
    sql.0.query("DROP DATABASE d")?;
    sql.0.query("DROP TABLESPACE there")?;
    is_out(sql, "k", 0, "after other databases were dropped")
}

/// A standby with its own flash has the primary's marks, and is told of files by the log.
fn standby(bench: &Bench, primary: &Sql<'_>) -> Result<()> {
    primary.0.query("CREATE DATABASE look")?;
    output(primary.0.psql().args(["-d", "look", "-c", "CREATE EXTENSION entresol"]))?;
    let standby = Server::from_backup(&bench.build, &bench.user, "kept standby", primary.0, &["-R"])?;
    standby.set("entresol.flash", &standby.data().with_file_name("flash").display().to_string())?;
    standby.start_again()?;
    let sql = Sql(&standby);
    // The log alone has told the standby: no session of the table's database was there.
    let files = "SELECT count(*) FROM entresol_kept_out()";
    let found = output(standby.psql().args(["-d", "look", "-c", files]))?;
    if found != "1" {
        bail!("kept: {found} files are kept out by a standby that has just begun, instead of one");
    }
    primary.0.query("TRUNCATE k")?;
    fill(primary)?;
    primary.0.query("SELECT entresol_keep_out('other')")?;
    primary.0.query("UPDATE other SET filler = filler")?;
    caught_up(primary.0, &standby)?;
    is_out(&sql, "k", 1, "on a standby")?;
    primary.0.query("SELECT entresol_keep_out('other', false)")?;
    for _ in 0..4 {
        primary.0.query("CHECKPOINT")?;
        caught_up(primary.0, &standby)?;
        standby.query("CHECKPOINT")?;
    }
    session(primary.0, &["BEGIN; TRUNCATE k; ROLLBACK", "VACUUM FULL k"])?;
    caught_up(primary.0, &standby)?;
    is_out(&sql, "k", 0, "on a standby, after more rewrites")?;
    sql.refuse("SELECT entresol_keep_out('other')", "during recovery")?;
    standby.kill()?;
    standby.start_again()?;
    caught_up(primary.0, &standby)?;
    is_out(&sql, "k", 0, "on a standby, after a crash")?;
    standby.query("SELECT pg_promote()")?;
    wait_until_primary(&standby)?;
    is_out(&sql, "k", 0, "after a promotion")?;
    standby.query("TRUNCATE k")?;
    fill(&sql)?;
    is_out(&sql, "k", 0, "after a promotion and a rewrite")?;
    standby.check_log_for_panics()?;
    standby.stop()
}

/// A table that may enter again: changed pages do at once, others when their file is durable.
fn let_in(sql: &Sql<'_>) -> Result<()> {
    sql.0.query("UPDATE k SET filler = filler || 'z'")?;
    sql.0.query("SELECT entresol_keep_out('k', false)")?;
    sql.expect("SELECT count(*) FROM entresol_kept_out", "0")?;
    sql.expect("SELECT count(*), bool_and(leaves) FROM entresol_kept_out()", "1|t")?;
    for left in ["1", "1", "0"] {
        sql.0.query("SELECT count(*) FROM k; SELECT count(*) FROM other")?;
        sql.expect("SELECT coalesce(sum(cached - dirty), 0) FROM entresol_stat_relation WHERE relation = 'k'::regclass", "0")?;
        sql.0.query("CHECKPOINT")?;
        sql.expect("SELECT count(*) FROM entresol_kept_out()", left)?;
    }
    sql.0.query("SELECT count(*) FROM k; SELECT count(*) FROM other")?;
    if sql.cached("k")? == 0 {
        bail!("kept: no page of a table that may enter again does");
    }
    Ok(())
}

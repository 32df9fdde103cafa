//! Statements that change files, and what is to be there after them: databases of both strategies,
//! tablespaces, truncations, rewrites, removals, prepared transactions, many subtransactions.
//!
//! A statement that was not acknowledged may or may not have happened: what it names is not looked at until a
//! later statement has decided it.

use super::super::server::Server;
use super::{many, quoted};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Databases, tablespaces and tables of each kind, at most: older ones are dropped.
const MOST: u32 = 3;

/// See the module's header.
pub(super) struct Statements {
    folder: PathBuf,
    next: u32,
    done: u64,
    /// Tables of the database `postgres`, with their rows.
    tables: BTreeMap<String, u64>,
    /// Databases, with the rows of their table.
    databases: BTreeMap<String, u64>,
    /// Transactions that are prepared, with the table that each one fills.
    prepared: BTreeMap<String, String>,
    /// What was not acknowledged.
    in_doubt: Vec<String>,
    /// Databases whose move was not acknowledged. They are whole where they were, or where they are; the
    /// server may have left files in the other place, as without a flash, and refuses to move them there.
    half_moved: Vec<String>,
}

impl Statements {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            next: 0,
            done: 0,
            tables: BTreeMap::new(),
            databases: BTreeMap::new(),
            prepared: BTreeMap::new(),
            in_doubt: Vec::new(),
            half_moved: Vec::new(),
        }
    }

    pub(super) fn make_folder(&self) -> Result<PathBuf> {
        fs::create_dir_all(&self.folder)?;
        Ok(self.folder.clone())
    }

    /// Statements that were acknowledged.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Works until the server ends, or `ends`.
    pub(super) fn work(&mut self, server: &Server<'_>, round: u32, ends: &AtomicBool) -> Result<()> {
        for step in round.. {
            if ends.load(SeqCst) {
                break;
            }
            let n = self.next;
            self.next += 1;
            let goes_on = match step % 8 {
                0 => self.table(server, n),
                1 => self.truncate(server, n),
                2 => self.rewrite(server),
                3 => self.database(server, n, if step % 16 < 8 { "wal_log" } else { "file_copy" }),
                4 => self.prepare(server, n),
                5 => self.subtransactions(server, n),
                6 => self.tablespace(server, n),
                _ => self.remove(server),
            }?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Does it to what `names` name; false: the server has ended, and they are in doubt.
    fn does(&mut self, server: &Server<'_>, names: &[&str], statements: &[String]) -> Result<bool> {
        self.does_in(server, "postgres", names, statements)
    }

    fn does_in(
        &mut self,
        server: &Server<'_>,
        database: &str,
        names: &[&str],
        statements: &[String],
    ) -> Result<bool> {
        let mut psql = server.psql();
        psql.env("PGDATABASE", database);
        statements.iter().for_each(|statement| _ = psql.args(["-c", statement]));
        match crate::programs::output(&mut psql) {
            Ok(_) => {
                self.done += 1;
                self.in_doubt.retain(|name| !names.contains(&name.as_str()));
                Ok(true)
            }
            Err(error) => {
                let said = format!("{error:#}");
                let is_end =
                    ["server closed", "connection to server", "shutting down", "starting up", "terminating"]
                        .iter()
                        .any(|end| said.contains(end));
                if !is_end {
                    return Err(error.context(format!("{statements:?}")));
                }
                self.in_doubt.extend(names.iter().map(|name| (*name).to_owned()));
                Ok(false)
            }
        }
    }

    fn fill(name: &str, rows: u64) -> String {
        format!(
            "CREATE TABLE {name} AS SELECT i, repeat('x', 300) AS filler FROM generate_series(1, {rows}) i"
        )
    }

    fn table(&mut self, server: &Server<'_>, n: u32) -> Result<bool> {
        let (name, rows) = (format!("t{n}"), 500 + u64::from(n % 7) * 300);
        let make = format!("BEGIN; {}; CREATE INDEX ON {name}(i); COMMIT", Self::fill(&name, rows));
        let goes_on = self.does(server, &[&name], &[make])?;
        self.tables.insert(name, rows);
        Ok(goes_on)
    }

    /// Of the table made last.
    fn truncate(&mut self, server: &Server<'_>, n: u32) -> Result<bool> {
        let Some(name) = self.known_table() else { return Ok(true) };
        let rows = u64::from(n % 5) * 100;
        let again = format!(
            "BEGIN; TRUNCATE {name}; INSERT INTO {name} SELECT i, 'again' FROM generate_series(1, {rows}) i; COMMIT"
        );
        let goes_on = self.does(server, &[&name], &[again])?;
        self.tables.insert(name, rows);
        Ok(goes_on)
    }

    fn known_table(&self) -> Option<String> {
        self.tables.keys().rev().find(|name| !self.in_doubt.contains(name)).cloned()
    }

    fn rewrite(&mut self, server: &Server<'_>) -> Result<bool> {
        let Some(name) = self.known_table() else { return Ok(true) };
        self.does(server, &[], &[format!("VACUUM FULL {name}"), "VACUUM FULL pg_class".to_owned()])
    }

    fn database(&mut self, server: &Server<'_>, n: u32, strategy: &str) -> Result<bool> {
        let (name, rows) = (format!("d{n}"), 400 + u64::from(n % 3) * 200);
        let make = format!("CREATE DATABASE {name} TEMPLATE template0 STRATEGY {strategy}");
        let goes_on = self.does(server, &[&name], &[make])?;
        self.databases.insert(name.clone(), 0);
        if !goes_on || !self.does_in(server, &name, &[&name], &[Self::fill("t", rows)])? {
            return Ok(false);
        }
        // As a template, which changes after it was copied.
        let copy = format!("c{n}");
        let goes_on = self.does(
            server,
            &[&copy],
            &[format!("CREATE DATABASE {copy} TEMPLATE {name} STRATEGY {strategy}")],
        )?;
        self.databases.insert(name.clone(), rows);
        self.databases.insert(copy, rows);
        if !goes_on {
            return Ok(false);
        }
        let changed = self.does_in(server, &name, &[&name], &["DELETE FROM t WHERE i > 100".to_owned()])?;
        self.databases.insert(name, 100);
        Ok(changed)
    }

    fn prepare(&mut self, server: &Server<'_>, n: u32) -> Result<bool> {
        // The one before is committed, after some checkpoints maybe.
        if let Some((name, table)) = self.prepared.pop_first() {
            let goes_on = self.does(server, &[&table], &[format!("COMMIT PREPARED '{name}'")])?;
            self.tables.insert(table, 50);
            if !goes_on {
                return Ok(false);
            }
        }
        let (name, table) = (format!("p{n}"), format!("prepared{n}"));
        let goes_on = self.does(
            server,
            &[&table],
            &[format!("BEGIN; {}; PREPARE TRANSACTION '{name}'", Self::fill(&table, 50))],
        )?;
        if goes_on {
            self.prepared.insert(name, table);
        }
        Ok(goes_on)
    }

    fn subtransactions(&mut self, server: &Server<'_>, n: u32) -> Result<bool> {
        let name = format!("s{n}");
        let many = format!(
            "BEGIN; CREATE TABLE {name}(i int, filler text);
             DO $$ BEGIN FOR i IN 1..3000 LOOP
                 BEGIN INSERT INTO {name} VALUES (i, 'sub'); EXCEPTION WHEN OTHERS THEN NULL; END;
             END LOOP; END $$; COMMIT"
        );
        let goes_on = self.does(server, &[&name], &[many])?;
        self.tables.insert(name, 3000);
        Ok(goes_on)
    }

    fn tablespace(&mut self, server: &Server<'_>, n: u32) -> Result<bool> {
        let (name, folder) = (format!("ts{n}"), self.folder.join(format!("ts{n}")));
        fs::create_dir_all(&folder)?;
        server.own(&folder)?;
        let make = format!("CREATE TABLESPACE {name} LOCATION '{}'", quoted(&folder));
        let table = format!("in_{name}");
        let fill = format!("{} ; ALTER TABLE {table} SET TABLESPACE {name}", Self::fill(&table, 200));
        if !self.does(server, &[&name, &table], &[make, fill])? {
            return Ok(false);
        }
        self.tables.insert(table.clone(), 200);
        let moved = self.databases.keys().next_back().filter(|name| !self.in_doubt.contains(name)).cloned();
        if let Some(moved) = &moved {
            let there = format!("ALTER DATABASE {moved} SET TABLESPACE {name}");
            if !self.does(server, &[], &[there])? {
                self.half_moved.push(moved.clone());
                return Ok(false);
            }
            if n.is_multiple_of(2) {
                let back = format!("ALTER DATABASE {moved} SET TABLESPACE pg_default");
                let drop = format!("DROP TABLE {table}");
                self.tables.remove(&table);
                if !self.does(server, &[&table], &[back, drop, format!("DROP TABLESPACE {name}")])? {
                    self.half_moved.push(moved.clone());
                    return Ok(false);
                }
                // Its owner removes the folder.
                fs::remove_dir_all(&folder)?;
            }
        }
        Ok(true)
    }

    /// Older ones are dropped.
    fn remove(&mut self, server: &Server<'_>) -> Result<bool> {
        while self.databases.len() as u32 > MOST {
            let Some((name, _)) = self.databases.pop_first() else { break };
            if !self.does(server, &[&name], &[format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")])? {
                return Ok(false);
            }
        }
        while self.tables.len() as u32 > 3 * MOST {
            let Some((name, _)) = self.tables.pop_first() else { break };
            if !self.does(server, &[&name], &[format!("DROP TABLE IF EXISTS {name}")])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// No replay makes files anew where a database was before it was moved.
    fn is_in_one_place(&self, server: &Server<'_>, name: &str) -> Result<()> {
        let place = format!("SELECT oid, dattablespace = 1663 FROM pg_database WHERE datname = '{name}'");
        let found = server.query(&place)?;
        let (oid, is_usual) = found.split_once('|').context("a row of pg_database")?;
        let usual = server.data().join("base").join(oid);
        let is_half_moved = self.half_moved.iter().any(|moved| moved == name);
        if is_usual == "f" && usual.exists() && !is_half_moved {
            bail!("the database {name} was moved, and {} is still there", usual.display());
        }
        Ok(())
    }

    /// Everything that was acknowledged is there.
    pub(super) fn check(&mut self, server: &Server<'_>) -> Result<()> {
        for (name, rows) in &self.tables {
            if self.in_doubt.contains(name) {
                continue;
            }
            let found = server.query(&format!("SELECT count(i), coalesce(sum(i), 0) FROM {name}"));
            let found = found.with_context(|| format!("the table {name}"))?;
            if found != format!("{rows}|{}", rows * (rows + 1) / 2) {
                bail!("the table {name} has {found} as rows and sum, expected {rows} rows");
            }
        }
        for (name, rows) in &self.databases {
            if self.in_doubt.contains(name) {
                continue;
            }
            let mut psql = server.psql();
            psql.env("PGDATABASE", name).args(["-c", "SELECT count(i) FROM t"]);
            let found = crate::programs::output(&mut psql).with_context(|| format!("the database {name}"))?;
            if found != rows.to_string() {
                bail!("the database {name} has {found} rows, expected {rows}");
            }
            self.is_in_one_place(server, name)?;
        }
        let found = server.query("SELECT string_agg(gid, ',' ORDER BY gid) FROM pg_prepared_xacts")?;
        for name in self.prepared.keys() {
            if !found.split(',').any(|gid| gid == name) {
                bail!("the prepared transaction {name} is not there: {found}");
            }
        }
        // What was left in doubt is decided now.
        let mut names = std::mem::take(&mut self.in_doubt);
        names.append(&mut self.half_moved);
        let is_in_doubt = |gid: &&str| {
            !gid.is_empty() && !self.prepared.contains_key(*gid) && !gid.starts_with(many::PREFIX)
        };
        for gid in found.split(',').filter(is_in_doubt) {
            server.query(&format!("ROLLBACK PREPARED '{gid}'"))?;
        }
        for name in names {
            self.tables.remove(&name);
            self.databases.remove(&name);
            server.query(&format!("DROP TABLE IF EXISTS {name}"))?;
            let is_database =
                server.query(&format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'"))?;
            if is_database == "1" {
                server.query(&format!("DROP DATABASE {name} WITH (FORCE)"))?;
            }
        }
        Ok(())
    }
}

//! A load whose rows carry versions, and an oracle outside the server: which versions were acknowledged, and
//! which were sent.

use crate::postgres::server::Server;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Clients that change rows; each has rows of its own.
const CLIENTS: usize = 3;
/// Rows of a client.
const ROWS: usize = 1200;
/// Rows of the table that is written anew again and again.
const REWRITTEN: usize = 300;

/// Versions by row, as they were sent and acknowledged. The last place is that of the table that is written
/// anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub sent: Vec<u64>,
    pub acknowledged: Vec<u64>,
}

/// See the module's header.
pub(super) struct Oracle(Arc<Mutex<Versions>>);

/// Sessions that change rows until they are told to end, or the server ends.
pub(super) struct Load {
    ends: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Result<()>>>,
}

/// A generator of numbers that are random enough.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

impl Oracle {
    /// Makes the tables.
    pub(super) fn new(server: &Server<'_>) -> Result<Self> {
        let rows = CLIENTS * ROWS;
        server.query(&format!(
            "CREATE TABLE versions (id int PRIMARY KEY, version bigint, filler text);
             ALTER TABLE versions ALTER filler SET STORAGE plain;
             INSERT INTO versions SELECT id, 0, repeat('x', 700) FROM generate_series(0, {rows} - 1) id;
             CREATE INDEX ON versions (version);
             CREATE TABLE rewritten (id int PRIMARY KEY, version bigint, filler text);
             INSERT INTO rewritten SELECT id, 0, repeat('y', 700) FROM generate_series(1, {REWRITTEN}) id"
        ))?;
        let zeros = vec![0; rows + 1];
        Ok(Self(Arc::new(Mutex::new(Versions { sent: zeros.clone(), acknowledged: zeros }))))
    }

    /// As it is now.
    pub(super) fn now(&self) -> Versions {
        self.0.lock().expect("no client has panicked").clone()
    }

    /// Asserts that each row has a version that was acknowledged in `at`, or a later one that was sent then;
    /// by the table, by its indexes, and by all pages.
    pub(super) fn check(&self, server: &Server<'_>, at: &Versions) -> Result<()> {
        let rows = "SELECT id, version FROM versions ORDER BY id";
        let forbidden = ["enable_seqscan", "enable_indexscan"];
        for setting in forbidden {
            let found = server.query(&format!("SET {setting} = off; SET enable_bitmapscan = off; {rows}"))?;
            let mut ids = 0;
            for (id, line) in found.lines().enumerate() {
                let expected = id.to_string();
                let (found, version) = line.split_once('|').context("two columns")?;
                in_bounds(at, id, version.parse()?).with_context(|| format!("{setting} = off"))?;
                if found != expected {
                    bail!("{setting} = off: row {id} is missing, there is row {found}");
                }
                ids += 1;
            }
            if ids != CLIENTS * ROWS {
                bail!("{setting} = off: {ids} rows of {}", CLIENTS * ROWS);
            }
        }
        let rewritten = server.query("SELECT count(*), min(version), max(version) FROM rewritten")?;
        let cells: Vec<u64> = rewritten.split('|').map(str::parse).collect::<Result<_, _>>()?;
        if cells[0] != REWRITTEN as u64 || cells[1] != cells[2] {
            bail!("the rewritten table has {} rows, of versions {} to {}", cells[0], cells[1], cells[2]);
        }
        in_bounds(at, CLIENTS * ROWS, cells[1]).context("the rewritten table")?;
        server.query(
            "CREATE EXTENSION IF NOT EXISTS amcheck;
             SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
             WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND relpersistence = 'p';
             SELECT count(v) FROM pg_class, verify_heapam(oid) v WHERE relkind = 'r' AND relpersistence = 'p'",
        )?;
        Ok(())
    }

    /// From now on the versions in the tables are the acknowledged ones.
    pub(super) fn learn(&self, server: &Server<'_>) -> Result<()> {
        let found = server.query("SELECT version FROM versions ORDER BY id")?;
        let mut versions: Vec<u64> = found.lines().map(str::parse).collect::<Result<_, _>>()?;
        versions.push(server.query("SELECT max(version) FROM rewritten")?.parse()?);
        let mut now = self.0.lock().expect("no client has panicked");
        // Versions are never given out twice, so one of the future is known.
        for (sent, version) in now.sent.iter_mut().zip(&versions) {
            *sent = (*sent).max(*version);
        }
        now.acknowledged = versions;
        Ok(())
    }

    /// Begins to change rows.
    pub(super) fn load(&self, server: &Server<'_>, seed: u64) -> Result<Load> {
        let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut clients = Vec::new();
        for client in 0..=CLIENTS {
            let session = Session::new(server)?;
            let (ends, done, versions) = (ends.clone(), done.clone(), self.0.clone());
            let random = Random(seed ^ (client as u64) << 40);
            clients
                .push(thread::spawn(move || change_rows(session, &ends, &done, &versions, client, random)));
        }
        Ok(Load { ends, done, clients })
    }
}

fn in_bounds(at: &Versions, row: usize, found: u64) -> Result<()> {
    let (acknowledged, sent) = (at.acknowledged[row], at.sent[row]);
    if found < acknowledged {
        bail!("row {row} has version {found}: {acknowledged} was acknowledged, and is lost");
    }
    if found > sent {
        bail!("row {row} has version {found} of the future: {sent} was the last one that was sent");
    }
    Ok(())
}

/// psql, fed with statements that return one line.
struct Session {
    psql: Child,
    statements: ChildStdin,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Session {
    fn new(server: &Server<'_>) -> Result<Self> {
        let mut psql = server.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut psql = psql.spawn().context("psql cannot be started")?;
        let statements = psql.stdin.take().context("a pipe")?;
        let lines = BufReader::new(psql.stdout.take().context("a pipe")?).lines();
        Ok(Self { psql, statements, lines })
    }

    /// Whether the statement was acknowledged with the line that it returns.
    fn is_done(&mut self, statement: &str, line: &str) -> bool {
        let sent = writeln!(self.statements, "{statement}").and_then(|()| self.statements.flush());
        sent.is_ok() && self.lines.next().is_some_and(|found| found.is_ok_and(|found| found == line))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}

fn change_rows(
    mut session: Session,
    ends: &AtomicBool,
    done: &AtomicU64,
    versions: &Mutex<Versions>,
    client: usize,
    mut random: Random,
) -> Result<()> {
    while !ends.load(SeqCst) {
        let row = if client == CLIENTS { CLIENTS * ROWS } else { client * ROWS + random.below(ROWS) };
        let version = {
            let mut versions = versions.lock().expect("no client has panicked");
            versions.sent[row] += 1;
            versions.sent[row]
        };
        let statement = if client == CLIENTS {
            thread::sleep(std::time::Duration::from_millis(30));
            // Old files are removed, and new ones made.
            format!(
                "BEGIN; TRUNCATE rewritten; INSERT INTO rewritten SELECT id, {version}, repeat('y', 700) FROM \
                 generate_series(1, {REWRITTEN}) id; COMMIT; SELECT {version};"
            )
        } else {
            format!("UPDATE versions SET version = {version} WHERE id = {row} RETURNING version;")
        };
        let acknowledged = session.is_done(&statement, &version.to_string());
        if !acknowledged {
            break;
        }
        versions.lock().expect("no client has panicked").acknowledged[row] = version;
        done.fetch_add(1, SeqCst);
    }
    Ok(())
}

impl Load {
    /// Waits until so many more statements were acknowledged.
    ///
    /// # Errors
    ///
    /// The clients have ended before.
    pub(super) fn run(&self, statements: u64) -> Result<()> {
        let until = self.done.load(SeqCst) + statements;
        while self.done.load(SeqCst) < until {
            if self.clients.iter().any(JoinHandle::is_finished) {
                bail!("a client of the load has ended: its session was cut off");
            }
            thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the clients.
    pub(super) fn end(self) -> Result<()> {
        self.ends.store(true, SeqCst);
        for client in self.clients {
            client.join().expect("a client does not panic")?;
        }
        Ok(())
    }
}

//! Transactions with more subtransactions than 16 bits can count, and row locks of two transactions
//! (multixacts) that outlive checkpoints and losses of the flash, in some of the rounds.

use super::super::server::Server;
use anyhow::{Context, Result, bail};

/// Of a transaction: more than 65,536.
pub(super) const SUBTRANSACTIONS: u64 = 70_000;
/// One of so many is rolled back.
const ROLLED_BACK: u64 = 7;
/// Rounds after which either is made anew. The gate has as many.
const ROUNDS: u32 = 4;
/// The beginning of the names of transactions that are prepared here.
pub(super) const PREFIX: &str = "many_";

/// See the module's header. All of it is acknowledged before the server ends.
#[derive(Default)]
pub(super) struct Many {
    done: u64,
    /// Tables with a row of each subtransaction that was not rolled back.
    filled: Vec<&'static str>,
    /// Each row of `many_locked` is locked by two transactions, which are prepared.
    is_held: bool,
}

/// For each subtransaction `i` what `does`, and after it a rollback of some.
fn each(does: &str) -> String {
    format!(
        "DO $$ BEGIN FOR n IN 1..{SUBTRANSACTIONS} LOOP
             BEGIN {does}; IF n % {ROLLED_BACK} = 0 THEN RAISE EXCEPTION 'back'; END IF;
             EXCEPTION WHEN raise_exception THEN NULL; END;
         END LOOP; END $$"
    )
}

fn empty(table: &str) -> String {
    format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table}(i int, filler text)")
}

impl Many {
    /// Transactions of so many subtransactions that were acknowledged.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// What this round has of it.
    pub(super) fn work(&mut self, server: &Server<'_>, round: u32) -> Result<()> {
        match round % ROUNDS {
            1 => self.commit(server).context("many subtransactions"),
            2 => self.hold(server).context("many row locks"),
            _ => Ok(()),
        }
    }

    fn fills(&mut self, table: &'static str) {
        self.done += 1;
        self.filled.retain(|filled| *filled != table);
        self.filled.push(table);
    }

    fn commit(&mut self, server: &Server<'_>) -> Result<()> {
        let fill = each("INSERT INTO many_committed VALUES (n, 'sub')");
        server.query(&format!("BEGIN; {}; {fill}; COMMIT", empty("many_committed")))?;
        self.fills("many_committed");
        Ok(())
    }

    /// One transaction locks all rows. Each subtransaction of another one locks a row, which makes a
    /// multixact of its own.
    fn hold(&mut self, server: &Server<'_>) -> Result<()> {
        self.release(server)?;
        self.filled.retain(|filled| *filled != "many_prepared");
        let rows =
            format!("INSERT INTO many_locked SELECT n, 'row' FROM generate_series(1, {SUBTRANSACTIONS}) n");
        let index = "CREATE UNIQUE INDEX ON many_locked(i)";
        server.query_each(&[
            &format!("BEGIN; {}; {rows}; {index}; {}; COMMIT", empty("many_locked"), empty("many_prepared")),
            &format!(
                "BEGIN; SELECT count(*) FROM (SELECT 1 FROM many_locked FOR KEY SHARE) locked;
                 PREPARE TRANSACTION '{PREFIX}a'"
            ),
        ])?;
        let lock = "PERFORM 1 FROM many_locked WHERE i = n FOR KEY SHARE;
                    INSERT INTO many_prepared VALUES (n, 'sub')";
        server.query(&format!("BEGIN; {}; PREPARE TRANSACTION '{PREFIX}b'", each(lock)))?;
        self.is_held = true;
        Ok(())
    }

    /// The locks are released, after some checkpoints and losses: no row is locked any more.
    pub(super) fn release(&mut self, server: &Server<'_>) -> Result<()> {
        if !std::mem::take(&mut self.is_held) {
            return Ok(());
        }
        server.query_each(&[
            &format!("COMMIT PREPARED '{PREFIX}b'"),
            &format!("ROLLBACK PREPARED '{PREFIX}a'"),
        ])?;
        self.fills("many_prepared");
        let free =
            "WITH freed AS (UPDATE many_locked SET filler = 'free' RETURNING 1) SELECT count(*) FROM freed";
        expect(server, free, SUBTRANSACTIONS.to_string())
    }

    /// All of it is there.
    pub(super) fn check(&self, server: &Server<'_>) -> Result<()> {
        let stay = || (1..=SUBTRANSACTIONS).filter(|n| n % ROLLED_BACK != 0);
        let rows = format!("{}|{}", stay().count(), stay().sum::<u64>());
        for table in &self.filled {
            expect(server, &format!("SELECT count(*), sum(i) FROM {table}"), rows.clone())?;
        }
        if !self.is_held {
            return Ok(());
        }
        // Of a transaction that is prepared no row is seen.
        expect(server, "SELECT count(*) FROM many_prepared", "0".to_owned())?;
        let members = "SELECT count(DISTINCT xmax::text), count(*)
                       FROM (SELECT xmax, (pg_get_multixact_members(xmax)).xid FROM many_locked) of_rows";
        expect(server, members, format!("{SUBTRANSACTIONS}|{}", 2 * SUBTRANSACTIONS))?;
        match server.query("SELECT 1 FROM many_locked WHERE i = 1 FOR UPDATE NOWAIT") {
            Err(error) if format!("{error:#}").contains("could not obtain lock") => Ok(()),
            said => bail!("a row is not locked any more: {said:?}"),
        }
    }
}

fn expect(server: &Server<'_>, query: &str, expected: String) -> Result<()> {
    let found = server.query(query).with_context(|| query.to_owned())?;
    if found != expected {
        bail!("{query} finds {found}, expected {expected}");
    }
    Ok(())
}

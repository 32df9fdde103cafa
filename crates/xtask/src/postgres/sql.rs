//! The suite `flash-sql`: what the extension's views say, and who may ask.

use super::cache::ENTRESOL;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Result, bail};

pub(super) fn test(bench: &Bench) -> Result<()> {
    let server = Server::start(&bench.build, &bench.user, "sql", &["-k"], ENTRESOL.tiny)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "2"]))?;
    output(server.client("pgbench").args(["-n", "-c", "4", "-t", "500"]))?;
    server.query(
        "CREATE EXTENSION entresol; CREATE ROLE reader LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
    )?;
    let expect = |statement: &str, expected: &str| {
        let found = server.query(statement)?;
        if found != expected {
            bail!("sql: {statement}: {found}, expected {expected}");
        }
        Ok(())
    };
    let refuse = |statement: &str, expected: &str| match server.query(statement) {
        Ok(said) => bail!("sql: {statement}: {said}; it is to be refused"),
        Err(error) if format!("{error:#}").contains(expected) => Ok(()),
        Err(error) => Err(error.context(format!("sql: {statement}"))),
    };
    expect(
        "SELECT cached > 0, dirty > 0, dirty <= cached, hits > 0, misses > 0, staged_dirty > 0
         FROM entresol_stat_relation WHERE relation = 'pgbench_accounts'::regclass AND fork = 'main'",
        "t|t|t|t|t|t",
    )?;
    // Nothing changes meanwhile, but for what the queries themselves read.
    expect(
        "SELECT abs((SELECT sum(cached) FROM entresol_stat_relation()) - slots_valid) < 200
         FROM entresol_stat",
        "t",
    )?;
    server.query("BEGIN; DROP TABLE pgbench_history; COMMIT")?;
    expect("SELECT count(*) FROM entresol_stat_relation WHERE relation IS NULL AND cached > 0", "0")?;
    for question in ["SELECT slots > 0 FROM entresol_stat", "SELECT count(*) > 0 FROM entresol_stat_relation"]
    {
        expect(&format!("SET ROLE monitor; {question}"), "t")?;
        refuse(&format!("SET ROLE reader; {question}"), "permission denied for view")?;
    }
    refuse("SET ROLE monitor; SELECT entresol_drain()", "permission denied for function")?;
    refuse("SET entresol.flash = '/x'", "cannot be changed without restarting the server")?;
    refuse("ALTER SYSTEM SET entresol.policy = 'lru'", "Available values: face, face-gr, face-gsc")?;
    server.check_log()?;
    server.stop()?;
    println!("sql: the views say what they are to say, to those who may ask");
    Ok(())
}

//! A part of the suite `flash-sql`: what EXPLAIN (ANALYZE, FLASH) says of plans, compared with BUFFERS. Each
//! block that PostgreSQL reads is a hit or a miss, in every node, and in parallel workers.

use super::sql::Sql;
use anyhow::{Context, Result, bail};
use serde_json::Value;

const PARALLEL: &str = "SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0;
    SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET enable_nestloop = off; SET enable_mergejoin = off; ";

const JOIN: &str = "SELECT count(a.filler) FROM pgbench_accounts a JOIN warm ON id = aid";

/// Settings, a query, and a node of its plan that must be there.
const QUERIES: [(&str, &str, &str); 4] = [
    (PARALLEL, "SELECT count(filler) FROM pgbench_accounts", "Gather"),
    (
        "SET enable_seqscan = off; SET enable_indexscan = off; ",
        "SELECT count(filler) FROM pgbench_accounts WHERE aid % 3 = 0 AND aid > 30000",
        "Bitmap Heap Scan",
    ),
    (
        "SET enable_nestloop = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0; ",
        JOIN,
        "Hash",
    ),
    (PARALLEL, JOIN, "Gather"),
];

pub(super) fn test(sql: &Sql<'_>) -> Result<()> {
    sql.refuse("EXPLAIN (FLASH) SELECT 1", "EXPLAIN option FLASH requires ANALYZE")?;
    sql.expect("EXPLAIN (ANALYZE OFF, FLASH OFF, COSTS OFF) SELECT 1", "Result")?;
    // Queries that end with an error inside of another one, whose counts continue.
    sql.0.query(
        "CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
             EXECUTE 'EXPLAIN (ANALYZE, FLASH) SELECT sum(1 / (bid - bid)) FROM pgbench_accounts';
             RETURN 0; EXCEPTION WHEN division_by_zero THEN RETURN 1; END $$",
    )?;
    for (settings, query, wanted) in QUERIES {
        sql.0.query("CHECKPOINT")?;
        one(sql, settings, query, wanted)?;
        // A parallel query has no savepoints.
        if settings != PARALLEL {
            one(sql, settings, &query.replace("count(", "fails(), count("), wanted)?;
        }
    }
    let text = sql.0.query(
        "EXPLAIN (ANALYZE, FLASH, COSTS OFF, TIMING OFF) SELECT count(filler) FROM pgbench_accounts",
    )?;
    let lines = text.lines().filter(|line| line.trim().starts_with("Flash: ")).count();
    if lines < 3 {
        bail!("sql: {lines} lines of EXPLAIN are of the flash:\n{text}");
    }
    Ok(())
}

fn one(sql: &Sql<'_>, settings: &str, query: &str, wanted: &str) -> Result<()> {
    let said = sql.0.query(&format!("{settings}EXPLAIN (ANALYZE, FLASH, BUFFERS, FORMAT JSON) {query}"))?;
    let json = said.find('[').map(|at| &said[at..]).context("no JSON")?;
    let all: Value = serde_json::from_str(json)?;
    let plan = &all[0]["Plan"];
    let (mut found, mut read) = (false, 0);
    compare(plan, wanted, &mut found, &mut read).with_context(|| format!("sql: {query}: {all:#}"))?;
    if !found || read < 1000 {
        bail!("sql: {query}: no node {wanted}, or {read} blocks: this was not tested: {all:#}");
    }
    let (of_query, of_plan) = (counted(&all[0])?, counted(plan)?);
    if of_query < of_plan {
        bail!("sql: {query}: {of_query} blocks of the query, {of_plan} of its plan");
    }
    Ok(())
}

/// Blocks that were read, from the cache or not.
fn counted(node: &Value) -> Result<u64> {
    let of = |name: &str| node["Flash"][name].as_u64().with_context(|| format!("a node without {name}"));
    Ok(of("Hits")? + of("Misses")?)
}

/// A few blocks may have been read anew, as they were elsewhere meanwhile: the two count these differently.
fn compare(node: &Value, wanted: &str, found: &mut bool, most: &mut u64) -> Result<()> {
    let name = node["Node Type"].as_str().context("a node without a type")?;
    let read = node["Shared Read Blocks"].as_u64().context("a node without buffers")?;
    let flash = counted(node)?;
    if name == "Gather" && node["Workers Launched"].as_u64() == Some(0) {
        bail!("no parallel worker was there: this was not tested");
    }
    if name != "Bitmap Index Scan" && flash.abs_diff(read) > 5 + read / 50 {
        bail!("{name}: {read} blocks were read, and {flash} from the cache or past it");
    }
    *found |= name == wanted;
    *most = (*most).max(flash);
    for child in node["Plans"].as_array().into_iter().flatten() {
        compare(child, wanted, found, most)?;
    }
    Ok(())
}

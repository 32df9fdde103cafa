//! PostgreSQL's own tests, over the flash cache with hooktrace's oracles, or without a module.

use super::cache::{Cache, ORACLES};
use super::counters::Counters;
use super::server::Server;
use super::test::Bench;
use super::tools::Tools;
use crate::programs::output;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Tests of a group that run at once.
const CONNECTIONS: u32 = 10;

/// The line of a TAP report that says how it went.
fn outcome(line: &str) -> Option<String> {
    line.strip_prefix("# ").filter(|said| said.contains(" tests passed")).map(str::to_owned)
}

pub(super) fn tiny(cache: &Cache) -> String {
    format!("{}{ORACLES}", cache.tiny)
}

pub(super) fn regress(bench: &Bench, cache: Option<&Cache>) -> Result<()> {
    let name = cache.map_or("inactive".to_owned(), |cache| format!("{} regress", cache.name));
    let configuration = cache.map_or_else(|| "shared_buffers = 16MB\n".to_owned(), tiny);
    regress_with(bench, &name, &["-k"], &configuration, cache)
}

fn regress_with(
    bench: &Bench,
    name: &str,
    options: &[&str],
    configuration: &str,
    cache: Option<&Cache>,
) -> Result<()> {
    let server = Server::start(&bench.build, &bench.user, name, options, configuration)?;
    let mut regress = regression(bench, &server)?;
    finish(bench, &server, name, &mut regress, cache)
}

/// PostgreSQL's regression tests.
pub(super) fn regression(bench: &Bench, server: &Server<'_>) -> Result<Command> {
    let tests = bench.build.source.join("src/test/regress");
    let mut regress = pg_regress(bench, server, &tests, "pg_regress", "parallel_schedule")?;
    regress.arg(format!("--dlpath={}", tests.display()));
    Ok(regress)
}

/// The regression and isolation tests with each kind of reads and writes, with checksums and without.
pub(super) fn matrix(bench: &Bench, cache: &Cache) -> Result<()> {
    for (io, more) in [("buffered", ""), ("direct", "debug_io_direct = data\n")] {
        for (checksums, options) in [("checksums", &["-k"][..]), ("no checksums", &[])] {
            let configuration = format!("{}{more}", tiny(cache));
            let name = |suite| format!("{} {suite} {io} {checksums}", cache.name);
            regress_with(bench, &name("regress"), options, &configuration, Some(cache))?;
            isolation_with(bench, &name("isolation"), options, &configuration, cache)?;
        }
    }
    Ok(())
}

/// The tests of contrib's modules, on a server with the cache.
pub(super) fn contrib(bench: &Bench, cache: &Cache) -> Result<()> {
    let name = format!("{} contrib", cache.name);
    let server = Server::start(&bench.build, &bench.user, &name, &["-k"], &tiny(cache))?;
    let contrib = bench.build.source.join("contrib");
    // 17 makes links to its headers with the name of the folder in which it was built. A build that was kept,
    // and unpacked in another one, has none that lead there: they are made anew, by their owner.
    let tools = Tools::for_build()?;
    let prepare = |make: &mut Command| {
        make.current_dir(&contrib);
        for name in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS"] {
            make.env_remove(name);
        }
        tools.set(make);
    };
    let mut headers = Command::new("make");
    prepare(headers.args(["-C", "../src/backend", "generated-headers"]));
    bench.steps.run(&format!("{name}: headers"), &mut headers)?;
    // The tests write next to their sources.
    bench.user.own(&contrib)?;
    let mut make = bench.user.command("make");
    prepare(make.args(["-k", "installcheck", "USE_MODULE_DB=1"]));
    let psql = bench.build.program("psql");
    make.arg(format!("bindir={}", psql.parent().unwrap_or(&psql).display()));
    server.address(&mut make);
    make.env_remove("PGDATABASE");
    let mut tests = 0;
    bench.steps.watch(&name, &mut make, |line| {
        let passed = outcome(line)?;
        tests += passed.split_whitespace().nth(1).and_then(|n| n.parse::<u32>().ok()).unwrap_or(0);
        Some(format!("{tests} tests"))
    })?;
    println!("{name}: {tests} tests passed");
    check_pages(bench, &server, &name)?;
    check_counters(bench, &server, &name, cache)?;
    server.check_log()?;
    server.stop()?;
    server.check_files()
}

/// Tables and indexes of all databases that the tests left behind agree with themselves and each other.
pub(super) fn check_pages(bench: &Bench, server: &Server<'_>, name: &str) -> Result<()> {
    let mut check = bench.user.command(bench.build.program("pg_amcheck"));
    server.address(&mut check);
    check.args(["--all", "--install-missing", "--heapallindexed", "--no-strict-names", "--jobs=2"]);
    output(&mut check).with_context(|| format!("{name}: pg_amcheck"))?;
    println!("{name}: pg_amcheck --all --heapallindexed finds nothing");
    Ok(())
}

pub(super) fn isolation(bench: &Bench, cache: &Cache) -> Result<()> {
    isolation_with(bench, &format!("{} isolation", cache.name), &[], &tiny(cache), cache)
}

fn isolation_with(
    bench: &Bench,
    name: &str,
    options: &[&str],
    configuration: &str,
    cache: &Cache,
) -> Result<()> {
    let server = Server::start(&bench.build, &bench.user, name, options, configuration)?;
    let tests = bench.build.source.join("src/test/isolation");
    let mut regress = pg_regress(bench, &server, &tests, "pg_isolation_regress", "isolation_schedule")?;
    finish(bench, &server, name, &mut regress, Some(cache))
}

fn pg_regress(
    bench: &Bench,
    server: &Server<'_>,
    tests: &Path,
    program: &str,
    schedule: &str,
) -> Result<Command> {
    let out = server.data().with_file_name("out");
    fs::create_dir_all(&out)?;
    bench.user.own(&out)?;
    let mut regress = bench.user.command(tests.join(program));
    server.address(&mut regress);
    // Programs of the tests that were not installed find the server's libraries by this.
    regress.env("LD_LIBRARY_PATH", bench.build.installed.join("lib"));
    regress.current_dir(&out).env_remove("PGDATABASE");
    for option in ["inputdir", "expecteddir"] {
        regress.arg(format!("--{option}={}", tests.display()));
    }
    regress.arg(format!("--outputdir={}", out.display()));
    regress.arg(format!("--bindir={}", bench.build.installed.join("bin").display()));
    regress.arg(format!("--schedule={}", tests.join(schedule).display()));
    regress.arg(format!("--max-connections={CONNECTIONS}"));
    Ok(regress)
}

fn finish(
    bench: &Bench,
    server: &Server<'_>,
    name: &str,
    regress: &mut Command,
    cache: Option<&Cache>,
) -> Result<()> {
    judge(bench, server, name, regress, cache)?;
    server.check_log()?;
    server.stop()?;
    if cache.is_some() {
        server.check_files()?;
    }
    Ok(())
}

/// Runs the tests. What they leave behind agrees, and the counters are as they must be.
pub(super) fn judge(
    bench: &Bench,
    server: &Server<'_>,
    name: &str,
    regress: &mut Command,
    cache: Option<&Cache>,
) -> Result<()> {
    let mut said = String::new();
    bench.steps.watch(name, regress, |line| {
        said = outcome(line).unwrap_or_else(|| std::mem::take(&mut said));
        line.split_once(" - ").or_else(|| line.split_once(" + ")).map(|(test, _)| test.trim().to_owned())
    })?;
    println!("{name}: {said}");
    if let Some(cache) = cache {
        check_pages(bench, server, name)?;
        server.query("CHECKPOINT")?;
        check_counters(bench, server, name, cache)?;
    }
    Ok(())
}

/// What the suite is to test has happened, and nothing that must not.
fn check_counters(bench: &Bench, server: &Server<'_>, name: &str, cache: &Cache) -> Result<()> {
    let counters = Counters::of(bench, server, name)?;
    counters.must_happen(cache.must_happen)?;
    counters.must_not_happen(cache.must_not_happen)
}

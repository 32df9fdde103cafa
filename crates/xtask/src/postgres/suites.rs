//! PostgreSQL's own tests, over the model cache or without a module.

use super::cache::{Cache, MODEL};
use super::server::Server;
use super::test::Bench;
use super::tools::Tools;
use crate::paths;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests of a group that run at once.
const CONNECTIONS: u32 = 10;

/// The line of a TAP report that says how it went.
fn outcome(line: &str) -> Option<String> {
    line.strip_prefix("# ").filter(|said| said.contains(" tests passed")).map(str::to_owned)
}

pub(super) fn regress(bench: &Bench, cache: Option<&Cache>) -> Result<()> {
    let name = cache.map_or("inactive".to_owned(), |cache| format!("{} regress", cache.name));
    let configuration = cache.map_or("shared_buffers = 16MB\n", |cache| cache.tiny);
    let server = Server::start(&bench.build, &bench.user, &name, &["-k"], configuration)?;
    let tests = bench.build.source.join("src/test/regress");
    let mut regress = pg_regress(bench, &server, &tests, "pg_regress", "parallel_schedule")?;
    regress.arg(format!("--dlpath={}", tests.display()));
    finish(bench, &server, &name, &mut regress, cache)
}

pub(super) fn isolation(bench: &Bench, cache: &Cache) -> Result<()> {
    let name = format!("{} isolation", cache.name);
    let server = Server::start(&bench.build, &bench.user, &name, &[], cache.tiny)?;
    let tests = bench.build.source.join("src/test/isolation");
    let mut regress = pg_regress(bench, &server, &tests, "pg_isolation_regress", "isolation_schedule")?;
    finish(bench, &server, &name, &mut regress, Some(cache))
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
    let mut said = String::new();
    bench.steps.watch(name, regress, |line| {
        said = outcome(line).unwrap_or_else(|| std::mem::take(&mut said));
        line.split_once(" - ").or_else(|| line.split_once(" + ")).map(|(test, _)| test.trim().to_owned())
    })?;
    println!("{name}: {said}");
    if let Some(cache) = cache {
        server.query("CHECKPOINT")?;
        check_counters(server, name, cache)?;
    }
    server.check_log()?;
    server.stop()?;
    if cache.is_some() {
        server.check_files()?;
    }
    Ok(())
}

/// What the suite is to test has happened, and nothing that must not.
fn check_counters(server: &Server<'_>, name: &str, cache: &Cache) -> Result<()> {
    let counters = server.counters(cache)?;
    let text: Vec<_> = counters.iter().map(|(name, n)| format!("{name} {n}")).collect();
    println!("{name}: {}", text.join(", "));
    let of = |wanted: &str| counters.iter().find(|(counted, _)| counted == wanted).map(|(_, n)| *n);
    for wanted in cache.must_happen {
        if of(wanted).is_none_or(|n| n == 0) {
            bail!("{name}: the counter `{wanted}` is zero: this was not tested");
        }
    }
    for unwanted in cache.must_not_happen {
        if of(unwanted).is_none_or(|n| n != 0) {
            bail!("{name}: the counter `{unwanted}` is not zero");
        }
    }
    Ok(())
}

/// PostgreSQL's recovery tests: crashes, standbys, promotion, PITR.
pub(super) fn tap(bench: &Bench) -> Result<()> {
    let tools = Tools::for_tap()?;
    let source = &bench.build.source;
    let out = paths::postgres().join("test/tap");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    let configuration = out.join("hooktrace.conf");
    fs::write(&configuration, MODEL.tap)?;
    bench.user.own(&out)?;

    let tests = source.join("src/test/recovery");
    let mut scripts: Vec<PathBuf> = fs::read_dir(tests.join("t"))
        .context("the recovery tests")?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    scripts.retain(|script| script.extension().is_some_and(|extension| extension == "pl"));
    scripts.sort();
    let mut prove = bench.user.command("prove");
    tools.set(&mut prove);
    let path = prove.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = path.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    prove.env("PATH", format!("{}:{path}", bench.build.installed.join("bin").display()));
    prove.env("TEMP_CONFIG", &configuration).env("TESTLOGDIR", out.join("log")).env("TESTDATADIR", &out);
    prove.env("PG_REGRESS", source.join("src/test/regress/pg_regress"));
    prove.env("REGRESS_SHLIB", source.join("src/test/regress/regress.so"));
    prove.env("top_builddir", source).env("PGPORT", "65432");
    prove.env("enable_injection_points", if bench.build.has_injection_points() { "yes" } else { "no" });
    prove.current_dir(&tests).arg("-I").arg(source.join("src/test/perl")).args(["-I", "."]).args(scripts);
    let mut said = String::new();
    bench.steps.watch("tap", &mut prove, |line| {
        if line.starts_with("Files=") {
            said = line.to_owned();
        }
        line.split_once(" ..").map(|(test, _)| test.to_owned())
    })?;
    println!("tap: {said}");
    Ok(())
}

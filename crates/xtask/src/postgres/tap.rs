//! PostgreSQL's own tests in Perl, over the flash cache with hooktrace's oracles.

use super::test::Bench;
use super::tools::Tools;
use crate::paths;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of scripts.
const FOLDERS: &[&str] = &[
    "src/test/recovery",
    "src/bin/pg_basebackup",
    "src/bin/pg_verifybackup",
    "src/bin/pg_combinebackup",
    "src/bin/pg_rewind",
];

/// Recovery, backups and pg_rewind; each cluster has a flash of its own. `only`: ends of the scripts' paths.
pub(super) fn over_flash(bench: &Bench, only: &[String]) -> Result<()> {
    let module = paths::repository().join("doors/postgres/test/tap");
    let mut failed = Vec::new();
    for name in FOLDERS {
        let folder = bench.build.source.join(name);
        let mut scripts = scripts(&folder)?;
        if !only.is_empty() {
            let is_wanted = |script: &PathBuf| {
                let script = format!("{name}/{}", script.display());
                only.iter().any(|end| script.trim_end_matches(".pl").ends_with(end.trim_end_matches(".pl")))
            };
            scripts.retain(is_wanted);
        }
        for script in scripts {
            let out = new_folder(bench, "flash-tap")?;
            let mut prove = prove(bench, &folder, &out)?;
            // The framework's library is found by then: `-I` of prove comes before the script's modules.
            prove.env("PERL5OPT", "-MEntresolTap").arg("-I").arg(&module).arg(&script);
            let found = prove.get_envs().find(|(name, _)| *name == "PERL5LIB").and_then(|(_, value)| value);
            let mut library = vec![module.clone(), bench.build.source.join("src/test/perl")];
            library.extend(
                found.map(|value| std::env::split_paths(value).collect::<Vec<_>>()).unwrap_or_default(),
            );
            prove.env("PERL5LIB", std::env::join_paths(library)?);
            prove.env("ENTRESOL_TAP_SETTINGS", bench.build.settings());
            prove.env("PG_TEST_EXTRA", "wal_consistency_checking").env("PG_TEST_TIMEOUT_DEFAULT", "600");
            let title = format!("{name}/{}", script.display());
            match watch(bench, &title, &mut prove) {
                Ok(said) => println!("flash-tap: {title}: {said}"),
                Err(error) => {
                    let kept = out.with_file_name(format!("flash-tap-failed-{}", title.replace('/', "-")));
                    let _ = fs::remove_dir_all(&kept);
                    fs::rename(&out, &kept)?;
                    println!("flash-tap: {title}: FAILED: {error:#}; its clusters are in {}", kept.display());
                    failed.push(title);
                }
            }
        }
    }
    if !failed.is_empty() {
        bail!("flash-tap: {} scripts failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

/// A new folder of the tests' user.
fn new_folder(bench: &Bench, name: &str) -> Result<PathBuf> {
    let out = paths::postgres().join("test").join(name);
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    bench.user.own(&out)?;
    Ok(out)
}

/// The scripts of a folder, by their paths in it, in order.
fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder.join("t")).with_context(|| format!("{}", folder.display()))?;
    let names: std::io::Result<Vec<_>> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
    let mut names = names?;
    names.retain(|name| name.ends_with(".pl"));
    names.sort();
    Ok(names.into_iter().map(|name| Path::new("t").join(name)).collect())
}

/// prove, as PostgreSQL's makefiles call it.
fn prove(bench: &Bench, folder: &Path, out: &Path) -> Result<Command> {
    let tools = Tools::for_tap()?;
    let source = &bench.build.source;
    let mut prove = bench.user.command("prove");
    tools.set(&mut prove);
    let path = prove.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = path.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    prove.env("PATH", format!("{}:{path}", bench.build.installed.join("bin").display()));
    prove.env("TESTLOGDIR", out.join("log")).env("TESTDATADIR", out);
    // Else the framework makes one next to the source, where the tests' user may not write.
    prove.env("PG_TEST_PORT_DIR", out.join("ports"));
    prove.env("PG_REGRESS", source.join("src/test/regress/pg_regress"));
    prove.env("REGRESS_SHLIB", source.join("src/test/regress/regress.so"));
    prove.env("top_builddir", source).env("PGPORT", "65432").env("TAR", "tar").env("GZIP_PROGRAM", "gzip");
    prove.env("enable_injection_points", if bench.build.has_injection_points() { "yes" } else { "no" });
    prove.current_dir(folder).arg("-I").arg(source.join("src/test/perl")).args(["-I", "."]);
    Ok(prove)
}

/// Runs prove, and returns its line about files and tests.
fn watch(bench: &Bench, title: &str, prove: &mut Command) -> Result<String> {
    let mut said = String::new();
    bench.steps.watch(title, prove, |line| {
        if line.starts_with("Files=") {
            said = line.to_owned();
        }
        line.split_once(" ..").map(|(test, _)| test.to_owned())
    })?;
    Ok(said)
}

//! Harnesses in `benches/` that watch the clients of a volume: faults of its devices, and changes of it.

use super::TestArgs;
use crate::block::rig::{Rig, missing, need};
use crate::{paths, programs};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The interpreter that Debian's modules are for.
const PYTHON: &str = "/usr/bin/python3";

fn has(what: &[&str]) -> bool {
    Command::new(what[0]).args(&what[1..]).output().is_ok_and(|it| it.status.success())
}

/// Runs a harness. It has failed if `failure` is true.
fn run(rig: &Rig, harness: &str, arguments: &[String], failure: &str) -> Result<()> {
    let mut program = Command::new(PYTHON);
    program
        .arg(paths::repository().join("benches").join(harness))
        .arg(&rig.entresol)
        .arg(rig.file("harness"))
        .args(arguments);
    let status = program.status().with_context(|| format!("starting {harness}"))?;
    if !status.success() {
        bail!("{failure}; the lines above say which");
    }
    Ok(())
}

/// Each fault, each cache, under load and idle. A fault may fail the requests that meet it, for as long as it
/// lasts, and nothing else.
pub(super) fn test(rig: impl Fn() -> Result<Rig>, arguments: &TestArgs) -> Result<()> {
    need(&[("nbdkit", "nbdkit"), ("nbdfuse", "libnbd-bin"), ("python3", "python3-libnbd")])?;
    if !programs::is_root()? || !Path::new("/dev/fuse").exists() {
        return missing("root and /dev/fuse");
    }
    if !has(&[PYTHON, "-c", "import nbd"]) || !has(&["nbdkit", "python", "--version"]) {
        return missing(
            "Python's module nbd, or nbdkit's plug-in for Python: apt install python3-libnbd nbdkit",
        );
    }
    let only = arguments.only.iter().flat_map(|only| ["--only".to_owned(), only.clone()]);
    let failure = "a fault is noticed by requests that have nothing to do with it";
    run(&rig()?, "block_faults.py", &only.collect::<Vec<_>>(), failure)
}

/// Random changes under load, with kills. No byte may be wrong, and nothing may refuse to continue.
pub(super) fn changes(rig: impl Fn() -> Result<Rig>, arguments: &TestArgs) -> Result<()> {
    need(&[("python3", "python3-libnbd")])?;
    if !has(&[PYTHON, "-c", "import nbd"]) {
        return missing("Python's module nbd: apt install python3-libnbd");
    }
    let count = arguments.rounds.iter().flat_map(|rounds| ["--changes".to_owned(), rounds.to_string()]);
    let failure = "a byte was wrong, or a change or a start was refused";
    run(&rig()?, "block_changes.py", &count.collect::<Vec<_>>(), failure)
}

//! Faults of the devices below a volume, by `benches/block_faults.py`: each fault, each cache, under load and
//! idle. A fault may fail the requests that meet it, for as long as it lasts, and nothing else.

use super::TestArgs;
use crate::block::rig::{Rig, missing, need};
use crate::{paths, programs};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The interpreter that Debian's modules are for.
const PYTHON: &str = "/usr/bin/python3";

pub(super) fn test(rig: impl Fn() -> Result<Rig>, arguments: &TestArgs) -> Result<()> {
    need(&[("nbdkit", "nbdkit"), ("nbdfuse", "libnbd-bin"), ("python3", "python3-libnbd")])?;
    if !programs::is_root()? || !Path::new("/dev/fuse").exists() {
        return missing("root and /dev/fuse");
    }
    let has =
        |what: &[&str]| Command::new(what[0]).args(&what[1..]).output().is_ok_and(|it| it.status.success());
    if !has(&[PYTHON, "-c", "import nbd"]) || !has(&["nbdkit", "python", "--version"]) {
        return missing(
            "Python's module nbd, or nbdkit's plug-in for Python: apt install python3-libnbd nbdkit",
        );
    }
    let rig = rig()?;
    let mut program = Command::new(PYTHON);
    program
        .arg(paths::repository().join("benches/block_faults.py"))
        .arg(&rig.entresol)
        .arg(rig.file("faults"));
    program.args(arguments.only.iter().flat_map(|only| ["--only", only]));
    let status = program.status().context("starting the harness of faults")?;
    if !status.success() {
        bail!("a fault is noticed by requests that have nothing to do with it; the lines above say which");
    }
    Ok(())
}

//! The wheel of the Python module, by maturin. The name of the file says which glibc it needs (manylinux).

use super::{Release, crates, licences, program};
use crate::paths;
use crate::programs::find;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Asks for maturin, before minutes of work for other packages.
pub(super) fn needs() -> Result<()> {
    if find("maturin", &[]).is_none() {
        bail!("maturin is needed for a wheel: `pip install maturin`; Debian has no package of it");
    }
    Ok(())
}

/// Makes it: its path. The licences of all that is compiled in are a file of the module.
pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let module = paths::repository().join("crates/python");
    // Git ignores it. The wheel is made of what is in the module's folder.
    let text = module.join("entresol/third-party-licences.txt");
    fs::write(&text, licences::text(&crates::used("entresol-python", crates::GNU, false)?)?)?;
    let stage = release.stage("wheel")?;
    let mut maturin = Command::new("maturin");
    maturin
        .args(["build", "--locked", "--profile", "dist", "--manifest-path"])
        .arg(module.join("Cargo.toml"));
    maturin.arg("--out").arg(&stage).current_dir(paths::repository());
    program::reproducible(&mut maturin, release)?;
    let outcome = release.steps.run("making the wheel", &mut maturin);
    fs::remove_file(&text)?;
    outcome?;
    let made = fs::read_dir(&stage)?.next().context("maturin has made no file")??.path();
    let wheel = release.out.join(made.file_name().context("a file")?);
    fs::copy(&made, &wheel)?;
    Ok(wheel)
}

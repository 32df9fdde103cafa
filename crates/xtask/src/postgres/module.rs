//! Modules of the built server: compiled with its own rules, and installed to where only it finds them.

use super::build::Build;
use super::tools::Tools;
use crate::package::Release;
use crate::package::program::reproducible;
use crate::paths;
use crate::programs::output;
use crate::step::Steps;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the library of crates/pg and the extension over it, and installs the extension.
///
/// # Errors
///
/// One of them does not compile.
pub(super) fn install_extension(build: &Build) -> Result<()> {
    let library = library(None)?;
    let core = format!("CORE={}", library.display());
    install(build, "entresol", &paths::extension(), &[header()], &[&core])
}

/// Compiles and installs the module that only tests load.
///
/// # Errors
///
/// It does not compile.
pub(super) fn install_hooktrace(build: &Build) -> Result<()> {
    install(build, "hooktrace", &paths::hooktrace(), &[paths::extension().join("major.h")], &[])
}

/// What the extension and the library have in common.
fn header() -> PathBuf {
    paths::repository().join("doors/postgres/entresol.h")
}

/// Copies the sources of the extension into a folder, which is made.
pub(super) fn copy_extension(to: &Path) -> Result<()> {
    copy(&paths::extension(), &[header()], to)
}

/// The static library of crates/pg. Panics in it abort, as its profile says. That of a package has no names
/// of this machine's folders.
pub(super) fn library(package: Option<&Release>) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(paths::repository());
    command.args(["build", "--locked", "--profile", "pg", "--package", "entresol-pg"]);
    if let Some(release) = package {
        reproducible(&mut command, release)?;
    }
    // What cargo compiles, or that it waits for another cargo.
    let steps = Steps::new(&paths::postgres().join("library.log"))?;
    let at = |line: &str| Some(line.trim().to_owned()).filter(|line| !line.is_empty());
    steps.watch("the library of the extension", &mut command, at)?;
    let library = paths::target().join("pg/libentresol_pg.a");
    if !library.is_file() {
        bail!("{} was not built", library.display());
    }
    Ok(library)
}

/// Copies the sources of a module to those of the server, and makes and installs it.
fn install(build: &Build, name: &str, sources: &Path, more: &[PathBuf], variables: &[&str]) -> Result<()> {
    let tools = Tools::for_build()?;
    let folder = build.source.join(name);
    copy(sources, more, &folder)?;
    let config = format!("PG_CONFIG={}", build.program("pg_config").display());
    let mut make = Command::new("make");
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
    make.current_dir(&folder).args([&config, "COPT=-Werror"]).args(variables).args(["all", "install"]);
    output(tools.set(&mut make)).with_context(|| format!("the module {name}")).map(drop)
}

/// Copies a folder of sources and more files into the folder `to`.
fn copy(sources: &Path, more: &[PathBuf], to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut files: Vec<PathBuf> = more.to_vec();
    for file in fs::read_dir(sources).with_context(|| format!("{} cannot be read", sources.display()))? {
        files.push(file?.path());
    }
    for file in files {
        copy_if_changed(&file, &to.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// A file that is as it was keeps its time, so that make has nothing to do.
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let new = fs::read(from).with_context(|| format!("{} cannot be read", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    fs::write(to, new).with_context(|| format!("{} cannot be written", to.display()))
}

//! Builds that outlive the repository: a fresh clone takes the server from the user's cache folder, if one
//! was compiled from the same source with the same patches, options and compiler.
//!
//! A file has the installed server and its source with all that tests need, without object files. Libraries
//! are found by paths relative to the programs, so that it can be unpacked anywhere.

use super::build::Build;
use crate::programs::{output, sha256};
use crate::progress::Progress;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that are kept; older ones are removed.
const KEPT: usize = 6;

/// The value of make's `rpathdir`: seen from `bin` and `lib`, and from `lib/postgresql`.
pub(super) const LIBRARIES: &str = "rpathdir=$$ORIGIN/../lib:$$ORIGIN/..";

/// `$XDG_CACHE_HOME/entresol`, or the same in `~/.cache`.
fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    cache.is_absolute().then(|| cache.join("entresol"))
}

/// The file of a build that was made of `recipe`.
fn file(recipe: &str) -> Result<Option<PathBuf>> {
    let Some(folder) = folder() else { return Ok(None) };
    let text = std::env::temp_dir().join(format!("entresol-recipe-{}", std::process::id()));
    fs::write(&text, recipe)?;
    let sum = sha256(&text);
    fs::remove_file(&text)?;
    Ok(Some(folder.join(format!("postgresql-{}.tar.gz", &sum?[..32]))))
}

/// Whether the build of `recipe` is kept.
///
/// # Errors
///
/// The name of its file cannot be made.
pub(super) fn has(recipe: &str) -> Result<bool> {
    Ok(file(recipe)?.is_some_and(|file| file.is_file()))
}

/// Unpacks the build of `recipe`. False if it was not kept.
///
/// # Errors
///
/// It cannot be unpacked. What was unpacked is removed by the build that follows.
pub(super) fn restore(build: &Build, recipe: &str) -> Result<bool> {
    let Some(file) = file(recipe)?.filter(|file| file.is_file()) else { return Ok(false) };
    let (folder, _) = places(build)?;
    fs::create_dir_all(folder)?;
    let _unpacking = Progress::new("unpacking a build that was kept");
    let mut tar = Command::new("tar");
    output(tar.arg("-xzf").arg(&file).arg("-C").arg(folder).arg("--no-same-owner"))
        .with_context(|| format!("{} cannot be unpacked; remove it", file.display()))?;
    eprintln!("taken from {}", file.display());
    Ok(true)
}

/// Keeps a build. One that cannot be kept is no failure, and is said.
pub(super) fn keep(build: &Build, recipe: &str) {
    if let Err(error) = try_to_keep(build, recipe) {
        eprintln!("the build is not kept for other clones: {error:#}");
    }
}

fn try_to_keep(build: &Build, recipe: &str) -> Result<()> {
    let Some(file) = file(recipe)? else { return Ok(()) };
    let cache = file.parent().context("a folder")?;
    fs::create_dir_all(cache).with_context(|| format!("{} cannot be made", cache.display()))?;
    let (folder, names) = places(build)?;
    let _packing = Progress::new("packing the build for other clones");
    // Under another name until it is whole.
    let part = file.with_extension(format!("part-{}", std::process::id()));
    let mut tar = Command::new("tar");
    tar.args(["-I", "gzip -1", "--exclude=*.o", "-cf"]).arg(&part).arg("-C").arg(folder).args(names);
    let packed = output(&mut tar).and_then(|_| Ok(fs::rename(&part, &file)?));
    if packed.is_err() {
        let _ = fs::remove_file(&part);
    }
    packed?;
    remove_old(cache)
}

/// The folder of the server and its source, and their names in it.
fn places(build: &Build) -> Result<(&Path, [OsString; 2])> {
    let folder = build.installed.parent().context("a folder")?;
    let name = |path: &'_ Path| path.file_name().map(|name| name.to_owned()).context("a name");
    Ok((folder, [name(&build.installed)?, name(&build.source)?]))
}

fn remove_old(cache: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(cache)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("postgresql-")) {
            files.push((path.metadata()?.modified()?, path));
        }
    }
    files.sort();
    for (_, path) in &files[..files.len().saturating_sub(KEPT)] {
        fs::remove_file(path)?;
    }
    Ok(())
}

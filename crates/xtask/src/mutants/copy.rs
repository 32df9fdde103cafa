//! A copy of the tree with all mutants in it.
//!
//! The functions that say whether a mutant is alive are a file of the test kit. In the copy this file is a
//! module of the core, on which all crates with mutants depend, and the test kit uses it from there.
//!
//! A file is written only if it changes, so that cargo builds only what has changed since the last copy.

use crate::programs::output;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ALIVE: &str = "crates/testkit/src/mutants/alive.rs";
const IN_THE_CORE: &str = "crates/core/src/mutant.rs";
const CORE: &str = "crates/core/src/lib.rs";

/// The copy.
pub(super) struct Copy {
    /// Its sources.
    pub tree: PathBuf,
    /// What is built from them.
    pub target: PathBuf,
    /// The output of cargo.
    pub log: PathBuf,
    /// The output of each hunt.
    pub hunts: PathBuf,
}

impl Copy {
    /// Makes the copy below `folder`, or brings it up to date: the files of `repository` that git does not
    /// ignore, those in `woven` with that text.
    pub(super) fn update(repository: &Path, folder: &Path, woven: &BTreeMap<String, String>) -> Result<Self> {
        let tree = folder.join("tree");
        let files = contents(repository, woven)?;
        for (name, bytes) in &files {
            write_if_new(&tree.join(name), bytes)?;
        }
        let names: BTreeSet<PathBuf> = files.keys().map(|name| tree.join(name)).collect();
        remove_others(&tree, &names)?;
        let (target, log, hunts) = (folder.join("target"), folder.join("build.log"), folder.join("hunts"));
        fs::create_dir_all(&hunts).with_context(|| format!("{} cannot be made", hunts.display()))?;
        Ok(Self { tree, target, log, hunts })
    }
}

/// The files of the copy.
fn contents(repository: &Path, woven: &BTreeMap<String, String>) -> Result<BTreeMap<String, Vec<u8>>> {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = output(Command::new("git").args(listed).current_dir(repository))?;
    let mut files = BTreeMap::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let path = repository.join(name);
        if !path.is_file() {
            // Removed, and git does not know it yet.
            continue;
        }
        let bytes = match woven.get(name) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?,
        };
        files.insert(name.to_owned(), bytes);
    }
    let reexport = b"//! See the core's module `mutant`.\n\npub use entresol_core::mutant::*;\n".to_vec();
    let alive = files.insert(ALIVE.to_owned(), reexport);
    files.insert(IN_THE_CORE.to_owned(), alive.with_context(|| format!("{ALIVE} is not there"))?);
    let core = files.get_mut(CORE).with_context(|| format!("{CORE} is not there"))?;
    core.extend_from_slice(b"\npub mod mutant;\n");
    Ok(files)
}

fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// Removes the files below `folder` that are none of `names`.
fn remove_others(folder: &Path, names: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, names)?;
        } else if !names.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        output(Command::new("git").args(arguments).current_dir(folder)).unwrap();
    }

    #[test]
    fn a_second_copy_writes_what_has_changed_alone() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repository");
        let write = |name: &str, text: &str| write_if_new(&repository.join(name), text.as_bytes()).unwrap();
        write(ALIVE, "//! Who lives.\n");
        write(CORE, "//! The core.\n");
        write("kept.rs", "a");
        write("woven.rs", "b");
        write("gone.rs", "c");
        write("ignored/out", "d");
        write(".gitignore", "ignored\n");
        git(&repository, &["init", "-q"]);
        git(&repository, &["add", "-A"]);
        let woven = BTreeMap::from([("woven.rs".to_owned(), "b with a bug".to_owned())]);
        let copy = Copy::update(&repository, &folder.path().join("copy"), &woven).unwrap();
        let read = |name: &str| fs::read_to_string(copy.tree.join(name)).ok();
        assert_eq!(read("woven.rs").as_deref(), Some("b with a bug"));
        assert_eq!(read(IN_THE_CORE).as_deref(), Some("//! Who lives.\n"));
        assert_eq!(read(CORE).as_deref(), Some("//! The core.\n\npub mod mutant;\n"));
        assert!(read(ALIVE).unwrap().contains("entresol_core::mutant"));
        assert_eq!((read("gone.rs").as_deref(), read("ignored/out")), (Some("c"), None));

        let times = ["kept.rs", "woven.rs"]
            .map(|name| fs::metadata(copy.tree.join(name)).unwrap().modified().unwrap());
        fs::remove_file(repository.join("gone.rs")).unwrap();
        write("new.rs", "e");
        let woven = BTreeMap::from([("woven.rs".to_owned(), "b with another bug".to_owned())]);
        let copy = Copy::update(&repository, &folder.path().join("copy"), &woven).unwrap();
        let read = |name: &str| fs::read_to_string(copy.tree.join(name)).ok();
        assert_eq!((read("gone.rs"), read("new.rs").as_deref()), (None, Some("e")));
        assert_eq!(read("woven.rs").as_deref(), Some("b with another bug"));
        let time = fs::metadata(copy.tree.join("kept.rs")).unwrap().modified().unwrap();
        assert_eq!(time, times[0], "a file that has not changed keeps its time");
    }
}
